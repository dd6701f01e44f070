"""Which libraries of the system programs need that not every system has, and under what licenses they come."""

import pathlib
import re
import subprocess

# What auditwheel leaves to the system, of what ours need: the C library's parts, the compiler's, and zlib.
OF_EVERY_SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|z))\.so\b.*")


def libraries(programs):
    """Their real files under the names by which they are asked for."""
    found = {}
    for program in programs:
        said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said, re.MULTILINE):
            if not OF_EVERY_SYSTEM.fullmatch(name):
                found[name] = pathlib.Path(path)
    return [found[name] for name in sorted(found)]


def license_of(library):
    """(package, file with its license) where Debian's dpkg knows both."""
    try:
        said = subprocess.run(["dpkg", "-S", str(library.resolve())], capture_output=True, text=True, check=False).stdout
        said = said or subprocess.run(["dpkg", "-S", f"*/{library.resolve().name}"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    package = said.partition(":")[0].strip()
    text = pathlib.Path("/usr/share/doc", package, "copyright")
    return [(package, text)] if package and text.exists() else []
