"""The project's virtual environment: made once, and updated when its requirement files change."""

import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys

from offramp_launch.setup.steps import run_step


def make_venv(places):
    """Makes build/venv with this Python, or the one it was made with; again when its Python no longer starts."""
    if importlib.util.find_spec("pip") if sys.prefix == str(places.venv) else _starts(places.venv_python):
        return
    command = [getattr(sys, "_base_executable"), "-m", "venv", "--clear", str(places.venv)]
    run_step("Python environment", command, places.logs / "venv.log")


def _starts(python):
    try:
        return subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def install_requirements(places, names):
    """Installs the requirement files that are new or have changed."""
    outdated = [
        name
        for name in names
        if _stamp(places, name).exists() is False or _stamp(places, name).read_text() != _hash(places.launch / name)
    ]
    if not outdated:
        return
    command = [str(places.venv_python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if not _has_pip_cache():
        command.append("--no-cache-dir")
    for name in outdated:
        command += ["-r", str(places.launch / name)]
    title = "Python packages (" + ", ".join(name[len("requirements-") : -len(".txt")] for name in outdated) + ")"
    run_step(title, command, places.logs / "pip.log")
    for name in outdated:
        _stamp(places, name).write_text(_hash(places.launch / name))


def installed_requirements(places):
    """A text that changes with the installed packages, which CMake inspects when it configures."""
    return "\n".join(f"{stamp.name} {stamp.read_text()}" for stamp in sorted(places.venv.glob(".installed-*")))


def _stamp(places, name):
    return places.venv / f".installed-{name}"


def _hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _has_pip_cache():
    """Whether the user has a pip cache; without one, pip must not leave gigabytes in the home folder."""
    return "PIP_CACHE_DIR" in os.environ or (pathlib.Path.home() / ".cache" / "pip").is_dir()


def ccache_environment(places):
    """Compiler results go to the user's cache if there is one, else under build/; copies of the tree share them."""
    environment = dict(os.environ)
    environment.setdefault("CCACHE_BASEDIR", str(places.root))
    environment.setdefault("CCACHE_NOHASHDIR", "1")
    # else objects with the tests' precompiled header are not cached
    environment.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
    home = pathlib.Path.home()
    kept = [home / ".ccache", home / ".cache" / "ccache", home / ".config" / "ccache"]
    if "CCACHE_DIR" not in environment and not any(folder.is_dir() for folder in kept):
        environment["CCACHE_DIR"] = str(places.build / "ccache")
    return environment


def missing_packages(places):
    """The names in packages-debian.txt that are not installed; None without dpkg. packages.sh checks."""
    answer = subprocess.run([places.launch / "packages.sh", "missing"], capture_output=True, text=True, check=False)
    return answer.stdout.split() if answer.returncode == 0 else None
