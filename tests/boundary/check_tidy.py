#!/usr/bin/env python3
"""
clang-tidy over every C++ file of the product that a build compiles, by .clang-tidy. Every finding is one line on standard error, and the exit status
is 1. Tests, and the module with LibTorch's headers, are read when they are named (`check_tidy.py --build build/release tests`): they would take as long
again.

Most of a file's seconds are those of the headers that it includes. So the sources of a room are read together, as one; where two of them have names of
their own that are the same, in halves. Left out: device code, which nvcc compiles, and the C header that is installed, whose names are C's.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

OLDEST = 19     # earlier ones cannot read libstdc++'s source_location, or know no ExcludeHeaderFilterRegex
NAMES = ("clang-tidy-19", "clang-tidy")
PRODUCT = r"^(common|producer|consumer)\.(?!runner\.models\.offramp_models$)"
FINDING = re.compile(r"^(.*?):(\d+):(\d+): (warning|error): (.*?) \[([\w.,-]+)\]$")
NOT_READ = "clang-diagnostic-error"


def find_tool():
    """The first clang-tidy that is new enough, or None."""
    for name in NAMES:
        if path := shutil.which(name):
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            if int(re.search(r"version (\d+)", said)[1]) >= OLDEST:
                return path
    return None


def rooms(build, source):
    """The build's sources with one set of flags each: (name, arguments, folder, files). A file that several targets compile is read once."""
    found, seen = {}, set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        arguments = shlex.split(entry["command"])
        output = arguments[arguments.index("-o") + 1]
        own = source in file.parents and build not in file.parents
        together = file.parent.name == "Unity"      # a test program's, which the build has put together
        if not (own or together) or file in seen or file.suffix == ".c" or "offramp_shared.dir" in output:
            continue
        seen.add(file)
        flags = [argument for argument in arguments[1:arguments.index("-o")] if argument != "-Werror"]
        name = re.sub(r"/?CMakeFiles/|\.dir/.*", "/", output).strip("/").replace("/", ".")
        found.setdefault((name, tuple(flags), entry["directory"]), []).append(file)
    return [(name, flags, folder, files) for (name, flags, folder), files in found.items()]


def findings_of(tool, config, folder, room):
    """(the lines that clang-tidy says of the files, how many of them it read)."""
    name, flags, directory, files = room
    file = folder / f"{name}-{files[0].stem}-{len(files)}.cpp"
    file.write_text("".join(f'#include "{path}"\n' for path in files))
    command = [tool, "--quiet", f"--config-file={config}", str(file), "--", *flags, "-w", "-Wno-invalid-constexpr"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    lines = [line for line in done.stdout.splitlines() if FINDING.match(line)]
    unread = any(FINDING.match(line)[6].startswith(NOT_READ) for line in lines)
    if unread and len(files) > 1:
        half = len(files) // 2
        return [line for part in (files[:half], files[half:]) for line in findings_of(tool, config, folder, (name, flags, directory, part))]
    if done.returncode != 0 and not lines:
        return [f"{files[0]}:1:1: error: clang-tidy ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]} [{NOT_READ}]"]
    return lines


def check(tool, config, build, source, jobs, only=PRODUCT):
    """(every finding once, how many files were read)."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    wanted = [room for room in rooms(build, source) if re.search(only, room[0])]
    wanted.sort(key=lambda room: -len(room[3]))
    with concurrent.futures.ThreadPoolExecutor(jobs) as workers:
        said = list(workers.map(lambda room: findings_of(tool, config, folder, room), wanted))
    lines = {line.replace(f"{source}/", "") for lines in said for line in lines}
    return sorted(lines), sum(len(room[3]) for room in wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2], help="the repository")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a folder that CMake configured and Ninja built")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("room", nargs="?", default=PRODUCT, help="a regular expression: these rooms only (producer.broker)")
    options = parser.parse_args()
    tool = find_tool()
    if tool is None:
        print(f"no clang-tidy {OLDEST} or later is installed: apt-get install {NAMES[0]}", file=sys.stderr)
        return 77
    source = options.source.resolve()
    lines, files = check(tool, source / ".clang-tidy", options.build.resolve(), source, options.jobs, options.room)
    for line in lines:
        print(line, file=sys.stderr)
    if files == 0:
        print(f"{options.build}/compile_commands.json names no source of {source}", file=sys.stderr)
    return 1 if lines or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
