"""Configures with CMake and builds with Ninja, as parallel as the machine's memory allows."""

import hashlib
import os

from offramp_launch.setup import environment, toolchain
from offramp_launch.setup.environment import ccache_environment, installed_requirements
from offramp_launch.setup.steps import can_be_set_up, one_at_a_time, run_step, say
from offramp_launch.supervision import control_groups

PROGRAMS = (
    *"offramp-producer offramp-ladder offramp-consumer".split(),
    *"offramp_models offramp_parquet offramp_parquet_texts offramp_shared".split(),
)
PACKAGED = ("offramp-consumer", "offramp_worker", "offramp_shared")
BENCHMARK = ("offramp-message-bench", "offramp_native_reader", "offramp_bench_processors", "offramp-bench-idle-tool")
TESTED = {"release": ("all",), "asan": ("all",), "tsan": ("offramp_tests_with_threads",)}
JOB_BYTES = 2 << 30


def configure(places, preset, definitions):
    """
    Runs CMake unless this folder was configured like this before, with the same packages. Ninja handles changed
    CMakeLists.txt.
    """
    folder = places.build_folder(preset)
    command = ["cmake", "-S", str(places.root), "-B", str(folder), "--preset", preset, *definitions]
    stamp = folder / ".configured"
    inputs = hashlib.sha256(
        "\0".join([*command, installed_requirements(places)]).encode()
        + (places.root / "CMakePresets.json").read_bytes()
    ).hexdigest()
    if (folder / "build.ninja").exists() and stamp.exists() and stamp.read_text() == inputs:
        return
    run_step(f"configure {preset}", command, places.logs / f"configure-{preset}.log")
    stamp.write_text(inputs)


def build(places, preset, targets):
    command = ["ninja", "-C", str(places.build_folder(preset)), "-j", str(parallel_jobs()), *targets]
    log, environment = places.logs / f"build-{preset}.log", ccache_environment(places)
    run_step(f"build {preset}", command, log, environment=environment, quiet_when="ninja: no work to do")


def parallel_jobs(cores=None, memory_bytes=None):
    """One job per core, as far as memory allows: a file that includes LibTorch takes up to 2 GB to compile."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    memory_bytes = available_memory() if memory_bytes is None else memory_bytes
    return max(1, min(cores, memory_bytes // JOB_BYTES))


def available_memory():
    """The machine's available memory, or the control group's limit where that is less."""
    return min(
        control_groups.available_memory() or 2 * JOB_BYTES, control_groups.memory_limit() or control_groups.NO_LIMIT
    )


def prepare_environment(places, flags, extra_requirements=()):
    """Chooses the toolchain and installs into the venv. Returns CMake's definitions."""
    chosen = toolchain.choose(places, flags)
    if chosen.describe():
        say(f"using {chosen.describe()}")
    environment.make_venv(places)
    inputs = toolchain.resolve(places, chosen)
    # Extensions of PyTorch need the set-up's PyTorch; a user's Python is never changed.
    extra = extra_requirements if "requirements-torch.txt" in inputs.requirements else ()
    environment.install_requirements(places, (*inputs.requirements, *extra))
    return inputs.definitions


def set_up(places, flags, extra_requirements=(), builds=None):
    """The environment, and `builds`: {preset: targets}."""
    with one_at_a_time(places):
        definitions = prepare_environment(places, flags, extra_requirements)
        for preset, targets in (builds or {}).items():
            configure(places, preset, definitions)
            build(places, preset, targets)


def set_up_programs(places, flags, extra_requirements=()):
    """Uses another user's build as it is. Errors: LaunchError where that is not enough."""
    if not flags and places.producer().exists() and not can_be_set_up(places):
        say(
            f"{places.build} belongs to another user; its programs are used as they are (OFFRAMP_BUILD_DIR=FOLDER sets up another build)"
        )
        return
    set_up(places, flags, extra_requirements, {"release": PROGRAMS})


def set_up_python(places, flags, extra_requirements):
    """For a command that runs a script; in another user's build the environment is used as it is."""
    if not os.environ.get("OFFRAMP_BIN_DIR") and can_be_set_up(places):
        set_up(places, flags, extra_requirements)
