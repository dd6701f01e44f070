"""Builds and runs the tests with ctest: the quick ones or all, optionally under the sanitizers."""

import platform
import subprocess
import xml.etree.ElementTree

from offramp_launch.arguments import take_switch, take_values
from offramp_launch.setup import build
from offramp_launch.setup.environment import ccache_environment
from offramp_launch.setup.build import set_up
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS
from offramp_launch.supervision.scaling import cores_of_this_machine

REQUIREMENTS = ("requirements-export.txt", "requirements-test.txt", "requirements-package.txt")
# Suites that sanitizers cannot check: LibTorch and libzmq were not built for them, and ThreadSanitizer, which does not
# see libzmq's locks, would report its queues as races. The crash matrix preloads a library, but a sanitizer's must come
# first.
SANITIZED = ("asan", "tsan")
LEFT_OUT = {"asan": ["models", "torch", "crash"], "tsan": [".*zmq.*"]}
ONLY = {"tsan": ["-L", "threads"]}
# The label of suites of minutes that --all adds to the quick tests. Arguments that select tests select among all.
SLOW = "slow"
SELECTING = ("-R", "--tests-regex", "-L", "--label-regex", "-I", "--tests-information", "--rerun-failed")
# Tests that start runs wait for half of their time. Measured on two cores; the limit bounds their memory.
TESTS_PER_CORE, MOST_PARALLEL_TESTS = 2, 16
# The lines of a failed test's output that are printed again at the end.
LAST_LINES = 12
SANITIZER_OPTIONS = {
    # The CUDA driver needs the addresses that AddressSanitizer would forbid.
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:protect_shadow_gap=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # By default a process with threads sleeps for a second at its end, and tests fork hundreds.
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=0",
}


def start(places, argv):
    """Returns ctest's exit code. Stops after the first preset that fails, so that its failures are printed last."""
    flags, arguments = take_values(argv, TOOLCHAIN_FLAGS)
    sanitizers, arguments = take_switch(arguments, "--sanitizers")
    everything, arguments = take_switch(arguments, "--all")
    everything = everything or selects_tests(arguments)
    presets = SANITIZED if sanitizers else ["release"]
    set_up(places, flags, REQUIREMENTS, {preset: build.TESTED[preset] for preset in presets})
    for preset in presets:
        code = run_ctest(places, preset, arguments, everything)
        if code != 0:
            return code
    return 0


def selects_tests(arguments):
    return any(argument.startswith(SELECTING) and not argument.startswith("-LE") for argument in arguments)


def run_ctest(places, preset, arguments, everything):
    environment = ccache_environment(places)
    if preset in SANITIZED:
        for name, options in SANITIZER_OPTIONS.items():
            environment.setdefault(name, options)
    print(f"[test] {preset}", flush=True)
    report = report_of(places, preset)
    report.unlink(missing_ok=True)
    command = [*without_random_addresses(preset), *ctest_command(places, preset, arguments, everything)]
    code = subprocess.run(command, env=environment, check=False).returncode
    if code != 0:
        print(failures_in(report), flush=True)
    if code == 0 and not everything and preset not in SANITIZED:
        print(f"\n[test] not run: {', '.join(slow_tests(places))}. To run these, too: ./launch/offramp test --all")
    return code


def report_of(places, preset):
    return places.build_folder(preset) / "tests.xml"


def failures_in(report):
    """The end of each failed test's output, which ctest printed thousands of lines before."""
    try:
        failed = filter(has_failed, xml.etree.ElementTree.parse(report).iterfind("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError):  # ctest could not begin, and printed the reason
        return ""
    ends = ((test.get("name"), (test.findtext("system-out") or "").strip().splitlines()) for test in failed)
    return "\n".join(
        f"\n[test] {name} failed. Its last lines:\n" + "\n".join(lines[-LAST_LINES:]) for name, lines in ends
    )


def has_failed(test):
    """Also true of a test that ctest could not start, such as one without its program. A test may skip itself."""
    skipped = test.find("skipped")
    return test.get("status") == "fail" or skipped is not None and not skipped.get("message", "").startswith("SKIP_")


def ctest_command(places, preset, arguments, everything):
    left_out = [*LEFT_OUT.get(preset, []), *([] if everything else [SLOW])]
    return [
        *("ctest", "--test-dir", str(places.build_folder(preset)), "--output-on-failure", "--no-tests=error"),
        *("--test-output-truncation", "head"),
        *("--progress", "-j", str(parallel_tests()), "--output-junit", str(report_of(places, preset))),
        *ONLY.get(preset, []),
        *(["-LE", f"^({'|'.join(left_out)})$"] if left_out else []),
        *arguments,
    ]


def parallel_tests(cores=None):
    return min(TESTS_PER_CORE * (cores or cores_of_this_machine()), MOST_PARALLEL_TESTS)


def slow_tests(places):
    return (places.build_folder("release") / "slow_tests.txt").read_text().split()


def without_random_addresses(preset):
    """Turns off address randomization, if allowed: with a wide one GCC 12's ThreadSanitizer cannot start."""
    prefix = ["setarch", platform.machine(), "-R"]
    if preset != "tsan":
        return []
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    return prefix if allowed else []
