"""The LibTorch and CUDA Toolkit of the build: the set-up's or the user's, remembered between commands."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.setup.steps import require_own_build

FLAGS = {"--python": "python", "--torch-dir": "torch_dir", "--cuda-dir": "cuda_dir"}
OWN = "own"
OLDEST_TORCH = (2, 7)

DESCRIBE = """
import json, os
try:
    import torch
except ImportError as problem:
    print(json.dumps({"error": str(problem)}))
else:
    print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "folder": os.path.dirname(torch.__file__)}))
"""


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """The user's choices; empty: the set-up's."""

    python: str = ""
    torch_dir: str = ""
    cuda_dir: str = ""

    def describe(self):
        given = [f"{flag} {getattr(self, field)}" for flag, field in FLAGS.items() if getattr(self, field)]
        return " ".join(given)


@dataclasses.dataclass(frozen=True)
class BuildInputs:
    """Consequences of a toolchain: CMake's definitions, and the requirement files for the venv."""

    definitions: tuple
    requirements: tuple


def choose(places, flags, environment=os.environ):
    """Each part from the flag, the environment or the last choice. Returns and remembers the toolchain."""
    file = places.build / "toolchain.json"
    try:
        remembered = json.loads(file.read_text())
    except (OSError, ValueError):
        remembered = {}
    chosen = {}
    for flag, field in FLAGS.items():
        value = flags.get(flag) or environment.get("OFFRAMP_" + field.upper()) or remembered.get(field, "")
        # Absolute, but with links kept: a venv's Python is identified by its path.
        chosen[field] = "" if value == OWN else os.path.abspath(os.path.expanduser(value)) if value else ""
        if chosen[field] and not os.path.exists(chosen[field]):
            raise UsageError(
                f"{flag}: '{chosen[field]}' does not exist", f"Give one that does, or {flag} {OWN} for the set-up's own"
            )
    toolchain = Toolchain(**chosen)
    if chosen != {field: remembered.get(field, "") for field in chosen}:
        require_own_build(places)
        places.build.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(chosen, indent=1) + "\n")
    return toolchain


def resolve(places, toolchain, describe=None):
    """Errors: LaunchError for a PyTorch that is missing, too old, or built for a CUDA without a given toolkit."""
    definitions = {
        "OFFRAMP_PYTHON": str(places.venv_python),
        "OFFRAMP_TORCH_DIR": toolchain.torch_dir,
        "OFFRAMP_CUDA_DIR": toolchain.cuda_dir,
    }
    requirements = ["requirements-launch.txt"]
    if toolchain.python:
        facts = (describe or describe_python)(places, toolchain.python)
        check_torch(toolchain.python, facts)
        definitions["OFFRAMP_PYTHON"] = toolchain.python
        definitions["OFFRAMP_TORCH_DIR"] = toolchain.torch_dir or facts["folder"]
        if not toolchain.cuda_dir:
            cuda_dir = toolkit_beside(facts["folder"])
            if cuda_dir is None:
                require_cuda_13(toolchain.python, facts)
                requirements.append("requirements-cuda.txt")
                cuda_dir = own_toolkit(places)
            definitions["OFFRAMP_CUDA_DIR"] = str(cuda_dir)
    else:
        if not toolchain.torch_dir:
            requirements.append("requirements-torch.txt")
        if not toolchain.cuda_dir:
            requirements.append("requirements-cuda.txt")
    return BuildInputs(tuple(f"-D{name}={value}" for name, value in definitions.items()), tuple(requirements))


def describe_python(places, python):
    """Facts about a Python's PyTorch, cached while its version file is unchanged, since importing it takes seconds."""
    cache = places.build / "toolchain-python.json"
    try:
        known = json.loads(cache.read_text())
        if known["python"] == python and known["stamp"] == _version_stamp(known["facts"]["folder"]):
            return known["facts"]
    except (OSError, ValueError, KeyError):
        pass
    try:
        answer = subprocess.run([python, "-c", DESCRIBE], capture_output=True, text=True, check=False)
        facts = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError) as problem:
        raise UsageError(
            f"--python: '{python}' is not a Python that runs ({problem})", "Give the path of a Python that has PyTorch"
        ) from problem
    if "error" not in facts:
        with contextlib.suppress(OSError):  # in another user's build
            cache.write_text(json.dumps({"python": python, "stamp": _version_stamp(facts["folder"]), "facts": facts}))
    return facts


def _version_stamp(folder):
    return os.stat(os.path.join(folder, "version.py")).st_mtime_ns


def check_torch(python, facts):
    if "error" in facts:
        raise LaunchError(
            f"--python: '{python}' has no PyTorch ({facts['error']})",
            f"Install torch there, or --python {OWN} for the set-up's own",
            ExitCode.DEVICE_UNSUPPORTED,
        )
    version = tuple(int(part) for part in facts["version"].split("+")[0].split(".")[:2])
    if version < OLDEST_TORCH:
        wanted = ".".join(map(str, OLDEST_TORCH))
        raise LaunchError(
            f"--python: '{python}' has PyTorch {facts['version']}; {wanted} or later is needed",
            f"Update it, or --python {OWN} for the set-up's own",
            ExitCode.DEVICE_UNSUPPORTED,
        )


def require_cuda_13(python, facts):
    if facts["cuda"] is not None and not facts["cuda"].startswith("13."):
        raise LaunchError(
            f"PyTorch {facts['version']} of '{python}' was built for CUDA {facts['cuda']}, and its wheels bring no nvcc",
            f"Give that toolkit with --cuda-dir, such as --cuda-dir /usr/local/cuda-{facts['cuda']}",
            ExitCode.DEVICE_UNSUPPORTED,
        )


def toolkit_beside(torch_folder):
    """The toolkit of NVIDIA's wheels next to a PyTorch, if it includes the compiler."""
    folder = pathlib.Path(torch_folder).parent / "nvidia" / "cu13"
    return (
        folder if (folder / "bin" / "nvcc").exists() and (folder / "include" / "cuda_runtime_api.h").exists() else None
    )


def own_toolkit(places):
    """The folder of the wheels of requirements-cuda.txt in the set-up's environment."""
    folders = sorted(places.venv.glob("lib/python3*/site-packages"))
    return (folders[-1] if folders else places.venv) / "nvidia" / "cu13"
