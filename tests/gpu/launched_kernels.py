#!/usr/bin/env python3
"""
Checks that each tool saw a launch of every kernel: compares the kernels in the programs, by cuobjdump, with those that
nvtx_recorder noted.

    launched_kernels.py FOLDER PROGRAM...       FOLDER/TOOL: the recorder's folder per tool, with PID.jsonl

Prints the numbers, and the names of kernels that no run launched. Exit code 1 if there are such kernels, or no tool.
"""

import json
import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^\s*Function\s+(\S+?):?\s*$", re.MULTILINE)


def held_by(program):
    """Mangled names of the program's kernels for all architectures."""
    resources = subprocess.run(
        ["cuobjdump", "--dump-resource-usage", str(program)], capture_output=True, text=True, check=True
    ).stdout
    return set(FUNCTION.findall(resources))


def launched_in(folder):
    events = (
        json.loads(line) for file in pathlib.Path(folder).glob("*.jsonl") for line in file.read_text().splitlines()
    )
    return {event["name"] for event in events if event["event"] == "kernel"}


def readable(name):
    return subprocess.run(["c++filt", name], capture_output=True, text=True, check=False).stdout.strip() or name


def main():
    folder, *programs = sys.argv[1:]
    held = set().union(*map(held_by, programs))
    if not held:
        sys.exit(f"no kernel in {', '.join(programs)}: they were built without CUDA, or cuobjdump reads them otherwise")
    tools = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    if not tools:
        sys.exit(f"no tool was run: {folder} is empty")
    failed = 0
    for tool in tools:
        launched = launched_in(tool)
        missing = sorted(held - launched)
        failed = failed or bool(missing)
        print(f"{tool.name}: {len(held & launched)} of {len(held)} kernels were launched")
        for name in missing:
            print(f"  never launched: {readable(name)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
