"""Describes the measured machine and builds."""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess


def describe_machine(binaries):
    """Facts of this machine, from the producer's own probe and the kernel."""
    probe = json.loads(
        subprocess.run(
            [str(binaries / "offramp-producer"), "probe"], capture_output=True, text=True, check=True, timeout=120
        ).stdout
    )
    device = probe["device"]
    memory = next(
        int(line.split()[1]) / (1 << 20)
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    return {
        "device": device["name"],
        "gpu": device.get("kind") == "cuda" or bool(device.get("pcie_generation")),
        "driver": driver_version(),
        "cuda": cuda_version(device.get("runtime_version")),
        "link": f"PCIe {device['pcie_generation']} x{device['pcie_width']}" if device.get("pcie_generation") else None,
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "probe": probe,
    }


def cuda_version(number):
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def driver_version():
    """The kernel module's version, as in nvidia-smi."""
    try:
        return pathlib.Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return None


def ask(*command, folder=None):
    """The command's output; None if it fails."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, cwd=folder
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def describe_build(binaries, root):
    """Revision, compiler flags and versions, as far as they are known."""
    return {
        **programs_of(binaries, root, "OFFRAMP_REVISION"),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
    }


def describe_other_build(binaries):
    """The same of a second build, whose sources its CMakeCache.txt names."""
    return programs_of(binaries, cached(binaries).get("CMAKE_HOME_DIRECTORY"), "OFFRAMP_BENCH_BESIDE_REVISION")


def programs_of(binaries, root, variable):
    # A copy of the sources without git gets its revision from the variable.
    revision = os.environ.get(variable) or (
        ask("git", "describe", "--always", "--dirty", folder=root) if root else None
    )
    wanted = (
        "CMAKE_BUILD_TYPE",
        "CMAKE_CXX_FLAGS",
        "CMAKE_CXX_FLAGS_RELEASE",
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO",
        "OFFRAMP_CUDA_ARCHITECTURES",
    )
    flags = {name: value for name, value in cached(binaries).items() if name in wanted}
    return {
        "revision": revision,
        "version": ask(str(binaries / "offramp-producer"), "--version"),
        "compiler_flags": flags or None,
    }


def cached(binaries):
    """The entries of the build's CMakeCache.txt, if it is beside its programs."""
    try:
        lines = (binaries.parent / "CMakeCache.txt").read_text().splitlines()
    except OSError:
        return {}
    return {
        line.partition(":")[0]: line.partition("=")[2]
        for line in lines
        if ":" in line.partition("=")[0] and line[0] not in "#/"
    }
