"""The command `demo`: runs a Python loop, consumers started like those of `consume`, and shows their results. Its scripts: launch/numpy_demo/."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

from offramp_launch import consume_command
from offramp_launch.arguments import take_switch, take_values
from offramp_launch.supervision.children import LOG_END_BYTES
from offramp_launch.exit_code import ExitCode, LaunchError, cannot_be_started, shell_code
from offramp_launch.installed import numpy_remedy
from offramp_launch.run_command import sweep
from offramp_launch.run_dir import choose_run_dir, new_run_id, own_folder_in_tmp, short_runs_folder

PICTURES = 12
FOLDER = "offramp-demo"
CUT_OUT = "post.py:cut_out"
LOOK_AGAIN_SECONDS = 0.02
LOOP_ENDS_SECONDS = 10      # from SIGINT to SIGKILL


def start(places, argv):
    flags, rest = take_values(argv, ("--output", "--consumers", "--processor"))
    switches = []
    for switch in ("--overwrite", "--resume"):
        there, rest = take_switch(rest, switch)
        switches += [switch] * there
    if rest:
        raise LaunchError(f"demo does not accept '{rest[0]}'", "See ./launch/offramp demo --help", ExitCode.USAGE)
    python = places.venv_python
    require_numpy(python)
    if "--processor" in flags:      # a copy of its post.py imports modules beside the original
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(places.numpy_demo))))
    output = pathlib.Path(flags.get("--output", FOLDER)).absolute()
    own = places.numpy_demo / CUT_OUT
    processors = flags.get("--processor", f"mask-png,{own}")
    passed = ["--processor", processors, "--output", str(output), "--consumer-python", str(python), "--consumers", flags.get("--consumers", "2"), *switches]
    consume_command.parse_flags(places, passed)      # refuses flags before anything is moved aside
    run_dir = choose_run_dir(places, None, new_run_id())
    make_parent(run_dir)
    with loop(places, python, run_dir) as program:
        code = consume_command.start(places, ["--run-dir", str(run_dir), *passed], ["demo", *argv])
        if code != 0:
            return code
        program.wait()      # the loop also checks its consumers' results
        require_well(program, run_dir)
    return code if "--processor" in flags else show(python, places, output, own)


def require_numpy(python):
    try:
        found = subprocess.run([str(python), "-c", "import numpy"], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise cannot_be_started(python, problem) from problem
    if found.returncode != 0:
        raise LaunchError(f"the demo needs NumPy, and {python} has none: {numpy_remedy(python)}", "", ExitCode.SYSTEM)


def make_parent(run_dir):
    """Makes the parent folder; the program makes the run directory itself."""
    try:
        if run_dir.parent == short_runs_folder():
            own_folder_in_tmp(run_dir.parent)
        run_dir.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise LaunchError(f"the folder of run directories {run_dir.parent} cannot be made: {problem.strerror}",
                          "Name another with OFFRAMP_BUILD_DIR=FOLDER", ExitCode.CANNOT_WRITE) from problem


@contextlib.contextmanager
def loop(places, python, run_dir):
    """Yields the loop's process once its run exists, and ends it on exit. Errors: LaunchError where it ends before."""
    command = places.python_command(python, places.numpy_demo / "loop.py")
    with open(log_of(run_dir), "wb") as log:
        program = subprocess.Popen([*command, str(run_dir), str(PICTURES)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True, env=places.environment_of_loops())
    try:
        while not (run_dir / "endpoint").exists():
            if program.poll() is not None:
                require_well(program, run_dir)
            time.sleep(LOOK_AGAIN_SECONDS)
        yield program
    finally:
        end(program)
        sweep(str(places.producer()))
        with contextlib.suppress(OSError):
            os.replace(log_of(run_dir), run_dir / "logs" / "loop.log")


def end(program):
    """Ends the loop by Ctrl-C, so that its Egress removes its memory."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.send_signal(signal.SIGINT)
        program.wait(LOOP_ENDS_SECONDS)
    program.kill()
    program.wait()


def log_of(run_dir):
    """The loop's log, beside the run directory, which the loop makes itself."""
    return run_dir.with_suffix(".log")


def require_well(program, run_dir):
    if program.returncode != 0:
        with open(log_of(run_dir), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_END_BYTES))
            text = log.read().decode(errors="replace").strip()
        raise LaunchError(f"the demo's loop ended with exit code {shell_code(program.returncode)}", text or "it wrote nothing", ExitCode.INTERNAL)


def show(python, places, output, own):
    """Makes the contact sheet, and prints what to try next."""
    folder = next((path.parent for path in output.glob("*/picture-00.png") if path.parent.name != "mask-png"), output)
    code = subprocess.run([*places.python_command(python, places.numpy_demo / "sheet.py"), str(output), str(folder), str(PICTURES)], check=False).returncode
    if code == 0:
        print(f"\nTo use your own function: copy {own.parent / 'post.py'}, change it, and\n"
              "    ./launch/offramp demo --processor ./post.py:cut_out --output MINE\n"
              f"An example of your own loop: {own.parent / 'loop.py'}")
    return shell_code(code)
