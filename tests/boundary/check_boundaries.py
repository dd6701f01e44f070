"""Fails when the source tree or what was built of it crosses a boundary of the architecture.

    check_boundaries.py --source DIR includes
    check_boundaries.py --source DIR --header-sets FILE headers
    check_boundaries.py --source DIR --build DIR [--ninja NINJA] objects
    check_boundaries.py --consumer PROGRAM --producer PROGRAM needed

Several checks may be named at once. Every crossing is one line on standard error, and the exit status is 1. A check that
finds nothing to look at fails too.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("common", "producer", "consumer")
SOURCES = {".hpp", ".cpp", ".inl", ".h", ".cu", ".cuh"}
DEVICE_CODE = {".cu", ".cuh"}
KERNELS = "producer/runner/kernels/"
INCLUDE = re.compile(r"^\s*#\s*include\s*(?:(?P<open>[<\"])(?P<path>[^>\"]+)[>\"]|(?P<macro>\w+))")

CUDA_HEADERS = r"(cuda|cudart|cuda_\w+|driver_types|vector_types|device_launch_parameters|nvml|cublas\w*|cudnn\w*)\.hp*$"

# The libraries of each side, and which others of that side each may know. Programs stand above them, and no library knows one.
LIBRARIES = {
    "producer/device/": (),
    "producer/ledger/": (),
    "producer/pool/": ("ledger",),
    "producer/broker/": ("ledger", "pool"),
    "producer/egress/": ("device", "pool", "ledger", "broker"),
    "consumer/session/": (),
}
# Of common/ what is for programs alone.
FOR_PROGRAMS = r"common/(settings|images)/"
# The rooms of common/, and which others of it each may know.
ROOMS_OF_COMMON = {
    "common/abi/": ("base",),
    "common/base/": (),
    "common/numerics/": (),
    "common/wire/": ("base",),
    "common/shm/": ("base",),
    "common/safetensors/": ("base",),
    "common/transport/": ("base", "shm", "wire"),
    "common/quarantine/": ("base", "safetensors", "wire"),
    "common/settings/": ("base", "shm"),
    "common/images/": ("base", "settings", "wire"),
}


def library_rules():
    for library, others in LIBRARIES.items():
        side, own = library.rstrip("/").split("/")
        known = "|".join((own, *others))
        yield library, None, rf"{side}/(?!({known})/)", f"{library} is a library: it may know {known.replace('|', ', ')} of its side, and no program"
        yield library, None, FOR_PROGRAMS, f"{library} is a library: settings/ and images/ are for programs"


def room_rules():
    for room, others in ROOMS_OF_COMMON.items():
        own = room.rstrip("/").split("/")[1]
        known = "|".join((own, *others))
        yield room, None, rf"common/(?!({known})/)", f"{room} may know {known.replace('|', ', ')} of common/"


# (files it speaks of, files excepted, what they may not include, why)
INCLUDE_RULES = [
    (r"common/", None, r"(producer|consumer|tests)/", "common/ knows no one else of the project"),
    (r"consumer/", None, r"(producer|tests)/", "consumer/ knows only common/"),
    (r"producer/", None, r"tests/", "producer/ knows no tests"),
    (r"producer/", r"producer/ladder/", r"consumer/", "of the producer only ladder/ may know consumers"),
    (r"producer/", r"producer/ladder/", r"producer/ladder/", "producer/ladder/ is a program: nobody else may know it"),
    (r"", r"producer/runner/kernels/", CUDA_HEADERS + r"|(cub|thrust|nv|cuda)/", "CUDA is included under producer/runner/kernels/ only"),
    (r"producer/device/", None, r"common/numerics/", "producer/device/ computes nothing: kernels are the runner's"),
    (r"", r"producer/runner/models/", r"(torch|ATen|c10|caffe2)/", "LibTorch is included under producer/runner/models/ only"),
    (r"", r"common/transport/", r"zmq(_\w+)?\.h", "ZeroMQ is included under common/transport/ only"),
    (r"", r"common/shm/", r"boost/interprocess/", "Boost.Interprocess is included under common/shm/ only"),
    (r"", r"consumer/sinks/sqlite/", r"sqlite3\.h", "SQLite is included under consumer/sinks/sqlite/ only"),
    (r"", r"consumer/sinks/http/", r"curl/", "libcurl is included under consumer/sinks/http/ only"),
    (r"", r"consumer/sinks/postgres/", r"libpq", "libpq is included under consumer/sinks/postgres/ only"),
    (r"", r"consumer/sinks/parquet/parquet_module\.cpp", r"(arrow|parquet)/", "Arrow is included in consumer/sinks/parquet/parquet_module.cpp only"),
    (r"", r"common/settings/", r"CLI/", "CLI11 is included under common/settings/ only"),
    (r"", r"common/settings/toml\.cpp", r"toml\+\+/", "toml++ is included in common/settings/toml.cpp only"),
    (r"producer/egress/", r"producer/egress/egress_run\.cpp", r"producer/(ledger|broker)/", "of the egress only egress_run knows ledger and broker"),
    (r"common/abi/include/", None, r"(common|producer|consumer|tests)/", "installed headers include nothing of the tree"),
    (r"consumer/sinks/", None, r"consumer/(?!sinks/)|common/(?!base/)", "consumer/sinks/ knows only common/base/"),
    (r"producer/ladder/", r"producer/ladder/(main|rung_egress)\.", r"producer/runner/", "of producer/ladder/ only main and rung_egress know the runner"),
    *library_rules(),
    *room_rules(),
]

# What no object of common/ and consumer/ may have read, by whatever road it came in.
GPU_HEADER = re.compile(r"/(nvidia/cu[0-9]+|cuda[^/]*|torch|ATen|c10|producer/device|producer/runner/kernels)/")
# NVTX is header-only and needs no GPU. The compiler may name it by its place in the CUDA Toolkit.
NVTX_HEADER = re.compile(r"/nvtx3/")

GPU_LIBRARY = re.compile(r"^lib(cu(da|dart|blas|dnn|fft|rand|solver|sparse|pti)|torch|c10|nccl|nv(rtc|JitLink|idia))")

# What consumers' results go to: of the producer's side only the ladder's program, which runs a processor itself, links it.
SINK_LIBRARY = re.compile(r"^lib(curl|pq|sqlite3?)\b")


def sources_under(source):
    return [path for folder in FOLDERS for path in sorted((source / folder).rglob("*")) if path.suffix in SOURCES]


def check_includes(source):
    files = sources_under(source)
    if not files:
        return [f"no source files under {source}"]
    problems = []
    for path in files:
        name = path.relative_to(source).as_posix()
        if path.suffix in DEVICE_CODE and not name.startswith(KERNELS):
            problems.append(f"{name}: device code lies under {KERNELS} only")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            place = f"{name}:{number}"
            if match["macro"]:
                problems.append(f"{place}: includes through the macro {match['macro']}: write the header's name")
                continue
            included = match["path"]
            if ".." in included.split("/"):
                problems.append(f"{place}: {included}: includes start at the repository root")
            if match["open"] == '"' and not re.match(r"(common|producer|consumer|tests)/", included):
                problems.append(f"{place}: \"{included}\": includes of the project start at the repository root")
            for of, excepted, forbidden, why in INCLUDE_RULES:
                if re.match(of, name) and not (excepted and re.match(excepted, name)) and re.match(forbidden, included):
                    problems.append(f"{place}: includes {included}: {why}")
    return problems


def check_headers(source, header_sets):
    """Every header belongs to a set of headers that are compiled alone. The file lists those sets' headers, one a line. A .cuh is nvcc's."""
    listed = {Path(os.path.normpath(line)) for line in header_sets.read_text().splitlines() if line}
    headers = [path for path in sources_under(source) if path.suffix in {".hpp", ".h"}]
    if not headers:
        return [f"no headers under {source}"]
    return [f"{path.relative_to(source)}: is in no target's HEADERS, so that nothing compiles it alone"
            for path in headers if Path(os.path.normpath(path)) not in listed]


def check_objects(source, build, ninja):
    # -n: a reader must not compact the log under the ninja that may be running this check.
    done = subprocess.run([ninja, "-C", str(build), "-n", "-t", "deps"], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"'{ninja} -t deps' failed: {done.stderr.strip()}"]
    problems = []
    looked_at = set()
    target = None
    for line in done.stdout.splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
            folder = target.split("/")[0]
            watched = folder in ("common", "consumer")
            if watched:
                looked_at.add(folder)
        elif line.strip() and target and watched:
            header = "/" + place_of(line.strip(), source, build)
            if GPU_HEADER.search(header) and not NVTX_HEADER.search(header):
                problems.append(f"{target}: has read {header}: common/ and consumer/ see no CUDA and no LibTorch")
    problems += [f"no object under {build}/{folder} is known to ninja: nothing was checked"
                 for folder in ("common", "consumer") if folder not in looked_at]
    return problems


def place_of(path, source, build):
    """The path below source or build, so that their own names ("~/cuda/offramp") cannot look like a toolkit's."""
    absolute = os.path.normpath(os.path.join(build, path))
    for root in (build, source):
        if absolute.startswith(f"{root}/"):
            return os.path.relpath(absolute, root)
    return absolute.lstrip("/")


def check_needed(consumer, producer):
    return [*not_needed(consumer, GPU_LIBRARY, "the consumer links no GPU library"),
            *not_needed(producer, SINK_LIBRARY, "the producer links nothing that results are written to")]


def not_needed(program, forbidden, why):
    done = subprocess.run(["readelf", "--wide", "--dynamic", str(program)], capture_output=True, text=True)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)
    if done.returncode != 0 or not needed:
        return [f"{program}: readelf finds no shared library that it needs: {done.stderr.strip() or 'not a dynamic program'}"]
    return [f"{program}: needs {library}: {why}" for library in needed if forbidden.match(library)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--build", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--ninja", default="ninja")
    parser.add_argument("--header-sets", type=Path)
    parser.add_argument("--consumer", type=Path)
    parser.add_argument("--producer", type=Path)
    parser.add_argument("checks", nargs="+", choices=["includes", "headers", "objects", "needed"])
    given = parser.parse_args()
    run = {
        "includes": lambda: check_includes(given.source),
        "headers": lambda: check_headers(given.source, given.header_sets),
        "objects": lambda: check_objects(given.source, given.build, given.ninja),
        "needed": lambda: check_needed(given.consumer, given.producer),
    }
    problems = [problem for check in given.checks for problem in run[check]()]
    for problem in problems:
        print(f"boundary crossed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
