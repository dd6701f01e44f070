"""Clean environments outside the tree, for the Pythons of this machine: each contains only the wheel and NumPy."""

import configparser
import functools
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import zipfile

from installed import BUILD

MINORS = range(9, 16)
OWN = sys.version_info[1]
EVERY = os.environ.get("OFFRAMP_TEST_PYTHONS") == "all"
FETCH_SECONDS = 60
QUIETLY = ("--disable-pip-version-check", "install", "--quiet", "--no-input", "--no-compile")
COMMAND = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


class Unavailable(Exception):
    """A requirement that this machine lacks."""


@functools.lru_cache
def python_of(minor):
    """An interpreter of CPython 3.`minor`, or None."""
    name = f"python3.{minor}"
    homes = sorted(pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"), reverse=True)
    for candidate in (f"/usr/bin/{name}", *map(str, homes), shutil.which(name)):
        code = f"import sys, venv; sys.exit(sys.version_info[:2] != (3, {minor}))"
        if (
            candidate
            and os.path.exists(candidate)
            and subprocess.run([candidate, "-c", code], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return None


def selected_minors():
    """The oldest and the newest installed minor version, or all if EVERY is set."""
    here = [minor for minor in MINORS if python_of(minor)]
    return here if EVERY else sorted({here[0], here[-1]})


def run(*command, **options):
    options = {"timeout": 300, **options}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Environments:
    """Owns: folders in `world`. Thread: any."""

    def __init__(self, world, wheel):
        self._world, self._wheel = world, wheel
        self._lock = threading.Lock()

    def of(self, minor, with_numpy=True):
        """The environment's folder. Errors: Unavailable."""
        if python_of(minor) is None:
            raise Unavailable(f"Python 3.{minor} is not installed")
        folder = self._world / f"3.{minor}{'' if with_numpy else '-bare'}"
        with self._lock:
            if not folder.exists():
                self._make(minor, folder)
            if with_numpy and not (site_of(folder) / "numpy").exists():
                link_numpy(minor, site_of(folder))
        return folder

    def _make(self, minor, folder):
        """
        Installs with this Python's pip, which does not support much newer Pythons; with EVERY, each Python uses its
        pip.
        """
        brings_pip = EVERY and minor != OWN
        run(python_of(minor), "-m", "venv", *["--without-pip"] * (not brings_pip), folder)
        if brings_pip:
            run(folder / "bin" / "python", "-m", "pip", *QUIETLY, "--no-deps", "--no-index", self._wheel)
        elif minor == OWN:
            run(
                sys.executable,
                "-m",
                "pip",
                "--python",
                folder / "bin" / "python",
                *QUIETLY,
                "--no-deps",
                "--no-index",
                self._wheel,
            )
        else:
            unpack(self._wheel, folder)


def site_of(folder):
    return next(folder.glob("lib/python3*/site-packages"))


def unpack(wheel, folder):
    """Unpacks the wheel like pip, ten times faster."""
    site = site_of(folder)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = pathlib.Path(archive.extract(member, site))
            if not member.is_dir():
                path.chmod(0o644 | (member.external_attr >> 16 & 0o111))
    entry_points = configparser.ConfigParser()
    entry_points.read(next(site.glob("offramp-*.dist-info")) / "entry_points.txt")
    for name, entry in entry_points["console_scripts"].items():
        module, _, function = entry.partition(":")
        script = folder / "bin" / name
        script.write_text(COMMAND.format(python=folder / "bin" / "python", module=module, function=function))
        script.chmod(0o755)


def link_numpy(minor, site):
    """Links this Python's NumPy, or for another Python a downloaded one, kept beside the build. Errors: Unavailable."""
    spec = importlib.util.find_spec("numpy")
    packages = pathlib.Path(spec.origin).parents[1] if minor == OWN and spec is not None else fetched_numpy(minor)
    for name in ("numpy", "numpy.libs"):
        (site / name).symlink_to(packages / name)


def fetched_numpy(minor):
    folder = BUILD / "tests" / "package" / f"numpy-3.{minor}"
    if not folder.exists():
        partial = folder.with_suffix(f".{os.getpid()}")
        command = [
            sys.executable,
            "-m",
            "pip",
            *QUIETLY,
            *"--retries 0 --timeout 10 --no-deps --only-binary :all: --python-version".split(),
            f"3.{minor}",
            "--target",
            str(partial),
            "numpy",
        ]
        try:
            is_installed = (
                subprocess.run(command, capture_output=True, timeout=FETCH_SECONDS, check=False).returncode == 0
            )
        except subprocess.TimeoutExpired:
            is_installed = False
        if not is_installed:
            shutil.rmtree(partial, ignore_errors=True)
            raise Unavailable(f"NumPy for Python 3.{minor} cannot be downloaded")
        os.rename(partial, folder)
    return folder
