"""Missing Debian packages. packages.sh has the check, since it must work before Python is installed."""

import subprocess


def missing_packages(places):
    """The names in packages-debian.txt that are not installed; None without dpkg."""
    answer = subprocess.run([places.launch / "packages.sh", "missing"], capture_output=True, text=True, check=False)
    return answer.stdout.split() if answer.returncode == 0 else None
