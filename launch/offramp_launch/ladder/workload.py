"""The workload of every rung: the article's on a GPU, else a small one; and the machine that it is measured on."""

import dataclasses
import json
import platform
import re

from offramp_launch.arguments import count, names_in, take_values, without_values, words_of
from offramp_launch.doctor import cuda_version
from offramp_launch.exit_code import UsageError
from offramp_launch.processes import answer_of
from offramp_launch.settings import version_of

# The article's workload.
EVERYWHERE = (
    *("--model deeplabv3-resnet50", "--random-weights", "--synthetic-on host", "--processor write"),
    *("--write-path /dev/null", "--write-copy", "--deterministic", "--log-level warning"),
)
ON_A_GPU = ("--batch 64", "--image-size 512", "--precision tf32", "--slabs 8", "--consumers 8")
WITHOUT_A_GPU = ("--batch 2", "--image-size 64", "--precision fp32", "--slabs 4", "--consumers 2")
WARMUP_AND_BATCHES_ON_A_GPU = (10, 100)
WARMUP_AND_BATCHES_WITHOUT = (2, 6)

CHECKED_BATCHES = 3
LIMIT_BATCHES_ON_A_GPU = 20
LIMIT_BATCHES_WITHOUT = 3

# Flags that only the ladder sets: they differ between rungs.
SET_BY_LADDER = (
    *"--strategy --trace-dir --run-dir --run-id --lifeline-fd --profile-batches --measure-limits".split(),
    *"--drain-warmup --allow-unpinned --consumer-user".split(),
)
OF_PROCESSING = ("--processor", "--write-path")


@dataclasses.dataclass(frozen=True)
class Workload:
    """`flags`: of every run, without the numbers of warm-up and measured batches."""

    flags: tuple
    consumers: int
    warmup: int
    batches: int
    limit_batches: int

    def timed_flags(self, trace_dir):
        own = {"--warmup-batches": self.warmup, "--batches": self.warmup + self.batches, "--trace-dir": trace_dir}
        return [*self.flags, *words_of(own), "--drain-warmup"]

    def checked_flags(self, output):
        """A short run whose results can be compared: the checksum of every sample's bytes."""
        flags = [flag for flag in without_values(self.flags, OF_PROCESSING) if flag != "--write-copy"]
        own = {"--processor": "checksum", "--output": output, "--warmup-batches": 0, "--batches": CHECKED_BATCHES}
        return [*flags, *words_of(own)]

    def captured_flags(self):
        """The article's capture: 10 steps of warm-up, 3 profiled, 1 of cool-down."""
        return [*self.flags, "--warmup-batches", "10", "--profile-batches", "3", "--batches", "14"]


def make_workload(argv, has_gpu):
    """`argv`: the user's flags. Errors: LaunchError (USAGE) for a flag that only the ladder sets, or a bad count."""
    given = names_in(argv)
    for flag in SET_BY_LADDER:
        if flag in given:
            raise UsageError(
                f"ladder sets {flag} itself", "Leave it out; --rungs chooses rungs. See ./launch/offramp help"
            )
    counts, rest = take_values(argv, ["--warmup", "--warmup-batches", "--batches"])
    warmup, batches = WARMUP_AND_BATCHES_ON_A_GPU if has_gpu else WARMUP_AND_BATCHES_WITHOUT
    warmup = count(counts.get("--warmup", counts.get("--warmup-batches", str(warmup))), "--warmup")
    batches = count(counts.get("--batches", str(batches)), "--batches")
    if batches == 0:
        raise UsageError("--batches 0 measures nothing", "Give 1 or more")
    usual = (flag.split() for flag in (*EVERYWHERE, *(ON_A_GPU if has_gpu else WITHOUT_A_GPU)))
    flags = [word for words in usual if words[0] not in given for word in words] + rest
    consumers, flags = take_values(flags, ["--consumers"])
    limit_batches = LIMIT_BATCHES_ON_A_GPU if has_gpu else LIMIT_BATCHES_WITHOUT
    number = count(consumers["--consumers"], "--consumers")
    return Workload(tuple(flags), number, warmup, batches, limit_batches)


DRIVER_FILE = "/proc/driver/nvidia/version"


def probe(producer, device):
    """The producer's facts about this machine. `device`: --device, if any. Errors: LaunchError with its exit code."""
    return json.loads(answer_of([producer, "probe", *(["--device", device] if device else [])]))


def has_gpu(facts, device):
    return facts["device"]["kind"] != "cpu" and device != "cpu"


def describe_machine(facts):
    device = facts["device"]
    parts = [device["name"]]
    if device["kind"] != "cpu":
        has_link = device.get("pcie_generation")
        parts += [
            f"driver {driver_release() or device['driver_version']}",
            f"CUDA {cuda_version(device['runtime_version'])}",
            f"PCIe {device['pcie_generation']} x{device['pcie_width']}" if has_link else "link unknown",
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
