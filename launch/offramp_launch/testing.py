"""Builds and runs the tests, plainly or under the sanitizers. The verdict is ctest's own."""

import platform
import subprocess

from offramp_launch.environment import ccache_environment
from offramp_launch.setting_up import set_up_tests

# What cannot be judged there is left out: LibTorch was not built for a sanitizer; libzmq neither, and ThreadSanitizer, which
# does not see its locks, would call its queues races. The matrix of crashes preloads a library, and a sanitizer's must come first.
SANITIZED = {
    "asan": ["-LE", "^(models|e2e-with-torch|crash)$"],
    "tsan": ["-L", "threads", "-LE", "zmq"],
}
# Minutes of a compiler for what smaller ones show too: run when they are asked for.
UNLESS_ASKED = ["-LE", "^slow$"]
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
    presets = list(SANITIZED) if sanitizers else ["release"]
    set_up_tests(places, flags, presets)
    for preset in presets:
        code = run_ctest(places, preset, arguments)
        if code != 0:
            return code
    return 0


def run_ctest(places, preset, arguments):
    print(f"[test] {preset}", flush=True)
    environment = ccache_environment(places)
    if preset in SANITIZED:
        for name, options in SANITIZER_OPTIONS.items():
            environment.setdefault(name, options)
    return subprocess.run([*without_random_addresses(preset), *ctest_command(places, preset, arguments)], env=environment,
                          check=False).returncode


def ctest_command(places, preset, arguments):
    return ["ctest", "--test-dir", str(places.build_folder(preset)), "--output-on-failure", "--no-tests=error", "-j", str(AT_ONCE),
            *SANITIZED.get(preset, [] if arguments else UNLESS_ASKED), *arguments]


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
