"""The command `export`: checks for PyTorch and a compiler, and runs exporter/ in the Python that has PyTorch."""

import os
import shutil

from offramp_launch.setup import toolchain
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import LaunchError, code_of_command
from offramp_launch.interrupts import run_python
from offramp_launch.setup.build import set_up_python
from offramp_launch.setup.steps import can_be_set_up

REQUIREMENTS = "requirements-export.txt"
FOR_SENTENCES = ("requirements-sentences.txt",)


def start(places, argv):
    from exporter.arguments import parse

    if {"-h", "--help"}.intersection(argv):
        parse(["--help"])  # prints the help and exits, in this Python: the set-up may be missing
    flags, passed = take_values(argv, toolchain.FLAGS)
    parse(passed)  # rejects mistyped flags before anything is installed
    chosen = toolchain.choose(places, flags)
    set_up_python(
        places, flags, (REQUIREMENTS, *(FOR_SENTENCES if any(word.startswith("sentence:") for word in passed) else ()))
    )
    python = chosen.python or str(places.venv_python)
    environment = environment_for(places, chosen)
    require_compiler(environment)
    require_torch(places, python)
    status = run_python([*places.python_command(python, places.launch / "exporter"), *passed], env=environment)
    with_one = "TORCHINDUCTOR_COMPILE_THREADS=1 needs the least memory"
    left = "a folder .offramp-export-* beside the model can be removed"
    return code_of_command("export", status, f". {with_one}; {left}")


def require_compiler(environment):
    """AOTInductor generates C++ and compiles it."""
    compiler = environment.get("CXX") or "g++"
    if shutil.which(compiler, path=environment.get("PATH")) is None:
        raise LaunchError(
            f"export needs a C++ compiler, and '{compiler}' was not found",
            "Run apt-get install g++, or name your compiler in CXX",
        )


def require_torch(places, python):
    """Errors: LaunchError without PyTorch. Installs nothing in a user's Python."""
    facts = toolchain.describe_python(places, python)
    if "error" in facts:
        raise LaunchError(
            f"'{python}' has no PyTorch ({facts['error']})", "./launch/offramp setup installs one; or give --python"
        )


def environment_for(places, chosen):
    """Environment of the compiler: the CUDA Toolkit, and the folder of its intermediate files."""
    environment = dict(os.environ)
    if can_be_set_up(places):  # else PyTorch's own, in /tmp
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(places.build / "inductor"))
    toolkit = chosen.cuda_dir or str(toolchain.own_toolkit(places))
    if "CUDA_HOME" not in environment and os.path.isdir(toolkit):
        environment["CUDA_HOME"] = toolkit
    return environment
