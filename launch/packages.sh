#!/bin/sh
# Says which Debian packages of packages-debian.txt are missing, and installs them.
#   packages.sh missing   prints the missing ones, one a line; exits 3 where there is no dpkg
#   packages.sh install   installs them as root or through sudo; runs nothing when all are there;
#                         exits 77 with the command to run when neither is possible, 71 when apt-get fails
set -eu

launch=$(dirname "$(readlink -f "$0")")
wanted=$(sed -e 's/#.*//' "$launch/packages-debian.txt" | tr -s ' \t\n' ' ')
logs="${OFFRAMP_BUILD_DIR:-$(dirname "$launch")/build}/logs"

missing() {
    command -v dpkg-query >/dev/null 2>&1 || return 3
    # dpkg-query fails when it does not know one of the names, and still lists the others.
    # shellcheck disable=SC2016,SC2086
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p') || true
    for package in $wanted; do
        printf '%s\n' "$installed" | grep -qxF -- "$package" || printf '%s\n' "$package"
    done
}

# Runs apt-get on the screen when there is one, else into a log whose end is shown on failure.
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
    lacking=$(missing) || code=$?
    if [ "$code" -eq 3 ]; then
        echo "offramp: there is no dpkg here, so this is no Debian or Ubuntu. Install what these packages hold by hand:" >&2
        echo "    $wanted" >&2
        echo "then run again with OFFRAMP_SKIP_PACKAGES=1." >&2
        return 71
    fi
    [ -n "$lacking" ] || return 0
    lacking=$(printf '%s' "$lacking" | tr '\n' ' ')

    if [ "$(id -u)" -eq 0 ]; then
        become="env"
    elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        become="sudo env"
    else
        echo "offramp: Debian packages are missing, and this user may not install them. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $lacking" >&2
        echo "then run the same command again." >&2
        return 77
    fi

    mkdir -p "$logs"
    echo "[setup] Debian packages: installing $lacking"
    began=$(date +%s)
    options="-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    # shellcheck disable=SC2086
    if apt $become DEBIAN_FRONTEND=noninteractive apt-get $options update \
        && apt $become DEBIAN_FRONTEND=noninteractive apt-get $options install -y --no-install-recommends $lacking; then
        echo "[setup] Debian packages: installed, $(($(date +%s) - began)) s"
    else
        echo "offramp: apt-get failed, its message stands above. To see it by hand, run as root:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $lacking" >&2
        return 71
    fi
}

case "${1:-}" in
    missing) missing ;;
    install) install ;;
    *) echo "usage: packages.sh missing | install" >&2; exit 64 ;;
esac
