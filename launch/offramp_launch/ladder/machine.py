"""Describes the machine and the build of a measurement."""

import json
import os
import platform
import re
import subprocess

from offramp_launch.doctor import cuda_version
from offramp_launch.exit_code import LaunchError, cannot_be_started

DRIVER_FILE = "/proc/driver/nvidia/version"


def probe(producer, device):
    """The facts that the producer reports of this machine. `device`: the user's --device, if any. Errors: LaunchError with the producer's exit code."""
    flags = ["--device", device] if device else []
    try:
        answer = subprocess.run([producer, "probe", *flags], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise cannot_be_started(producer, problem) from problem
    if answer.returncode != 0:
        raise LaunchError(answer.stderr.strip() or f"'{producer} probe' failed with exit code {answer.returncode}", "", answer.returncode)
    return json.loads(answer.stdout)


def has_gpu(facts, device):
    return facts["device"]["kind"] != "cpu" and device != "cpu"


def describe(facts):
    device = facts["device"]
    parts = [device["name"]]
    if device["kind"] != "cpu":
        parts += [f"driver {driver_release() or device['driver_version']}", f"CUDA {cuda_version(device['runtime_version'])}",
                  f"PCIe {device['pcie_generation']} x{device['pcie_width']}" if device.get("pcie_generation") else "link unknown"]
    else:
        parts.append("no GPU: sizes are small, and the figures do not show performance")
    return ", ".join([*parts, f"{facts['cores']} cores", f"Linux {platform.release()}"])


def driver_release(file=DRIVER_FILE):
    """The driver version of the kernel module, such as 580.95.05; empty if there is none."""
    try:
        with open(file, encoding="utf-8") as text:
            found = re.search(r"\s(\d{3}\.[\d.]+)\s", text.read())
    except OSError:
        return ""
    return found[1] if found else ""


def describe_build(places):
    version = subprocess.run([str(places.ladder()), "--version"], capture_output=True, text=True, check=False).stdout.strip()
    # For a copy of the sources without git history, the variable names the commit.
    commit = os.environ.get("OFFRAMP_REVISION") or _commit_of(places)
    return ", ".join(part for part in (version, commit, str(places.programs())) if part)


def _commit_of(places):
    if not _has_git(places):
        return ""
    return subprocess.run(["git", "-C", str(places.root), "describe", "--always", "--dirty"], capture_output=True, text=True,
                          check=False).stdout.strip()


def _has_git(places):
    try:
        return (places.root / ".git").exists() and subprocess.run(["git", "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
