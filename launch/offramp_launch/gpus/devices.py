"""What works on a run with --gpus: GPUs of this machine, or producers on its CPU; and what each has of the cores."""

import collections
import dataclasses
import glob
import os
import pathlib
import re
import subprocess

from offramp_launch.exit_code import ExitCode, LaunchError

ALL = "all"
MOST_WORKERS = 64
CORES_IN_USE = 16       # by a worker with as many consumers and decoders as are given by default
VISIBLE = "CUDA_VISIBLE_DEVICES"
PCI_DEVICES = pathlib.Path("/sys/bus/pci/devices")
ASKED = ("nvidia-smi", "--query-gpu=uuid,pci.bus_id,mig.mode.current,name", "--format=csv,noheader")
ANSWERS_SECONDS = 30        # a driver that hangs does not
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ON_THE_CPU = "--device cpu with --gpus N has N producers on the CPU"


@dataclasses.dataclass(frozen=True)
class Gpu:
    uuid: str
    bus_id: str = ""        # of a part of a GPU (MIG) it is not known, nor where nvidia-smi did not tell of it
    parts: str = ""         # "Enabled": it is cut into such
    model: str = ""


@dataclasses.dataclass(frozen=True)
class Device:
    """What one worker has."""

    name: str
    environment: dict       # of its programs, beside the launcher's
    cores: tuple = ()       # to which they are bound; none: to none


def devices_of(wanted, device, environment=os.environ, allowed=None):
    """`wanted`: the value of --gpus; `device`: of --device. Errors: LaunchError."""
    allowed = set(os.sched_getaffinity(0)) if allowed is None else allowed
    if device == "cpu":
        return producers_on_the_cpu(wanted, allowed)
    if device.startswith("cuda:"):
        raise LaunchError(f"--device {device} with --gpus {wanted}: each says which GPUs work", "Leave one of them out", ExitCode.USAGE)
    limited = environment.get(VISIBLE)
    gpus = visible(gpus_of_this_machine(wanted, limited), limited)
    numbers = numbers_of(wanted, len(gpus))
    require_whole(wanted, [gpus[number] for number in numbers])
    least = min(len(allowed) // len(numbers), CORES_IN_USE)
    return [Device(name, {VISIBLE: gpus[number].uuid}, cores_near(gpus[number].bus_id, allowed, least)) for name, number in zip(names_of(numbers), numbers)]


def require_whole(wanted, gpus):
    """Errors: LaunchError (USAGE) for one that is cut into parts: by its name a process finds one of them, and the others would be idle."""
    for gpu in gpus:
        if gpu.parts == "Enabled":
            raise LaunchError(f"--gpus {wanted}: {gpu.model} ({gpu.uuid}) is cut into parts (MIG), of which one would work",
                              f"Name the parts, as nvidia-smi -L lists them, in {VISIBLE}: MIG-...,MIG-...; or take MIG mode off it", ExitCode.USAGE)


def names_of(numbers):
    """A GPU that is named twice has two workers."""
    before = collections.Counter()
    for number in numbers:
        before[number] += 1
        yield f"GPU {number}" + (f", worker {before[number]}" if list(numbers).count(number) > 1 else "")


def producers_on_the_cpu(wanted, allowed):
    if not wanted.isascii() or not wanted.isdigit():
        raise LaunchError(f"--gpus {wanted} with --device cpu names GPUs, and the CPU has none", "Give a number of producers, such as --gpus 2", ExitCode.USAGE)
    number = number_of(wanted)
    require_few(wanted, number)
    parts = parts_of(sorted(allowed), number)
    return [Device(f"producer {index + 1}", {}, parts[index]) for index in range(number)]


def parts_of(cores, number):
    """Of the cores for each producer; none where they would have less than two, and be the worse for it."""
    if len(cores) < 2 * number or number == 1:
        return [()] * number
    return [tuple(cores[index * len(cores) // number:(index + 1) * len(cores) // number]) for index in range(number)]


def numbers_of(wanted, there):
    """Of GPUs, from 0. `there`: how many are visible."""
    if wanted == ALL:
        return range(there)
    if "," not in wanted:
        number = number_of(wanted)
        if number > there:
            raise LaunchError(f"--gpus {wanted} is more than the {there} GPUs that are here", "Give that number, 'all', or which ones, such as 0,2", ExitCode.USAGE)
        return range(number)
    numbers = [number_of(part, least=0) for part in wanted.split(",") if part]
    for number in numbers:
        if number >= there:
            raise LaunchError(f"--gpus {wanted}: GPU {number} is not here; there are {there}, from 0 to {there - 1}",
                              f"nvidia-smi lists them; where {VISIBLE} is set, those of it are counted", ExitCode.USAGE)
    require_few(wanted, len(numbers))
    return numbers


def number_of(text, least=1):
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise LaunchError(f"--gpus '{text}' is not one of the ways to say it", "'all', a number from 1 on, or which ones, with commas: 0,2 (only the first: 0,)",
                          ExitCode.USAGE)
    return int(text)


def require_few(wanted, number):
    if not 1 <= number <= MOST_WORKERS:
        raise LaunchError(f"--gpus {wanted} asks for {number} workers", f"From 1 to {MOST_WORKERS}", ExitCode.USAGE)


def gpus_of_this_machine(wanted, limited=None):
    """In the order of nvidia-smi. `limited`: what CUDA_VISIBLE_DEVICES says. Errors: LaunchError where there is none, or they cannot be listed."""
    try:
        told = subprocess.run(ASKED, capture_output=True, text=True, check=False, timeout=ANSWERS_SECONDS)
        lines, obstacle = told.stdout.splitlines(), told.stderr.strip() or told.stdout.strip().split("\n")[-1]
    except OSError as problem:
        lines, obstacle = [], f"nvidia-smi: {problem.strerror}"
    except subprocess.TimeoutExpired:
        lines, obstacle = [], f"nvidia-smi gave no answer in {ANSWERS_SECONDS} s"
    rows = [[part.strip() for part in line.split(",", 3)] for line in lines]
    gpus = [Gpu(*row) for row in rows if len(row) == 4 and UUID.fullmatch(row[0])]
    if gpus and told.returncode != 0:       # one is lost, and it tells of the others
        print(f"[run] nvidia-smi tells of {len(gpus)} GPUs, which are counted, and says: {obstacle}", flush=True)
    if not gpus and limited and is_named_by_uuid(limited.split(",")[0].strip()):
        return []       # those are known without a list
    if not gpus and glob.glob("/dev/nvidia[0-9]*"):
        raise LaunchError(f"--gpus {wanted}: the GPUs of this machine could not be listed ({obstacle})", "Look what ./launch/offramp doctor says", ExitCode.DEVICE_UNSUPPORTED)
    if not gpus:
        raise LaunchError(f"--gpus {wanted}, and this machine has no GPU", ON_THE_CPU, ExitCode.DEVICE_UNSUPPORTED)
    return gpus


def visible(gpus, limited):
    """Those that CUDA_VISIBLE_DEVICES leaves of them, in its order. Errors: LaunchError where it leaves none."""
    if limited is None:
        return gpus
    left = []
    for word in filter(None, map(str.strip, limited.split(","))):
        found = gpus[int(word):int(word) + 1] if word.isdigit() else [gpu for gpu in gpus if gpu.uuid.startswith(word)]
        if not found and is_named_by_uuid(word):
            found = [Gpu(word)]
        if len(found) != 1:     # as CUDA, which sees none behind it
            break
        left += found
    if not left:
        raise LaunchError(f"{VISIBLE}={limited} leaves none of the {len(gpus)} GPUs of this machine", f"Take it away, or name those that are to work; {ON_THE_CPU}",
                          ExitCode.DEVICE_UNSUPPORTED)
    return left


def is_named_by_uuid(word):
    return word.startswith("MIG") or bool(UUID.fullmatch(word))


def cores_near(bus_id, allowed, least=1, devices=None):
    """Those on the GPU's NUMA node, where that has not all of them, and has `least`: with fewer the way to the GPU is not what holds it up."""
    devices = PCI_DEVICES if devices is None else devices
    try:
        near = cores_in((devices / bus_id.lower()[-len("0000:00:00.0"):] / "local_cpulist").read_text()) & allowed
    except (OSError, ValueError):
        return ()
    return () if near == allowed or len(near) < least else tuple(sorted(near))


def cores_in(text):
    """As the kernel lists them: 0-3,8,10-11."""
    cores = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores
