"""Configures with CMake and builds with Ninja, as parallel as the machine's memory allows."""

import hashlib
import os

from offramp_launch.setup.environment import ccache_environment, installed_requirements
from offramp_launch.setup.steps import run_step
from offramp_launch.supervision import control_groups

PROGRAMS = (
    "offramp-producer",
    "offramp-ladder",
    "offramp-consumer",
    "offramp_models",
    "offramp_parquet",
    "offramp_parquet_texts",
    "offramp_shared",
)
PACKAGED = ("offramp-consumer", "offramp_worker", "offramp_shared")
BENCHMARK = ("offramp-message-bench", "offramp_native_reader", "offramp_bench_processors", "offramp-bench-idle-tool")
TESTED = {"release": ("all",), "asan": ("all",), "tsan": ("offramp_tests_with_threads",)}
JOB_BYTES = 2 << 30


def configure(places, preset, definitions):
    """Runs CMake unless this folder was configured like this before, with the same packages."""
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
    run_step(
        f"build {preset}",
        command,
        places.logs / f"build-{preset}.log",
        environment=ccache_environment(places),
        quiet_when="ninja: no work to do",
    )


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
