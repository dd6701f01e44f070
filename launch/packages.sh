#!/bin/sh
# Lists the missing Debian packages of packages-debian.txt, and installs them.
#   packages.sh missing   prints the missing packages, one per line; exits 3 without dpkg
#   packages.sh install   installs them as root or through sudo; does nothing when none is missing;
#                         exits 77 with the command to run when neither is possible, 71 when apt-get fails
set -eu

launch=$(dirname "$(readlink -f "$0")")
packages=$(sed -e 's/#.*//' "$launch/packages-debian.txt" | tr -s ' \t\n' ' ')
newline="
"
logs="${OFFRAMP_BUILD_DIR:-$(dirname "$launch")/build}/logs"

missing() {
    command -v dpkg-query >/dev/null 2>&1 || return 3
    # dpkg-query fails on an unknown name, but still lists the others.
    # shellcheck disable=SC2016,SC2086
    states=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null) || true
    for package in $packages; do
        case "$newline$states$newline" in *"${newline}installed $package$newline"*) ;; *) printf '%s\n' "$package" ;; esac
    done
}

# Runs apt-get on the terminal if there is one, else into a log, and prints the log's end on failure.
apt() {
    if [ -t 1 ]; then
        "$@"
    else
        "$@" >>"$logs/packages.log" 2>&1 || { code=$?; tail -n 30 "$logs/packages.log" >&2; return "$code"; }
    fi
}

install() {
    [ -z "${OFFRAMP_SKIP_PACKAGES:-}" ] || return 0
    code=0
    missing_packages=$(missing) || code=$?
    if [ "$code" -eq 3 ]; then
        echo "offramp: this machine has no dpkg, so it is not Debian or Ubuntu. Install the contents of these packages by hand:" >&2
        echo "    $packages" >&2
        echo "Then run again with OFFRAMP_SKIP_PACKAGES=1." >&2
        return 71
    fi
    [ -n "$missing_packages" ] || return 0
    missing_packages=$(printf '%s' "$missing_packages" | tr '\n' ' ')

    if [ "$(id -u)" -eq 0 ]; then
        become="env"
    elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        become="sudo env"
    else
        echo "offramp: Debian packages are missing, and this user may not install them. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $missing_packages" >&2
        echo "Then run the same command again." >&2
        return 77
    fi

    mkdir -p "$logs"
    echo "[setup] Debian packages: installing $missing_packages"
    began=$(date +%s)
    options="-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    # shellcheck disable=SC2086
    if apt $become DEBIAN_FRONTEND=noninteractive apt-get $options update \
        && apt $become DEBIAN_FRONTEND=noninteractive apt-get $options install -y --no-install-recommends $missing_packages; then
        echo "[setup] Debian packages: installed, $(($(date +%s) - began)) s"
    else
        echo "offramp: apt-get failed; its message is above. To reproduce it, run as root:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $missing_packages" >&2
        return 71
    fi
}

case "${1:-}" in
    missing) missing ;;
    install) install ;;
    *) echo "usage: packages.sh missing | install" >&2; exit 64 ;;
esac
