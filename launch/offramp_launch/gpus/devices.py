"""The devices of a run with --gpus: GPUs of this machine, or producers on its CPU, each with its cores."""

import collections
import dataclasses
import glob
import os
import pathlib
import re
import subprocess

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.progress import print_note

ALL = "all"
MOST_WORKERS = 64
CORES_IN_USE = 16  # by a worker with the default numbers of consumers and decoders
VISIBLE = "CUDA_VISIBLE_DEVICES"
PCI_DEVICES = pathlib.Path("/sys/bus/pci/devices")
ASKED = ("nvidia-smi", "--query-gpu=uuid,pci.bus_id,mig.mode.current,name", "--format=csv,noheader")
ANSWERS_SECONDS = 30  # a driver that hangs never answers
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ON_THE_CPU = "--device cpu with --gpus N runs N producers on the CPU"


@dataclasses.dataclass(frozen=True)
class Gpu:
    uuid: str
    bus_id: str = ""  # unknown for a MIG instance, and for a GPU that nvidia-smi did not list
    parts: str = ""  # MIG mode: "Enabled" if the GPU is partitioned
    model: str = ""


@dataclasses.dataclass(frozen=True)
class Device:
    """One worker's device."""

    name: str
    environment: dict  # added to the launcher's for its programs
    cores: tuple = ()  # its programs are bound to these; empty: unbound


def devices_of(wanted, device, environment=os.environ, allowed=None):
    """`wanted`: the value of --gpus; `device`: of --device. Errors: LaunchError."""
    allowed = set(os.sched_getaffinity(0)) if allowed is None else allowed
    if device == "cpu":
        return producers_on_the_cpu(wanted, allowed)
    if device.startswith("cuda:"):
        raise UsageError(f"--device {device} with --gpus {wanted}: both choose GPUs", "Leave one of them out")
    limited = environment.get(VISIBLE)
    gpus = visible(gpus_of_this_machine(wanted, limited), limited)
    numbers = numbers_of(wanted, len(gpus))
    require_whole(wanted, [gpus[number] for number in numbers])
    least = min(len(allowed) // len(numbers), CORES_IN_USE)
    return [
        Device(name, {VISIBLE: gpus[number].uuid}, cores_near(gpus[number].bus_id, allowed, least))
        for name, number in zip(names_of(numbers), numbers)
    ]


def require_whole(wanted, gpus):
    """Errors: LaunchError (USAGE) for a GPU in MIG mode: its UUID gives a process one instance; others would idle."""
    for gpu in gpus:
        if gpu.parts == "Enabled":
            raise UsageError(
                f"--gpus {wanted}: {gpu.model} ({gpu.uuid}) is in MIG mode, and only one of its instances would work",
                f"Set {VISIBLE}=MIG-...,MIG-... to the instances that nvidia-smi -L lists, or turn MIG mode off",
            )


def names_of(numbers):
    """A GPU that is named twice has two workers."""
    before: collections.Counter[int] = collections.Counter()
    for number in numbers:
        before[number] += 1
        yield f"GPU {number}" + (f", worker {before[number]}" if list(numbers).count(number) > 1 else "")


def producers_on_the_cpu(wanted, allowed):
    if not wanted.isascii() or not wanted.isdigit():
        raise UsageError(
            f"--gpus {wanted} names GPUs, but --device is cpu", "Give a number of producers, such as --gpus 2"
        )
    number = number_of(wanted)
    require_few(wanted, number)
    parts = parts_of(sorted(allowed), number)
    return [Device(f"producer {index + 1}", {}, parts[index]) for index in range(number)]


def parts_of(cores, number):
    """The cores of each producer; empty if that would be fewer than two, which slows a producer down."""
    if len(cores) < 2 * number or number == 1:
        return [()] * number
    return [tuple(cores[index * len(cores) // number : (index + 1) * len(cores) // number]) for index in range(number)]


def numbers_of(wanted, there):
    """The GPUs' numbers, from 0. `there`: how many are visible."""
    if wanted == ALL:
        return range(there)
    if "," not in wanted:
        number = number_of(wanted)
        if number > there:
            raise UsageError(
                f"--gpus {wanted} is more than the {there} GPUs of this machine",
                "Give that number, 'all', or a list such as 0,2",
            )
        return range(number)
    numbers = [number_of(part, least=0) for part in wanted.split(",") if part]
    for number in numbers:
        if number >= there:
            raise UsageError(
                f"--gpus {wanted}: GPU {number} does not exist; {there} are visible, numbered from 0",
                f"nvidia-smi lists them; if {VISIBLE} is set, only its GPUs count",
            )
    require_few(wanted, len(numbers))
    return numbers


def number_of(text, least=1):
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise UsageError(
            f"--gpus '{text}' is not valid", "Give 'all', a number from 1 on, or a list: 0,2 (only the first: 0,)"
        )
    return int(text)


def require_few(wanted, number):
    if not 1 <= number <= MOST_WORKERS:
        raise UsageError(f"--gpus {wanted} asks for {number} workers", f"Give 1 to {MOST_WORKERS}")


def gpus_of_this_machine(wanted, limited=None):
    """As nvidia-smi lists them. `limited`: CUDA_VISIBLE_DEVICES. Errors: LaunchError if there is none, or no list."""
    try:
        answer = subprocess.run(ASKED, capture_output=True, text=True, check=False, timeout=ANSWERS_SECONDS)
        lines, obstacle = answer.stdout.splitlines(), answer.stderr.strip() or answer.stdout.strip().split("\n")[-1]
    except OSError as problem:
        lines, obstacle = [], f"nvidia-smi: {problem.strerror}"
    except subprocess.TimeoutExpired:
        lines, obstacle = [], f"nvidia-smi did not answer within {ANSWERS_SECONDS} s"
    rows = [[part.strip() for part in line.split(",", 3)] for line in lines]
    gpus = [Gpu(*row) for row in rows if len(row) == 4 and UUID.fullmatch(row[0])]
    if gpus and answer.returncode != 0:  # a GPU is lost, and nvidia-smi lists the others
        print_note(f"nvidia-smi lists {len(gpus)} GPUs, and the run uses these; it also reports: {obstacle}")
    if not gpus and limited and is_named_by_uuid(limited.split(",")[0].strip()):
        return []  # a UUID needs no list
    if not gpus and glob.glob("/dev/nvidia[0-9]*"):
        raise LaunchError(
            f"--gpus {wanted}: the GPUs of this machine could not be listed ({obstacle})",
            "Run ./launch/offramp doctor",
            ExitCode.DEVICE_UNSUPPORTED,
        )
    if not gpus:
        raise LaunchError(f"--gpus {wanted}: no GPU was found on this machine", ON_THE_CPU, ExitCode.DEVICE_UNSUPPORTED)
    return gpus


def visible(gpus, limited):
    """The GPUs that CUDA_VISIBLE_DEVICES lists, in its order. Errors: LaunchError if it leaves none."""
    if limited is None:
        return gpus
    left: list = []
    for word in filter(None, map(str.strip, limited.split(","))):
        found = (
            gpus[int(word) : int(word) + 1] if word.isdigit() else [gpu for gpu in gpus if gpu.uuid.startswith(word)]
        )
        if not found and is_named_by_uuid(word):
            found = [Gpu(word)]
        if len(found) != 1:  # CUDA ignores the rest of the list, too
            break
        left += found
    if not left:
        raise LaunchError(
            f"{VISIBLE}={limited} leaves none of the {len(gpus)} GPUs of this machine",
            f"Unset it, or list the GPUs to use; {ON_THE_CPU}",
            ExitCode.DEVICE_UNSUPPORTED,
        )
    return left


def is_named_by_uuid(word):
    return word.startswith("MIG") or bool(UUID.fullmatch(word))


def cores_near(bus_id, allowed, least=1, devices=None):
    """The allowed cores on the GPU's NUMA node; empty if all are, or if fewer than `least` would be the bottleneck."""
    devices = PCI_DEVICES if devices is None else devices
    try:
        near = cores_in((devices / bus_id.lower()[-len("0000:00:00.0") :] / "local_cpulist").read_text()) & allowed
    except (OSError, ValueError):
        return ()
    return () if near == allowed or len(near) < least else tuple(sorted(near))


def cores_in(text):
    """`text`: the kernel's list format: 0-3,8,10-11."""
    cores: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores
