"""Finds the system libraries that the wheel must bundle, and their licenses."""

import pathlib
import re
import subprocess

# Libraries that auditwheel expects on every system: the C library's parts, the compiler's, and zlib.
OF_EVERY_SYSTEM = re.compile(
    r"(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|z))\.so\b.*"
)


def libraries(programs):
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
    try:
        output = subprocess.run(
            ["dpkg", "-S", str(library.resolve())], capture_output=True, text=True, check=False
        ).stdout
        output = (
            output
            or subprocess.run(
                ["dpkg", "-S", f"*/{library.resolve().name}"], capture_output=True, text=True, check=False
            ).stdout
        )
    except OSError:
        return []
    package = output.partition(":")[0].strip()
    text = pathlib.Path("/usr/share/doc", package, "copyright")
    return [(package, text)] if package and text.exists() else []
