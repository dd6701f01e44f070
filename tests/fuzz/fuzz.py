"""
Fuzzes every reader of foreign bytes for some time each, and prints the results:

    python3 tests/fuzz/fuzz.py --seconds 600             with libFuzzer if clang has it (build/fuzz), otherwise with
                                                         g++ (build/release)
    python3 tests/fuzz/fuzz.py --seconds 60 --target broker --target slab-header
    python3 tests/fuzz/fuzz.py --twins                   each reader without one of its bounds: the fuzzer must find it
    python3 tests/fuzz/fuzz.py --replay FILE --target T  one input again

Inputs that reach new code stay in BUILD/corpus/TARGET for the next time. Inputs that end a target go to BUILD/findings.
Exit code 1 if an input ends a target, or if none ends a twin.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TWIN_RUNS = 3_000_000  # most twins need some thousands
TWIN_SECONDS = 600  # on a busy machine
LONGEST_INPUT = 8192  # a slab of the smallest kind
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=0:max_allocation_size_mb=512:hard_rss_limit_mb=2048",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Fuzzing:
    def __init__(self, programs, folder, seed):
        self.programs, self.folder, self.seed = pathlib.Path(programs), pathlib.Path(folder), seed
        (self.folder / "findings").mkdir(parents=True, exist_ok=True)

    def targets(self):
        return subprocess.run(
            [self.programs / "offramp-fuzz", "--list"], capture_output=True, text=True, check=True
        ).stdout.split()

    def fuzz(self, target, seconds):
        """(finding or an empty text, summary line)."""
        corpus = self.folder / "corpus" / target
        self._seeds(target, corpus)
        code, output = self._run("offramp-fuzz", target, f"-max_total_time={seconds}", corpus)
        return ("" if code == 0 else output), f"{target:18} {pace(output)}"

    def twin(self, target):
        """The same for the twin, in which the fuzzer must find an error."""
        with tempfile.TemporaryDirectory(prefix="offramp-fuzz-twin-") as scratch:
            corpus = pathlib.Path(scratch, "corpus")
            self._seeds(target, corpus)
            code, output = self._run(
                f"offramp-fuzz-twin-{target}",
                target,
                f"-runs={TWIN_RUNS}",
                f"-max_total_time={TWIN_SECONDS}",
                corpus,
                artifacts=scratch,
            )
        found = code != 0
        return (
            "" if found else f"the planted error was not found\n{output}"
        ), f"{target:18} planted error {'found: ' + verdict(output) if found else 'NOT FOUND'}"

    def replay(self, target, file):
        code, output = self._run("offramp-fuzz", target, "-runs=0", file)
        return ("" if code == 0 else output), f"{target:18} {'passes' if code == 0 else 'ends'}"

    def _seeds(self, target, corpus):
        subprocess.run(
            [self.programs / "offramp-fuzz", "--seeds", corpus],
            env={**os.environ, "OFFRAMP_FUZZ_TARGET": target},
            check=True,
        )

    def _run(self, program, target, *words, artifacts=None):
        """Exit code and output. The program ends itself if one input takes too long."""
        with tempfile.TemporaryDirectory(prefix="offramp-fuzz-tmp-") as scratch:  # for readers that need files
            environment = {**os.environ, **SANITIZERS, "OFFRAMP_FUZZ_TARGET": target, "TMPDIR": scratch}
            done = subprocess.run(
                [
                    self.programs / program,
                    f"-seed={self.seed}",
                    f"-max_len={LONGEST_INPUT}",
                    "-timeout=25",
                    f"-artifact_prefix={artifacts or self.folder / 'findings'}/{target}-",
                    *words,
                ],
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                check=False,
            )
        return done.returncode, (done.stdout + done.stderr)[-6000:]


def verdict(output):
    """A short description of the error that ended a program."""
    for pattern in (
        r"SUMMARY: \w+Sanitizer: (.{0,100})",
        r"runtime error: (.{0,100})",
        r"broken contract: (.{0,100})",
        r"what\(\): +(.{0,100})",
    ):
        if found := re.search(pattern, output):
            return found[1].strip()
    return "ended"


def pace(output):
    """The summary from the last line of libFuzzer or of the driver."""
    if found := re.search(r"(\d+) runs in (\d+) s, corpus (\d+)", output):
        return f"{found[1]} inputs in {found[2]} s, {found[3]} kept"
    if found := re.search(r"Done (\d+) runs in (\d+) second", output):
        kept = re.findall(r"corp: (\d+)", output)
        return f"{found[1]} inputs in {found[2]} s, {kept[-1] if kept else '?'} kept"
    return f"ENDED: {verdict(output)}"


def clang_with_libfuzzer():
    """A clang that compiles the project's sources: clang 14 lacks std::source_location."""
    for name in ("clang++", *(f"clang++-{version}" for version in range(22, 14, -1))):
        clang = shutil.which(name)
        if clang and links_a_fuzzer(clang):
            return clang
    return None


def links_a_fuzzer(clang):
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "empty.cpp")
        source.write_text(
            '#include <cstddef>\n#include <source_location>\nextern "C" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) '
            "{ return static_cast<int>(std::source_location::current().column() * 0); }\n"
        )
        built = subprocess.run(
            [clang, "-std=c++20", "-fsanitize=fuzzer,address", source, "-o", pathlib.Path(scratch, "empty")],
            capture_output=True,
            check=False,
        )
    return built.returncode == 0


def build(twins):
    """Builds the programs. Returns their folder and the folder for corpus and findings."""
    clang = clang_with_libfuzzer()
    folder = ROOT / "build" / ("fuzz" if clang else "release")
    print(
        f"fuzzer: {'libFuzzer, ' + clang if clang else 'tests/fuzz/stand_alone_driver.cpp; no clang++ with libFuzzer found'}",
        flush=True,
    )
    configure = [
        *"cmake --preset release -B".split(),
        folder,
        "-DOFFRAMP_CUDA=OFF",
        "-DOFFRAMP_MODELS=OFF",
        f"-DCMAKE_CXX_COMPILER={clang}",
    ]
    if clang:
        subprocess.run(configure, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "offramp-fuzz"], check=True)
    if twins:  # only targets that this build has
        listed = subprocess.run(
            [folder / "bin/tests/offramp-fuzz", "--list"], capture_output=True, text=True, check=True
        )
        subprocess.run(
            [
                "cmake",
                "--build",
                folder,
                "--target",
                *(f"offramp-fuzz-twin-{target}" for target in listed.stdout.split()),
            ],
            check=True,
        )
    return folder / "bin/tests", folder / "fuzzing"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=0, help="for each target")
    parser.add_argument("--twins", action="store_true", help="the readers with planted errors as well")
    parser.add_argument("--target", action="append", help="all, when none is named")
    parser.add_argument("--replay", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", metavar="FOLDER", help="build the program there, and keep nothing")
    options = parser.parse_args()
    kept = None
    if options.build:
        subprocess.run(["cmake", "--build", options.build, "--parallel", "2", "--target", "offramp-fuzz"], check=True)
        programs, kept = pathlib.Path(options.build, "bin/tests"), tempfile.TemporaryDirectory(prefix="offramp-fuzz-")
        folder = kept.name
    else:
        programs, folder = build(options.twins)
    fuzzing = Fuzzing(programs, folder, options.seed)
    targets = options.target or fuzzing.targets()
    began, failed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        work = []
        for target in targets:
            if options.replay:
                work.append(pool.submit(fuzzing.replay, target, options.replay))
            if options.seconds:
                work.append(pool.submit(fuzzing.fuzz, target, options.seconds))
            if options.twins:
                work.append(pool.submit(fuzzing.twin, target))
        for done in work:
            found, line = done.result()
            print(line, flush=True)
            if found:
                failed += 1
                print(found, flush=True)
    print(f"{len(work)} done, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())
