"""
Checks of builds: the headers that objects read, the archives and libraries that programs link, the symbols that the
library exports. check_boundaries.py runs and lists them.
"""

import os
import re
import subprocess

# Toolkits that common/, consumer/ and the libraries never see, in any folder.
GPU_TOOLKIT = re.compile(r"/(nvidia/cu[0-9]+|cuda[^/]*|torch|ATen|c10)/")
# NVTX is header-only and needs no GPU. Its path may be in the CUDA Toolkit.
NVTX_HEADER = re.compile(r"/nvtx3/")

GPU_LIBRARY = re.compile(r"^lib(cu(da|dart|blas|dnn|fft|rand|solver|sparse|pti)|torch|c10|nccl|nv(rtc|JitLink|idia))")
# Libraries of sinks: on the producer's side only the ladder links them, because it runs a processor itself.
SINK_LIBRARY = re.compile(r"^lib(curl|pq|sqlite3?)\b")
OPENED_WHEN_ASKED_FOR = re.compile(r"^lib(curl|pq|tiff|arrow|parquet)\b")
# The libraries that libofframp.so may need: libzmq and those of every C++ program. glibc contains librt, libdl and
# libpthread since 2.34.
NEEDED_BY_THE_LIBRARY = {
    "libzmq.so.5",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "libm.so.6",
    "librt.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "ld-linux-x86-64.so.2",
}
SANITIZER_LIBRARY = re.compile(r"^lib(a|t|ub)san\.so")

# NVTX's names of streams, only for profilers, need NVIDIA's types if a toolkit is present.
NAMES_NO_STREAM = r"(?!.*\bstream_name\.cpp)"

# The folder of objects that only libofframp.so has.
SHARED_OBJECTS = "CMakeFiles/offramp_shared.dir/"
# Calls that would end or disturb the library's host process.
DISTURBING = {
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "raise",
    "kill",
    "tgkill",
    "pthread_kill",
    "signal",
    "sigaction",
    "signalfd",
    "system",
    "fork",
    "vfork",
    "execv",
    "execve",
    "execvp",
    "posix_spawn",
    "puts",
    "printf",
    "vprintf",
    "perror",
    "_ZSt4cout",
    "_ZSt4cerr",
    "_ZSt4clog",
}
DECLARED = re.compile(r"^OFFRAMP_API\b[^;{]*?\b(offramp_\w+)\s*\(", re.MULTILINE)


def closure(table):
    """{folder: rooms that its files may include directly or indirectly}"""
    short = {folder.rstrip("/").partition("/")[2]: set(others) for folder, others in table.items()}
    grown = True
    while grown:
        grown = False
        for others in short.values():
            more = set().union(*(short.get(other, set()) for other in others)) - others
            others |= more
            grown = grown or bool(more)
    return {folder: {name, *short[name]} for folder in table for name in [folder.rstrip("/").partition("/")[2]]}


def rooms_of_the_library(libraries, rooms_of_common, for_programs):
    """The folders of libofframp.so's sources."""
    return (*libraries, *(room for room in rooms_of_common if not re.match(for_programs, room)))


def object_rules(libraries, rooms_of_common, for_programs):
    """[(folders of objects, headers that they may not read, why)]"""
    rules = [
        (r"(common|consumer)/", GPU_TOOLKIT, "common/ and consumer/ see no CUDA and no LibTorch"),
        (r"common/", re.compile(r"^/(producer|consumer|tests)/"), "common/ knows only itself"),
        (r"consumer/", re.compile(r"^/(producer|tests)/"), "consumer/ knows only common/"),
        (
            r"producer/(?!ladder/)",
            re.compile(r"^/(consumer|tests|producer/ladder)/"),
            "of the producer only ladder/ may know consumers, and no other folder may know ladder/",
        ),
    ]
    for folder, known in closure(libraries).items():
        side, others = folder.split("/")[0], "|".join(sorted(known))
        rules.append(
            (re.escape(folder), re.compile(rf"^/{side}/(?!({others})/)"), f"{folder} is a library: it knows no program")
        )
        rules.append(
            (re.escape(folder), re.compile(f"^/{for_programs}"), f"{folder} is a library: common/app/ is for programs")
        )
        rules.append(
            (
                re.escape(folder) + NAMES_NO_STREAM,
                GPU_TOOLKIT,
                f"{folder} is a library: it sees no CUDA and no LibTorch",
            )
        )
    for folder, known in closure(rooms_of_common).items():
        rules.append(
            (
                re.escape(folder),
                re.compile(rf"^/common/(?!({'|'.join(sorted(known))})/)"),
                f"{folder} knows {', '.join(sorted(known))} of common/",
            )
        )
    inside = "|".join(re.escape(folder) for folder in rooms_of_the_library(libraries, rooms_of_common, for_programs))
    rules.append(
        (
            re.escape(SHARED_OBJECTS),
            re.compile(rf"^/(?!({inside}))(common|producer|consumer|tests)/"),
            "libofframp.so is made of libraries alone",
        )
    )
    rules.append((re.escape(SHARED_OBJECTS), GPU_TOOLKIT, "libofframp.so sees no CUDA and no LibTorch"))
    return [(re.compile(objects), forbidden, why) for objects, forbidden, why in rules]


def check_objects(source, build, ninja, rules):
    """Checks the headers that each object read, from ninja's record of dependency files."""
    # -n: a reader must not compact the log under the ninja that may be running this check.
    done = subprocess.run([ninja, "-C", str(build), "-n", "-t", "deps"], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"'{ninja} -t deps' failed: {done.stderr.strip()}"]
    problems, looked_at, target, watching = [], set(), "", []
    for line in done.stdout.splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
            watching = [(forbidden, why) for objects, forbidden, why in rules if objects.match(target)]
            looked_at.add(target.split("/")[0])
        elif line.strip() and watching:
            header = "/" + place_of(line.strip(), source, build)
            problems += [
                f"{target}: has read {header}: {why}"
                for forbidden, why in watching
                if forbidden.search(header) and not NVTX_HEADER.search(header)
            ]
    problems += [
        f"no object under {build}/{folder} is known to ninja: nothing was checked"
        for folder in ("common", "producer", "consumer")
        if folder not in looked_at
    ]
    return problems


def place_of(path, source, build):
    """The path below source or build, so that a checkout such as "~/cuda/offramp" does not look like a toolkit."""
    absolute = os.path.normpath(os.path.join(build, path))
    for root in (build, source):
        if absolute.startswith(f"{root}/"):
            return os.path.relpath(absolute, root)
    return absolute.lstrip("/")


def check_archives(build, ninja, consumer, producer, library, rooms):
    """
    Checks the archives and objects from which the programs and the library are linked; the library may use only
    `rooms`.
    """
    return [
        *not_linked(
            build,
            ninja,
            consumer,
            lambda archive: archive.startswith(("producer/", "tests/")),
            "the consumer is linked from nothing of the producer",
        ),
        *not_linked(
            build,
            ninja,
            producer,
            lambda archive: archive.startswith(("consumer/", "producer/ladder/", "tests/")),
            "the producer is linked from nothing of consumers and of the ladder",
        ),
        *not_linked(
            build,
            ninja,
            library,
            lambda archive: not archive.startswith((*rooms, SHARED_OBJECTS)),
            "libofframp.so is made of libraries alone",
        ),
    ]


def not_linked(build, ninja, linked, forbidden, why):
    target = place_of(str(linked), build, build)
    done = subprocess.run([ninja, "-C", str(build), "-n", "-t", "query", target], capture_output=True, text=True)
    inputs = [line.strip().lstrip("| ") for line in done.stdout.partition("outputs:")[0].splitlines()]
    archives = [place_of(name, build, build) for name in inputs if name.endswith((".a", ".o"))]
    if done.returncode != 0 or not archives:
        return [f"{linked}: ninja knows nothing that it is linked from: {done.stderr.strip() or 'no archives'}"]
    return [f"{linked}: is linked from {archive}: {why}" for archive in dict.fromkeys(archives) if forbidden(archive)]


def check_needed(consumer, producer, library):
    return [
        *not_needed(consumer, GPU_LIBRARY.match, "the consumer links no GPU library"),
        *not_needed(
            consumer,
            OPENED_WHEN_ASKED_FOR.match,
            "the consumer starts without what few need, and opens it when it is asked for",
        ),
        *not_needed(producer, SINK_LIBRARY.match, "the producer links nothing that results are written to"),
        *not_needed(producer, re.compile(r"libtiff\b").match, "the producer opens libtiff with the first TIFF"),
        *check_library_needs(library),
    ]


def check_library_needs(library):
    return not_needed(
        library,
        lambda name: name not in NEEDED_BY_THE_LIBRARY and not SANITIZER_LIBRARY.match(name),
        "the library needs libzmq and the system's own, and no other",
    )


def not_needed(program, forbidden, why):
    done = subprocess.run(["readelf", "--wide", "--dynamic", str(program)], capture_output=True, text=True)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)
    if done.returncode != 0 or not needed:
        return [
            f"{program}: readelf finds no shared library that it needs: {done.stderr.strip() or 'not a dynamic program'}"
        ]
    return [f"{program}: needs {library}: {why}" for library in needed if forbidden(library)]


def symbols_of(library, which):
    """Each symbol's name, kind and the rest: ["offramp_version", "T", ...]."""
    done = subprocess.run(["nm", "--dynamic", which, "--format=posix", str(library)], capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines() if line]


def check_symbols(library, golden, header):
    """
    The library exports exactly the golden list, the installed header declares the same, and no call of the library
    disturbs its host process.
    """
    exported = {symbol for symbol, *_ in symbols_of(library, "--defined-only")}
    if not exported:
        return [f"{library}: nm finds no symbol that it exports"]
    imported = {symbol.partition("@")[0] for symbol, kind, *_ in symbols_of(library, "--undefined-only")}
    listed = {line for line in golden.read_text().splitlines() if line}
    declared = set(DECLARED.findall(header.read_text()))
    return [
        *(
            f"{library}: calls {name}: a library ends no process, handles no signal and prints nothing"
            for name in sorted(imported & DISTURBING)
        ),
        *(f"{library}: exports {name}, which {golden.name} does not list" for name in sorted(exported - listed)),
        *(f"{library}: does not export {name}, which {golden.name} lists" for name in sorted(listed - exported)),
        *(f"{header}: declares {name}, which {golden.name} does not list" for name in sorted(declared - listed)),
        *(f"{header}: does not declare {name}, which {golden.name} lists" for name in sorted(listed - declared)),
    ]
