"""Debian packages, as packages.sh sees them (it must work before Python is there, so the check is its)."""

import subprocess


def missing_packages(places):
    """The names that packages-debian.txt wants and dpkg lacks; None where there is no dpkg."""
    answer = subprocess.run([places.launch / "packages.sh", "missing"], capture_output=True, text=True, check=False)
    return answer.stdout.split() if answer.returncode == 0 else None
