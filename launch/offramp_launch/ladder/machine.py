"""Describes the machine and the build of a measurement."""

import json
import platform
import re

from offramp_launch.doctor import cuda_version
from offramp_launch.processes import answer_of
from offramp_launch.settings import version_of

DRIVER_FILE = "/proc/driver/nvidia/version"


def probe(producer, device):
    """The producer's facts about this machine. `device`: --device, if any. Errors: LaunchError with its exit code."""
    return json.loads(answer_of([producer, "probe", *(["--device", device] if device else [])]))


def has_gpu(facts, device):
    return facts["device"]["kind"] != "cpu" and device != "cpu"


def describe(facts):
    device = facts["device"]
    parts = [device["name"]]
    if device["kind"] != "cpu":
        parts += [
            f"driver {driver_release() or device['driver_version']}",
            f"CUDA {cuda_version(device['runtime_version'])}",
            f"PCIe {device['pcie_generation']} x{device['pcie_width']}"
            if device.get("pcie_generation")
            else "link unknown",
        ]
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
    program = f"offramp-ladder {version_of(places.ladder()) or ''}".rstrip()
    return ", ".join(filter(None, (program, places.commit(), str(places.programs()))))
