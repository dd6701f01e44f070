"""The command `demo`, which needs no runner: `run --producer` with launch/numpy_demo/, then a contact sheet."""

import os
import shlex
import subprocess

from offramp_launch import program_command
from offramp_launch.arguments import folder_given, parse, words_of
from offramp_launch.exit_code import LaunchError, cannot_be_started, shell_code
from offramp_launch.installed import numpy_remedy


def start(places, argv):
    switches = ("--overwrite", "--resume")
    flags = parse(argv, "demo", ("--output", "--consumers", "--processor"), switches, "demo --help")
    output = folder_given(flags.get("--output", "offramp-demo"))
    python, folder = places.venv_python, places.numpy_demo
    require_numpy(python)
    # A copy of post.py imports the modules beside the original.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(folder))))
    own = {
        "--producer": shlex.join(places.python_command(python, folder / "loop.py")),
        "--processor": flags.get("--processor", f"mask-png,{folder / 'post.py'}:cut_out"),
        "--output": output,
        "--consumer-python": python,
        "--consumers": flags.get("--consumers", "2"),
    }
    passed = [*words_of(own), *(name for name in switches if name in flags)]
    code = program_command.start(places, passed, ["demo", *argv])
    return code if code or "--processor" in flags else show(places, output)


def require_numpy(python):
    try:
        found = subprocess.run([str(python), "-c", "import numpy"], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise cannot_be_started(python, problem) from problem
    if found.returncode != 0:
        raise LaunchError(f"the demo needs NumPy, and {python} has none: {numpy_remedy(python)}", "")


def show(places, output):
    """Makes the contact sheet, and prints what to try next."""
    folder = places.numpy_demo
    code = subprocess.run(
        [*places.python_command(places.venv_python, folder / "sheet.py"), str(output)], check=False
    ).returncode
    if code == 0:
        print(
            f"\nTo use your own function: copy {folder / 'post.py'}, change it, and\n"
            "    ./launch/offramp demo --processor ./post.py:cut_out --output MINE\n"
            f"An example of your own loop: {folder / 'loop.py'}"
        )
    return shell_code(code)
