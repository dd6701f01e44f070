#!/usr/bin/env python3
"""
Runs clang-tidy with .clang-tidy over every C++ file of a build, including tests. Each finding is a line on standard
error, and the exit status is 1.

Most of the time goes into included headers, so sources of many rooms are read together as one file. Sources whose local
names collide are read again in a second group. Excluded: device code, which nvcc compiles, and the installed C header,
whose names are C's.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.compiled_together import sources_of

OLDEST = 19  # earlier versions cannot read libstdc++'s source_location or lack ExcludeHeaderFilterRegex
NAMES = ("clang-tidy-19", "clang-tidy")
TOGETHER = 100  # sources per group; larger groups collide more often
FINDING = re.compile(r"^(.*?):(\d+):(\d+): (warning|error): (.*?) \[([\w.,-]+)\]$")
NOT_READ = "clang-diagnostic-error"


@dataclasses.dataclass(frozen=True)
class Flags:
    """A compiler's flags: macros and header folders can be united, the rest (-std, -mavx2) must be equal."""

    macros: tuple = ()
    headers: tuple = ()  # each with its -I or -isystem, in order
    rest: tuple = ()

    @staticmethod
    def of(arguments):
        macros, headers, rest = [], [], []
        left = iter(arguments)
        for argument in left:
            if argument in ("-I", "-isystem", "-D"):
                argument += next(left)
            elif argument == "-include":  # a precompiled header, which only GCC reads; the sources include its contents
                next(left)
                continue
            if argument.startswith("-D"):
                macros.append(argument)
            elif argument.startswith(("-I", "-isystem")):
                headers.append(argument)
            elif not argument.startswith(("-O", "-g", "-f", "-W", "--param")):
                rest.append(argument)
        return Flags(tuple(macros), tuple(headers), tuple(rest))

    def fits(self, other):
        """
        Sources with the installed headers have their own names, and LibTorch brings headers of other libraries: both
        are read apart.
        """
        own = {macro.partition("=")[0]: macro for macro in self.macros}
        return (
            self.rest == other.rest
            and all(own.get(macro.partition("=")[0], macro) == macro for macro in other.macros)
            and self.apart() == other.apart()
        )

    def apart(self):
        return {name for name in ("abi/include", "torch") if any(name in folder for folder in self.headers)}

    def united(self, other):
        return Flags(
            tuple(dict.fromkeys(self.macros + other.macros)),
            tuple(dict.fromkeys(self.headers + other.headers)),
            self.rest,
        )


def find_tool():
    """The first clang-tidy that is new enough, or None."""
    for name in NAMES:
        if path := shutil.which(name):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            if int(re.search(r"version (\d+)", version)[1]) >= OLDEST:
                return path
    return None


def compiler_of(build):
    return shlex.split(json.loads((build / "compile_commands.json").read_text())[0]["command"])[0]


def sources(build, source, only=""):
    """{source: flags of the first room that compiles it}. `only`: a pattern that selects rooms."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        arguments = shlex.split(entry["command"])
        output = arguments[arguments.index("-o") + 1]
        room = re.sub(r"/?CMakeFiles/|\.dir/.*", "/", output).strip("/").replace("/", ".")
        for file in sources_of(entry["file"]):
            own = source in file.parents and build not in file.parents
            if own and file.suffix != ".c" and "offramp_shared.dir" not in output and re.search(only, room):
                found.setdefault(file, Flags.of(arguments[1 : arguments.index("-o")]))
    return found


def headers_of(file, source):
    """The project's headers that a source includes unconditionally."""
    text = file.read_text().partition("\n#if")[0]
    return [header for header in re.findall(r'^#include "(.*\.hpp)"', text, re.MULTILINE) if (source / header).exists()]


def groups(files):
    """The files ({path: flags}) in groups that can be read together."""
    found = []
    for file, flags in files.items():
        for group in found:
            if len(group[1]) < TOGETHER and group[0].fits(flags):
                group[0] = group[0].united(flags)
                group[1][file] = flags
                break
        else:
            found.append([flags, {file: flags}])
    return [files for _, files in found]


class Reader:
    """
    Runs clang-tidy. Each file follows the .clang-tidy above it. --config-file would apply the rules to system headers,
    too, which doubles the time. So libraries inside the repository (build/venv) get a .clang-tidy without checks by an
    overlay.
    """

    def __init__(self, tool, build, source, folder):
        self.tool, self.build, self.source, self.folder = tool, build, source, folder
        shutil.copy(source / ".clang-tidy", folder / ".clang-tidy")
        folder_of_headers = subprocess.run(
            [compiler_of(build), "-print-file-name=include"], capture_output=True, text=True, check=True
        ).stdout.strip()
        self.compilers_headers = ["-idirafter", folder_of_headers]  # for the sanitizers' headers
        self.nothing = folder / "nothing"
        self.nothing.write_text("Checks: '-*,clang-diagnostic-error'\n")

    def overlay(self, name, flags):
        """A file for --vfsoverlay."""
        roots = [
            {
                "name": folder.removeprefix("-isystem"),
                "type": "directory",
                "contents": [{"name": ".clang-tidy", "type": "file", "external-contents": str(self.nothing)}],
            }
            for folder in flags.headers
            if folder.startswith("-isystem")
        ]
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"version": 0, "roots": roots}))
        return path

    def read(self, name, files):
        """clang-tidy's findings in the files, one line each."""
        flags = next(iter(files.values()))
        for other in files.values():
            flags = flags.united(other)
        together = self.folder / f"{name}.cpp"
        # Headers first, so that a collision of names is reported in a source and not in a header that a third file
        # includes.
        headers = dict.fromkeys(header for file in files for header in headers_of(file, self.source))
        together.write_text(
            "".join(f'#include "{header}"\n' for header in headers)
            + "".join(
                f'#undef main\n#define main main_of_{number}\n#include "{file}"\n' for number, file in enumerate(files)
            )
        )
        command = [
            self.tool,
            "--quiet",
            f"--vfsoverlay={self.overlay(name, flags)}",
            str(together),
            "--",
            *flags.macros,
            *flags.headers,
            *flags.rest,
            *self.compilers_headers,
            "-w",
            "-Wno-invalid-constexpr",
            "-ferror-limit=0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.build, check=False)
        lines = [line for line in done.stdout.splitlines() if FINDING.match(line)]
        if done.returncode != 0 and not lines:
            lines = [
                f"{next(iter(files))}:1:1: error: clang-tidy ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]} [{NOT_READ}]"
            ]
        unread = {pathlib.Path(match[1]) for match in map(FINDING.match, lines) if match[6].startswith(NOT_READ)}
        if not unread or len(files) == 1:
            return lines
        again = {file: flags for file, flags in files.items() if file in unread}
        # Errors in system headers result from errors in the sources that include them.
        if 0 < len(again) < len(files) and not any(self.source in path.parents for path in unread - again.keys()):
            kept = [line for line in lines if pathlib.Path(FINDING.match(line)[1]) not in unread]
            return kept + self.read(f"{name}-again", again)
        halves = list(files.items())
        return self.read(f"{name}-a", dict(halves[: len(halves) // 2])) + self.read(
            f"{name}-b", dict(halves[len(halves) // 2 :])
        )


def check(tool, build, source, jobs, only=""):
    """(unique findings, number of files read)."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    reader = Reader(tool, build, source, folder)
    files = sources(build, source, only)
    together = sorted(groups(files), key=len, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
        reports = list(workers.map(lambda numbered: reader.read(f"{numbered[0]}", numbered[1]), enumerate(together)))
    lines = {line.replace(f"{source}/", "") for lines in reports for line in lines}
    return sorted(lines), len(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2], help="the repository"
    )
    parser.add_argument(
        "--build", type=pathlib.Path, required=True, help="a folder that CMake configured and Ninja built"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("room", nargs="?", default="", help="a regular expression: these rooms only (producer.broker)")
    options = parser.parse_args()
    tool = find_tool()
    if tool is None:
        print(f"no clang-tidy {OLDEST} or later is installed: apt-get install {NAMES[0]}", file=sys.stderr)
        return 77
    source = options.source.resolve()
    lines, files = check(tool, options.build.resolve(), source, options.jobs, options.room)
    for line in lines:
        print(line, file=sys.stderr)
    if files == 0:
        print(f"{options.build}/compile_commands.json names no source of {source}", file=sys.stderr)
    return 1 if lines or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
