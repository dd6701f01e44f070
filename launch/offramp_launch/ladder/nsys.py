"""
The article's capture: each rung once under `nsys profile`, three steps after ten of warm-up, one report per rung.
Consumers also run under it, like the article's workers: the report has their `process output`.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess

from offramp_launch import interrupts
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.ladder.measuring import print_note
from offramp_launch.run_steps import sweep
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id

CAPTURE = ("nsys", "profile", "--capture-range=cudaProfilerApi", "--trace=cuda,nvtx,osrt", "--force-overwrite=true")
END_SECONDS = 10


def capture(places, workload, rungs, folder):
    """
    Prints the commands of every rung, and runs them if nsys is installed. Returns the exit code.
    Blocks: until the last report is written. No program of a capture is left in any case: SIGTERM and SIGHUP end it
    like Ctrl-C.
    """
    interrupts.handle_all_signals()
    installed = shutil.which("nsys")
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for rung in rungs:
        run_id = f"{new_run_id()}-{rung.key}"
        run_path = choose_run_dir(places, None, run_id)
        command = capture_command(places, workload, rung, folder, run_path, run_id)
        print(as_typed(command, folder, run_path), flush=True)
        if installed:
            run_dir = RunDir(places, run_path)
            if not _capture(command, folder, rung):
                failed.append(f"{rung.title} ({run_dir.path})")
            sweep(str(places.ladder()))
    if not installed:
        print_note(
            "nsys is not installed, so the commands were only printed (Nsight Systems: https://developer.nvidia.com/nsight-systems)"
        )
    if failed:
        raise LaunchError("no report of: " + ", ".join(failed), f"See the log of nsys: {folder}/RUNG.log")
    return int(ExitCode.OK)


def capture_command(places, workload, rung, folder, run_path, run_id):
    """The producer under nsys, or a shell that starts its consumers and then the producer, for which they wait."""
    flags = [*workload.captured_flags(), *rung.flags, "--run-dir", str(run_path)]
    command = [str(places.ladder()), *flags, "--run-id", run_id, "--consumers", str(workload.consumers)]
    if rung.has_consumers:
        consumers = f"{shlex.join([str(places.consumer()), *flags])} &\n" * workload.consumers
        command = ["sh", "-c", f"{consumers}{shlex.join(command)}\ncode=$?\nwait\nexit $code"]
    return [*CAPTURE, "-o", str(folder / rung.key), *command]


def as_typed(command, folder, run_path):
    """The commands to type in a shell."""
    return (
        f"mkdir -p {shlex.quote(str(folder))} && mkdir -p -m 700 {shlex.quote(str(run_path))}\n{shlex.join(command)}\n"
    )


def _capture(command, folder, rung):
    """
    Whether a report was written. The exit code says little: nsys ends the program when the capture's range ends, before
    its last step. A supervisor is not used: a program under nsys may not inherit the lifeline, so the whole process
    group is killed here.
    """
    report = folder / f"{rung.key}.nsys-rep"
    report.unlink(missing_ok=True)
    print_note(f"{rung.title}: capturing to {report}")
    with open(folder / f"{rung.key}.log", "wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        child.wait()
    finally:
        _end(child)
    return report.exists()


def _end(child):
    """Ends the whole process group: nsys does not always end its program."""
    for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(seconds)
    child.wait()
