"""Fails if the source tree or a build crosses a boundary of the architecture.

    check_boundaries.py --source DIR includes
    check_boundaries.py --source DIR --header-sets FILE headers
    check_boundaries.py --source DIR --build DIR [--ninja NINJA] objects
    check_boundaries.py --build DIR [--ninja NINJA] --consumer PROGRAM --producer PROGRAM archives
    check_boundaries.py --consumer PROGRAM --producer PROGRAM --library LIBRARY needed
    check_boundaries.py --library LIBRARY --symbols FILE --abi-header FILE symbols

includes   #include lines: a folder includes a header outside the tables below
headers    a header is in no library's HEADERS, so nothing compiles it alone
objects    ninja -t deps: an object has read, directly or not, a side, room or toolkit that it may not know
archives   ninja -t query: a program is linked from the other side's archives, or the library from a program's
needed     readelf -d: a program or the library needs a GPU library, or one that must be opened on demand
symbols    nm -D: the library exports more than its list, ends the process, handles signals or prints

Several checks may be named together. Each crossing is a line on standard error, and the exit status is 1. A check that
finds no input fails, too.
"""

import argparse
import os
import re
import sys
from pathlib import Path

from check_built import check_archives, check_needed, check_objects, check_symbols, object_rules, rooms_of_the_library

FOLDERS = ("common", "producer", "consumer")
SOURCES = {".hpp", ".cpp", ".inl", ".h", ".cu", ".cuh"}
DEVICE_CODE = {".cu", ".cuh"}
KERNELS = "producer/runner/kernels/"
INCLUDE = re.compile(r"^\s*#\s*include\s*(?:(?P<open>[<\"])(?P<path>[^>\"]+)[>\"]|(?P<macro>\w+))")

CUDA_HEADERS = (
    r"(cuda|cudart|cuda_\w+|driver_types|vector_types|device_launch_parameters|nvml|cublas\w*|cudnn\w*)\.hp*$"
)

# The libraries of each side, and the others of that side that each may know. No library may know a program.
LIBRARIES = {
    "producer/device/": (),
    "producer/ledger/": (),
    "producer/pool/": ("ledger",),
    "producer/broker/": ("ledger", "pool"),
    "producer/status/": ("ledger", "broker"),
    "producer/recovery/": ("ledger", "pool", "broker"),
    "producer/egress/": ("device", "pool", "ledger", "broker", "status", "recovery"),
    "consumer/session/": (),
}
# The headers of the libraries that programs may include. offramp-producer uses the device's interface, a run's egress,
# and the types that the egress takes and returns. offramp-consumer uses the run, the end of its loop, the search for
# it, the interface of processors, and the C ABI's slab. offramp-ladder fills slabs by itself, for comparison: it meets
# the broker at the exchange.
PRODUCERS_LIBRARIES = "device|egress|pool|ledger|broker|status|recovery"
SHOWN_BY_THE_EGRESS = (
    "device/cuda_failure",
    "device/device",
    "device/device_timeline",
    "device/gpu_search",
    "device/lending_pool",
    "egress/egress_run",
    "egress/output_batch",
    "egress/output_counters",
    "egress/run_lifecycle",
    "egress/run_directory_lock",
    "egress/run_listeners",
    "egress/slab_plan",
    "broker/broker_report",
    "recovery/predecessor",
    "status/status_page",
)
SHOWN_TO_THE_LADDER = (
    *SHOWN_BY_THE_EGRESS,
    "broker/broker_thread",
    "egress/slab_filling",
    "pool/slab_exchange",
)
SHOWN_BY_THE_SESSION = ("consumer_loop", "consumer_run", "run_search", "slab_for_c", "slab_processor")
# The rooms of common/ that only programs use.
FOR_PROGRAMS = "common/app/"
# The rooms of common/, and the others that each may know.
ROOMS_OF_COMMON = {
    "common/abi/": ("base",),
    "common/base/": (),
    "common/numerics/": (),
    "common/wire/": ("base",),
    "common/shm/": ("base",),
    "common/json/": (),
    "common/safetensors/": ("base", "json"),
    "common/transport/": ("base", "shm", "wire"),
    "common/dead_letters/": ("base", "json", "safetensors", "wire"),
    "common/tracing/": ("base", "json", "shm"),
    "common/app/program/": ("base",),
    "common/app/settings/": ("base", "shm"),
    "common/app/images/": ("base", "json", "app/settings", "numerics", "wire"),
    "common/app/texts/": ("base", "app/images", "json", "app/settings"),
}


def library_rules():
    for library, others in LIBRARIES.items():
        side, own = library.rstrip("/").split("/")
        known = "|".join((own, *others))
        yield (
            library,
            None,
            rf"{side}/(?!({known})/)",
            f"{library} is a library: it may know {known.replace('|', ', ')} of its side, and no program",
        )
        yield library, None, FOR_PROGRAMS, f"{library} is a library: common/app/ is for programs"


def room_rules():
    for room, others in ROOMS_OF_COMMON.items():
        own = room.removeprefix("common/").rstrip("/")
        known = "|".join((own, *others))
        yield room, None, rf"common/(?!({known})/)", f"{room} may know {known.replace('|', ', ')} of common/"


def door_rules():
    for program, files, shown in (
        ("offramp-producer", r"producer/(runner/|main\.)", SHOWN_BY_THE_EGRESS),
        ("offramp-ladder", r"producer/ladder/", SHOWN_TO_THE_LADDER),
    ):
        yield (
            files,
            None,
            rf"producer/(?!({'|'.join(shown)})\.hpp)({PRODUCERS_LIBRARIES})/",
            f"{program} uses the libraries through their doors: {', '.join(shown)}",
        )
    yield (
        r"consumer/(?!session/)|producer/ladder/",
        None,
        rf"consumer/session/(?!({'|'.join(SHOWN_BY_THE_SESSION)})\.hpp)",
        f"programs use consumer/session/ through its doors: {', '.join(SHOWN_BY_THE_SESSION)}",
    )


# (files, exceptions, headers that they may not include, why)
INCLUDE_RULES = [
    (r"common/", None, r"(producer|consumer|tests)/", "common/ knows only itself"),
    (r"consumer/", None, r"(producer|tests)/", "consumer/ knows only common/"),
    (r"producer/", None, r"tests/", "producer/ knows no tests"),
    (r"producer/", r"producer/ladder/", r"consumer/", "of the producer only ladder/ may know consumers"),
    (
        r"producer/",
        r"producer/ladder/",
        r"producer/ladder/",
        "producer/ladder/ is a program: no other folder may know it",
    ),
    (
        r"",
        r"producer/runner/kernels/",
        CUDA_HEADERS + r"|(cub|thrust|nv|cuda)/",
        "CUDA is included under producer/runner/kernels/ only",
    ),
    (r"producer/device/", None, r"common/numerics/", "producer/device/ computes nothing: kernels are the runner's"),
    (
        r"",
        r"producer/runner/models/",
        r"(torch|ATen|c10|caffe2)/",
        "LibTorch is included under producer/runner/models/ only",
    ),
    (r"", r"common/transport/", r"zmq(_\w+)?\.h", "ZeroMQ is included under common/transport/ only"),
    (r"", r"common/shm/", r"boost/interprocess/", "Boost.Interprocess is included under common/shm/ only"),
    (r"", r"consumer/sinks/sqlite/", r"sqlite3\.h", "SQLite is included under consumer/sinks/sqlite/ only"),
    (r"", r"consumer/sinks/http/", r"curl/", "libcurl is included under consumer/sinks/http/ only"),
    (r"", r"consumer/sinks/postgres/", r"libpq", "libpq is included under consumer/sinks/postgres/ only"),
    (
        r"",
        r"consumer/sinks/parquet/parquet_module\.cpp|common/app/texts/parquet_rows_module\.cpp",
        r"(arrow|parquet)/",
        "Arrow is included in parquet_module.cpp and parquet_rows_module.cpp only",
    ),
    (r"", r"common/app/settings/", r"CLI/", "CLI11 is included under common/app/settings/ only"),
    (r"", r"common/app/settings/toml\.cpp", r"toml\+\+/", "toml++ is included in common/app/settings/toml.cpp only"),
    (
        r"producer/egress/",
        r"producer/egress/(egress_run|run_listeners|run_directory_lock|run_status)\.",
        r"producer/(ledger|broker|status|recovery)/",
        "of the egress only egress_run, run_listeners, run_directory_lock and run_status know ledger, broker, status and recovery",
    ),
    (
        r"consumer/hosts/",
        None,
        r"consumer/(worker/|processors/plugins/|sinks/(?!files/|segments/))",
        "consumer/hosts/ runs user code: it knows no plug-in and no database",
    ),
    (
        r"consumer/processors/",
        None,
        r"consumer/(hosts|worker)/",
        "consumer/processors/ receives the factory of user processors (MakeHosted)",
    ),
    (
        r"common/abi/include/",
        None,
        r"(common|producer|consumer|tests)/",
        "installed headers include nothing of the tree",
    ),
    (
        r"consumer/processors/(processor|results/run_output)\.hpp",
        None,
        r"consumer/sinks/(?!files/|segments/)",
        "a header that every processor includes knows no database",
    ),
    (r"consumer/sinks/", None, r"consumer/(?!sinks/)|common/(?!base/)", "consumer/sinks/ knows only common/base/"),
    (
        r"producer/ladder/",
        r"producer/ladder/(main|rung_egress|rung_outputs)\.",
        r"producer/runner/",
        "of producer/ladder/ only main, rung_egress and rung_outputs know the runner",
    ),
    *door_rules(),
    *library_rules(),
    *room_rules(),
]

# (call, folders of its code, allowed callers, why). A call from any other folder crosses the boundary.
CALL_RULES = [
    (
        r"\b(RunMemory|SlabLedger|SlabPool)::adopt\(|\bbroker(\.|->)adopt\(",
        r"producer/(pool|ledger|broker)/",
        r"producer/recovery/",
        "a dead producer's run is recovered in producer/recovery/ only",
    ),
    # Flags of docker are allowed.
    (
        r'"[^"]*(?<![\w-])--(?!(shm-size|ipc|memory)\b)[a-z]',
        rf"(?!({'|'.join(LIBRARIES)}|common/(?!app/)))",
        r"(?!)",
        "a library knows no program's flags: its errors use remedy(), which programs replace by their flags (common/base/remedy.hpp)",
    ),
]


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
            problems.append(f"{name}: device code belongs under {KERNELS} only")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            place = f"{name}:{number}"
            if not match:
                problems += [
                    f"{place}: {why}"
                    for called, own, callers, why in CALL_RULES
                    if not re.match(own, name) and not re.match(callers, name) and re.search(called, line)
                ]
                continue
            if match["macro"]:
                problems.append(f"{place}: includes through the macro {match['macro']}: write the header's name")
                continue
            included = match["path"]
            if ".." in included.split("/"):
                problems.append(f"{place}: {included}: includes start at the repository root")
            if match["open"] == '"' and not re.match(r"(common|producer|consumer|tests)/", included):
                problems.append(f'{place}: "{included}": includes of the project start at the repository root')
            for of, excepted, forbidden, why in INCLUDE_RULES:
                if re.match(of, name) and not (excepted and re.match(excepted, name)) and re.match(forbidden, included):
                    problems.append(f"{place}: includes {included}: {why}")
    return problems


def check_headers(source, header_sets):
    """
    Every header belongs to a set of headers that are compiled alone. `header_sets` lists them, one per line. nvcc
    compiles .cuh files.
    """
    listed = {Path(os.path.normpath(line)) for line in header_sets.read_text().splitlines() if line}
    headers = [path for path in sources_under(source) if path.suffix in {".hpp", ".h"}]
    if not headers:
        return [f"no headers under {source}"]
    return [
        f"{path.relative_to(source)}: is in no target's HEADERS, so that nothing compiles it alone"
        for path in headers
        if Path(os.path.normpath(path)) not in listed
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--build", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--ninja", default="ninja")
    parser.add_argument("--header-sets", type=Path)
    parser.add_argument("--consumer", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--producer", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--library", type=lambda text: Path(os.path.abspath(text)))
    parser.add_argument("--symbols", type=Path)
    parser.add_argument("--abi-header", type=Path)
    parser.add_argument(
        "checks", nargs="+", choices=["includes", "headers", "objects", "archives", "needed", "symbols"]
    )
    given = parser.parse_args()
    run = {
        "includes": lambda: check_includes(given.source),
        "headers": lambda: check_headers(given.source, given.header_sets),
        "objects": lambda: check_objects(
            given.source, given.build, given.ninja, object_rules(LIBRARIES, ROOMS_OF_COMMON, FOR_PROGRAMS)
        ),
        "archives": lambda: check_archives(
            given.build,
            given.ninja,
            given.consumer,
            given.producer,
            given.library,
            rooms_of_the_library(LIBRARIES, ROOMS_OF_COMMON, FOR_PROGRAMS),
        ),
        "needed": lambda: check_needed(given.consumer, given.producer, given.library),
        "symbols": lambda: check_symbols(given.library, given.symbols, given.abi_header),
    }
    problems = [problem for check in given.checks for problem in run[check]()]
    for problem in problems:
        print(f"boundary crossed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
