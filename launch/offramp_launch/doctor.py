"""Checks this machine: each finding is OK or a PROBLEM with its fix. Needs neither a GPU nor a finished set-up."""

import ctypes
import dataclasses
import glob
import json
import os
import pathlib
import platform
import re
import resource
import subprocess

from offramp_launch.arguments import refuse
from offramp_launch.exit_code import ExitCode
from offramp_launch.installed import glibc_problem, numpy_remedy
from offramp_launch.setup.environment import missing_packages
from offramp_launch.setup.steps import can_be_set_up

SMALLEST_SHM = 1 << 30
OLDEST_DRIVER_FOR_CUDA_13 = 580
PROBE_SECONDS = 120
NVIDIA, DISPLAY_CONTROLLER = "0x10de", "0x03"

SET_UP = "./launch/offramp setup"

# (name, its files, what needs it, how to install it) of libraries that are opened on demand.
ASKED_FOR = (
    ("libpq", ("libpq.so.5",), "--sink with PostgreSQL", "apt-get install libpq5, dnf install libpq"),
    (
        "libcurl",
        ("libcurl.so.4", "libcurl-gnutls.so.4"),
        "--processor http",
        "apt-get install libcurl4, dnf install libcurl",
    ),
    ("libtiff", ("libtiff.so.6",), "TIFF pictures", "apt-get install libtiff6, dnf install libtiff"),
)


@dataclasses.dataclass
class Finding:
    """`code`: the exit code of a run with this problem; OK where there is none."""

    name: str
    text: str
    fix: str = ""
    code: int = ExitCode.OK

    def line(self):
        verdict = "OK     " if self.code == ExitCode.OK else "PROBLEM"
        fix = f"\n{'':24}{'tip' if self.code == ExitCode.OK else 'fix'}: {self.fix}" if self.fix else ""
        return f"{verdict}  {self.name:13}  {self.text}{fix}"


def fault(name, text, fix, code=ExitCode.SYSTEM):
    return Finding(name, text, fix, code)


def unusable(name, text, fix):
    """A device, or a library for it, that runs cannot use."""
    return Finding(name, text, fix, ExitCode.DEVICE_UNSUPPORTED)


def start(places, argv):
    refuse(argv, "doctor")
    findings = examine_installed(places) if places.is_installed else examine(places)
    for finding in findings:
        print(finding.line())
    return exit_code(findings)


def examine(places):
    probe, obstacle = probe_machine(places.producer())
    of_the_build = (check(places) for check in (build_folder, python, libtorch, nvcc))
    findings = [packages(missing_packages(places)), *of_the_build]
    if probe:
        findings += from_probe(probe)
    else:
        fix = f"{SET_UP}; then doctor can check whether a slab can be page-locked"
        findings += [gpu_without_probe(), fault("programs", obstacle, fix)]
    return [*findings, *of_the_kernel(), memlock(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]), cores(), numa()]


def of_the_kernel():
    return [
        shared_memory(*shm_space()),
        huge_pages(pathlib.Path("/proc/self/mounts").read_text(), shmem_enabled()),
    ]


def examine_installed(places):
    """Checks an installed wheel or Debian package, which builds nothing."""
    return [
        glibc(os.confstr("CS_GNU_LIBC_VERSION")),
        numpy(places.venv_python),
        consumers(places.consumer()),
        runner(places.producer()),
        *(opened_on_demand(*library) for library in ASKED_FOR),
        gpu_without_probe(),
        *of_the_kernel(),
        cores(),
        numa(),
    ]


def glibc(version):
    why = glibc_problem(version)
    return fault("C library", *why.split(": ", 1)) if why else Finding("C library", version)


def numpy(interpreter):
    version, _ = output_of(str(interpreter), "-c", "import numpy; print(numpy.__version__)")
    if version is not None:
        return Finding("NumPy", f"{version}, of {interpreter}")
    return fault("NumPy", f"none in {interpreter}; Python consumers need it to read slabs", numpy_remedy(interpreter))


def consumers(program):
    version, why = output_of(program, "--version")
    if version is not None:
        return Finding("consumers", version)
    return fault("consumers", f"{program} does not start: {why}", "reinstall the package")


def output_of(*command):
    """(a program's output, None), or (None, why it failed)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return None, str(problem)
    if done.returncode == 0:
        return done.stdout.strip(), None
    return None, done.stdout.strip() or (done.stderr.strip().splitlines() or ["nothing"])[-1]


def runner(program):
    if program.exists():
        return Finding("runner", str(program))
    return Finding(
        "runner", "none: models and picture files need a source checkout", "OFFRAMP_BIN_DIR=FOLDER names a built one"
    )


def opened_on_demand(name, files, wanted_by, fix):
    for file in files:
        try:
            ctypes.CDLL(file)
            return Finding(name, file)
        except OSError:
            pass
    return Finding(name, f"none; only {wanted_by} needs it", fix)


def exit_code(findings):
    return next((int(finding.code) for finding in findings if finding.code != ExitCode.OK), 0)


def probe_machine(producer):
    """(the producer's probe results, None) or (None, why there are none)."""
    if not producer.exists():
        return None, f"not built yet ({producer})"
    try:
        answer = subprocess.run([producer, "probe"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
        return json.loads(answer.stdout), None
    except subprocess.TimeoutExpired:
        return None, f"'{producer} probe' did not answer in {PROBE_SECONDS} s"
    except OSError as problem:
        return None, f"'{producer}' does not start ({problem.strerror})"
    except ValueError:
        last_line = (answer.stderr.strip().splitlines() or ["no message"])[-1]
        return None, f"'{producer} probe' ended with {answer.returncode}: {last_line}"


def packages(missing):
    if missing is None:
        return Finding("packages", "no dpkg on this machine; launch/packages-debian.txt lists what is needed")
    if missing:
        return fault("packages", "missing: " + " ".join(missing), SET_UP)
    return Finding("packages", "all of launch/packages-debian.txt")


def build_folder(places):
    if can_be_set_up(places):
        return Finding("build", f"{places.build} can be set up by this user")
    own = "OFFRAMP_BUILD_DIR=FOLDER sets up another build"
    if places.producer().exists():
        return Finding("build", f"{places.build} belongs to another user; its programs are used as they are", own)
    why = f"{places.build} belongs to another user, and has no programs yet"
    return fault("build", why, f"that user runs {SET_UP}; or {own}", ExitCode.NOT_PERMITTED)


def python(places):
    if places.venv_python.exists():
        return Finding("Python", f"{platform.python_version()}, environment in {places.venv}")
    return fault("Python", f"{platform.python_version()}, no environment yet", SET_UP)


def configured(places, name):
    """A path found by the last configuration; None before the first."""
    try:
        cache = (places.build_folder("release") / "CMakeCache.txt").read_text()
    except OSError:
        return None
    found = re.search(rf"^{name}:\w+=(.*)$", cache, re.MULTILINE)
    return found[1] if found and not found[1].endswith("NOTFOUND") else ""


def not_configured(name, path, what):
    """`path`: of configured(), which has found nothing."""
    return fault(name, "not chosen yet", SET_UP) if path is None else Finding(name, f"built without {what}")


def nvcc(places):
    path = configured(places, "OFFRAMP_NVCC")
    if not path:
        return not_configured("nvcc", path, "CUDA")
    try:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return fault("nvcc", f"'{path}' no longer exists", SET_UP)
    version = re.search(r"release [\d.]+, (V[\d.]+)", output)
    return Finding("nvcc", f"{version[1] if version else 'of an unknown version'}, {path}")


def libtorch(places):
    """The LibTorch of the build, and whether the producer can load the models built on it."""
    folder = configured(places, "offramp_torch_root")
    if not folder:
        return not_configured("LibTorch", folder, "models")
    text = f"{torch_version(folder)}, {folder}"
    if not places.producer().exists():
        return fault("LibTorch", f"{text}; the programs are not built yet", SET_UP)
    try:
        listing = subprocess.run(
            [places.producer(), "--list"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
        reason = (listing.stderr.strip().splitlines() or ["no reason given"])[-1]
    except (OSError, subprocess.TimeoutExpired) as problem:
        listing, reason = None, str(problem)
    if listing and "deeplabv3" in listing.stdout:
        return Finding("LibTorch", text)
    fix = f"{SET_UP}, or name a Python with PyTorch with --python"
    return unusable("LibTorch", f"{text}; the models cannot be loaded: {reason}", fix)


def torch_version(folder):
    for name, pattern in (
        ("version.py", r"__version__ = '([^']+)'"),
        ("../build-version", r"(\S+)"),
        ("build-version", r"(\S+)"),
    ):
        try:
            found = re.search(pattern, pathlib.Path(folder, name).read_text())
        except OSError:
            continue
        if found:
            return found[1]
    return "of an unknown version"


def from_probe(probe):
    device = probe.get("device") or {}
    if device.get("kind") == "cuda":
        findings = [gpu(device), driver(device), pcie(device), jpeg_decoder(probe.get("jpeg_decoder") or {})]
    else:
        findings = [gpu_without_probe(probe.get("gpu_error"))]
    return [*findings, pinning(probe.get("pinning") or {}, device.get("kind") == "cuda")]


def gpu(device):
    total, free = device.get("total_bytes") or 0, device.get("free_bytes") or 0
    memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    what = f"{device.get('name')}, compute {device.get('compute')}"
    return Finding("GPU", f"{what}, {memory}, NUMA node {device.get('numa_node')}")


def jpeg_decoder(found):
    if found.get("name"):
        return Finding("JPEG files", f"{found['name']}, for --decode gpu")
    return Finding("JPEG files", f"the CPU decodes them: {found.get('error')}")


def driver(device):
    """CUDA encodes versions as one number: 13000 is 13.0."""
    offers, needs = int(device.get("driver_version") or 0), int(device.get("runtime_version") or 0)
    text = f"for CUDA {cuda_version(offers)}; the programs use {cuda_version(needs)}"
    if offers // 1000 < needs // 1000:
        other = "name a PyTorch and a CUDA Toolkit that the driver supports with --python and --cuda-dir"
        return unusable("driver", text, f"install driver {OLDEST_DRIVER_FOR_CUDA_13} or later, or {other}")
    return Finding("driver", text)


def cuda_version(number):
    return f"{number // 1000}.{number % 1000 // 10}"


def pcie(device):
    generation, width = device.get("pcie_generation"), device.get("pcie_width")
    if not generation or not width:
        return Finding("PCIe link", f"not reported by this machine ({device.get('pci_address')})")
    return Finding("PCIe link", f"generation {generation}, x{width} ({device.get('pci_address')})")


def pinning(facts, has_gpu):
    if not has_gpu:
        return Finding("page-locking", "needs a GPU; on the CPU slabs are plain shared memory")
    if facts.get("registered"):
        return Finding(
            "page-locking", f"a slab was page-locked, {facts.get('gigabytes_per_second') or 0:.1f} GB/s into it"
        )
    why = f"a slab could not be page-locked: {facts.get('error') or 'CUDA reports it as unlocked'}"
    fix = "check the driver and the container's rights, or run with --allow-unpinned (several times slower)"
    return unusable("page-locking", why, fix)


def gpu_without_probe(obstacle=None):
    """GPUs from /sys: one without a working driver is a problem; a machine without GPUs uses the CPU path."""
    cards = nvidia_cards()
    kernel_driver = pathlib.Path("/proc/driver/nvidia/version").exists()
    if not cards and not (kernel_driver and obstacle):
        return Finding("GPU", "none; the same programs run on the CPU")
    text = f"{len(cards)} of NVIDIA at {', '.join(cards)}" if cards else "none is seen, but a driver is loaded"
    text += f", not usable: {obstacle}" if obstacle else ""
    if not kernel_driver:
        fix = f"install NVIDIA's driver {OLDEST_DRIVER_FOR_CUDA_13} or later"
        return unusable("GPU", text + ", no driver is loaded", fix)
    if obstacle:
        fix = f"driver {OLDEST_DRIVER_FOR_CUDA_13} or later is needed; in a container: docker run --gpus all"
        return unusable("GPU", text, fix)
    return Finding("GPU", text)


def nvidia_cards():
    found = []
    for folder in glob.glob("/sys/bus/pci/devices/*"):
        try:
            vendor = pathlib.Path(folder, "vendor").read_text().strip()
            kind = pathlib.Path(folder, "class").read_text().strip()
        except OSError:
            continue
        if vendor == NVIDIA and kind.startswith(DISPLAY_CONTROLLER):
            found.append(os.path.basename(folder))
    return sorted(found)


def shm_space():
    room = os.statvfs("/dev/shm")
    return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize


def shared_memory(total, free):
    text = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free in /dev/shm"
    if free >= SMALLEST_SHM:
        return Finding("shared memory", text)
    in_kubernetes = "in Kubernetes: an emptyDir volume with medium: Memory mounted at /dev/shm"
    in_containers = f"in docker: --shm-size=16g; {in_kubernetes}"
    fix = f"remove its files; {in_containers}; else: mount -o remount,size=16g /dev/shm"
    return fault("shared memory", text, fix, ExitCode.SHARED_MEMORY_FULL)


def shmem_enabled():
    """Huge pages in shared memory: "always within_size advise [never] deny force"; empty without support."""
    try:
        return pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read_text()
    except OSError:
        return ""


def huge_pages(mounts, kernel):
    """Slabs request them; the kernel may forbid or force them, else the mount decides. `mounts`: /proc/self/mounts."""
    if not kernel:
        return Finding("huge pages", "this kernel has none for shared memory")
    if "[deny]" in kernel:
        return Finding("huge pages", "forbidden: /sys/kernel/mm/transparent_hugepage/shmem_enabled")
    if "[force]" in kernel:
        return Finding("huge pages", "all shared memory has them")
    options = [line.split()[3].split(",") for line in mounts.splitlines() if line.split()[1] == "/dev/shm"]
    last = options[-1] if options else []
    huge = next((option.removeprefix("huge=") for option in last if option.startswith("huge=")), "never")
    if huge == "never":
        why = "With them page-locking a pool is faster, and so is freeing a dead consumer's slab"
        return Finding("huge pages", f"not on /dev/shm. {why}", "mount -o remount,huge=advise /dev/shm")
    return Finding("huge pages", f"/dev/shm is mounted with huge={huge}")


def memlock(limit):
    shown = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit / 2**20:.0f} MiB"
    return Finding("memlock", f"{shown} (does not limit CUDA's page-locking)")


def cores():
    return Finding("cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}")


def numa():
    nodes = len(glob.glob("/sys/devices/system/node/node[0-9]*")) or 1
    return Finding("NUMA nodes", str(nodes))
