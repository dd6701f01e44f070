"""Builds and runs the tests, plainly or under the sanitizers. The verdict is ctest's own."""

import os
import platform
import subprocess
import time

from offramp_launch.arguments import count
from offramp_launch.setup.environment import ccache_environment
from offramp_launch.setup.setting_up import set_up_tests

# What cannot be judged there is left out: LibTorch was not built for a sanitizer; libzmq neither, and ThreadSanitizer, which
# does not see its locks, would call its queues races. The matrix of crashes preloads a library, and a sanitizer's must come first.
SANITIZED = ("asan", "tsan")
LEFT_OUT = {"asan": ["models", "e2e-with-torch", "crash"], "tsan": [".*zmq.*"]}
ONLY = {"tsan": ["-L", "threads"]}
# Left out unless ctest is told what to run: minutes of a compiler for what smaller ones show too, and of suites that take turns by days all but today's.
SLOW = "slow"
TURNS = (2, 3)
TURN_FROM = "OFFRAMP_TEST_TURN"
# On two cores: tests that start runs wait for a third of their time.
AT_ONCE = 3
SANITIZER_OPTIONS = {
    # The CUDA driver wants the addresses that AddressSanitizer would forbid.
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:protect_shadow_gap=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def run_tests(places, flags, sanitizers, arguments):
    """Returns ctest's exit code. Of several runs the first that fails is the last: what failed is what one reads at the end."""
    presets = SANITIZED if sanitizers else ["release"]
    turn = count(os.environ.get(TURN_FROM, str(time.gmtime().tm_yday)), TURN_FROM)
    set_up_tests(places, flags, presets)
    for preset in presets:
        code = run_ctest(places, preset, arguments, turn)
        if code != 0:
            return code
    return 0


def run_ctest(places, preset, arguments, turn):
    print(f"[test] {preset}" + ("" if arguments else f"; suites that take turns: {', '.join(f'{turn % n + 1} of {n}' for n in TURNS)}, "
                                                     f"again with {TURN_FROM}={turn}"), flush=True)
    environment = {**ccache_environment(places), TURN_FROM: str(turn)}
    if preset in SANITIZED:
        for name, options in SANITIZER_OPTIONS.items():
            environment.setdefault(name, options)
    return subprocess.run([*without_random_addresses(preset), *ctest_command(places, preset, arguments, turn)], env=environment,
                          check=False).returncode


def ctest_command(places, preset, arguments, turn):
    left_out = [*LEFT_OUT.get(preset, []), *([] if arguments else [SLOW, *other_days(turn)])]
    return ["ctest", "--test-dir", str(places.build_folder(preset)), "--output-on-failure", "--no-tests=error", "-j", str(AT_ONCE),
            *ONLY.get(preset, []), *(["-LE", f"^({'|'.join(left_out)})$"] if left_out else []), *arguments]


def other_days(turn):
    return [f"turn-{share}-of-{n}" for n in TURNS for share in range(n) if share != turn % n]


def without_random_addresses(preset):
    """GCC 12's ThreadSanitizer cannot start where the kernel spreads addresses widely; where it may, it runs without that."""
    prefix = ["setarch", platform.machine(), "-R"]
    if preset != "tsan":
        return []
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    return prefix if allowed else []
