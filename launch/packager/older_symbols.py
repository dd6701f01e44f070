"""
Debian 12's C++ libraries need one symbol version that systems with glibc 2.34 lack: std::condition_variable::wait of
GLIBCXX_3.4.30. Every libstdc++ also has the version GLIBCXX_3.4.11, for older programs. It is the same function, except
that the newer version can throw when a thread is cancelled, and Offramp cancels no threads (libstdc++,
src/c++11/condition_variable.cc and compatibility-condvar.cc). If a copied library needs nothing else of the newer
version, it is patched to need the older one.
"""

import struct

from elftools.elf.elffile import ELFFile

from packager.tools import CannotBuild

NEWER, OLDER = b"GLIBCXX_3.4.30", b"GLIBCXX_3.4.11"
REPLACEABLE = {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"}


def require_older_symbols(path):
    """Patches the file. Errors: CannotBuild if it needs other symbols of the newer version."""
    with open(path, "r+b") as file:
        elf = ELFFile(file)
        needs = elf.get_section_by_name(".gnu.version_r")
        versions = [] if needs is None else [(vernaux.entry, offset) for vernaux, offset in _entries(needs)]
        names = elf.get_section_by_name(".dynstr")
        newer = [(entry, offset) for entry, offset in versions if names.get_string(entry["vna_name"]).encode() == NEWER]
        if not newer:
            return
        symbols = _symbols_of(elf, {entry["vna_other"] for entry, _ in newer})
        if not symbols <= REPLACEABLE:
            raise CannotBuild(
                f"{path.name} needs {', '.join(sorted(symbols - REPLACEABLE))} of {NEWER.decode()}, which systems with glibc 2.34 lack. "
                "Make the wheel on an older system"
            )
        for entry, offset in newer:
            file.seek(names["sh_offset"] + entry["vna_name"])
            file.write(OLDER)
            file.seek(offset)
            file.write(struct.pack("<I", elf_hash(OLDER)))


def _entries(section):
    """Each vernaux, and the file offset of its hash, the first field."""
    offset = section["sh_offset"]
    for verneed, vernauxes in section.iter_versions():
        at = offset + verneed["vn_aux"]
        for vernaux in vernauxes:
            yield vernaux, at
            at += vernaux["vna_next"]
        offset += verneed["vn_next"]


def _symbols_of(elf, versions):
    table, numbers = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    return {symbol.name for index, symbol in enumerate(table.iter_symbols()) if _number(numbers, index) in versions}


def _number(section, index):
    number = section.get_symbol(index)["ndx"]
    return number if isinstance(number, int) else -1


def elf_hash(name):
    """The hash function of the ELF specification."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value
