"""
Debian 12's libraries in C++ ask the C++ library for one symbol of a version that systems with glibc 2.34 lack: std::condition_variable::wait of
GLIBCXX_3.4.30. It is the same function as that of GLIBCXX_3.4.11, which every libstdc++ has beside it for older programs, but that the newer may be
left by an exception where a thread is cancelled, which none of ours is (libstdc++, src/c++11/condition_variable.cc and compatibility-condvar.cc).
A copy of a library that needs nothing else of that version is made to ask for the older.
"""

import struct

from elftools.elf.elffile import ELFFile

NEWER, OLDER = b"GLIBCXX_3.4.30", b"GLIBCXX_3.4.11"
MENDED = {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"}


def require_older_symbols(path):
    """Errors: ValueError where it needs more of the newer version."""
    with open(path, "r+b") as file:
        elf = ELFFile(file)
        needs = elf.get_section_by_name(".gnu.version_r")
        asked = [] if needs is None else [(vernaux.entry, place) for vernaux, place in _entries(needs)]
        names = elf.get_section_by_name(".dynstr")
        newer = [(entry, place) for entry, place in asked if names.get_string(entry["vna_name"]).encode() == NEWER]
        if not newer:
            return
        wanted = _symbols_of(elf, {entry["vna_other"] for entry, _ in newer})
        if not wanted <= MENDED:
            raise ValueError(f"{path.name} needs {', '.join(sorted(wanted - MENDED))} of {NEWER.decode()}, which systems with glibc 2.34 have not. "
                             "Make the wheel on an older system")
        for entry, place in newer:
            file.seek(names["sh_offset"] + entry["vna_name"])
            file.write(OLDER)
            file.seek(place)
            file.write(struct.pack("<I", elf_hash(OLDER)))


def _entries(section):
    """Each vernaux, and the place of its hash, its first field, in the file."""
    place = section["sh_offset"]
    for verneed, vernauxes in section.iter_versions():
        at = place + verneed["vn_aux"]
        for vernaux in vernauxes:
            yield vernaux, at
            at += vernaux["vna_next"]
        place += verneed["vn_next"]


def _symbols_of(elf, versions):
    table, numbers = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    return {symbol.name for index, symbol in enumerate(table.iter_symbols()) if _number(numbers, index) in versions}


def _number(section, index):
    number = section.get_symbol(index)["ndx"]
    return number if isinstance(number, int) else -1


def elf_hash(name):
    """As the ELF specification has it."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xf0000000
        value = (value ^ (high >> 24)) & ~high & 0xffffffff
    return value
