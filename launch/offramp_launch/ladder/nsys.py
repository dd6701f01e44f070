"""The article's own capture: each rung once under `nsys profile`, three steps after ten of warm-up, one report a rung."""

import os
import shlex
import shutil
import signal
import subprocess

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.ladder.measuring import say
from offramp_launch.run_command import sweep
from offramp_launch.run_dir import RunDir, choose_run_dir, new_run_id

CAPTURE = ("nsys", "profile", "--capture-range=cudaProfilerApi", "--trace=cuda,nvtx,osrt", "--force-overwrite=true")
END_SECONDS = 10


def capture(places, workload, rungs, folder):
    """
    Prints the commands of every rung, and runs them where nsys is. Returns the exit code.
    Blocks: until the last report is written. Whatever happens, no program of a capture is left: SIGTERM and SIGHUP end it as Ctrl-C does.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_on_signal)
    installed = shutil.which("nsys")
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for rung in rungs:
        run_id = f"{new_run_id()}-{rung.key}"
        run_path = choose_run_dir(places, None, run_id)
        producer, consumers = commands(places, workload, rung, folder, run_path, run_id)
        print(as_typed(producer, consumers, folder, run_path), flush=True)
        if installed:
            run_dir = RunDir(places, run_path)
            if not _capture(producer, consumers, folder, rung):
                failed.append(f"{rung.title} ({run_dir.path})")
            sweep(str(places.producer()))
    if not installed:
        say("nsys is not installed here: these commands were printed only (Nsight Systems: https://developer.nvidia.com/nsight-systems)")
    if failed:
        raise LaunchError("no report of: " + ", ".join(failed), f"What nsys said stands in {folder}/RUNG.log", ExitCode.SYSTEM)
    return int(ExitCode.OK)


def commands(places, workload, rung, folder, run_path, run_id):
    """(producer's command, list of its consumers')."""
    flags = [*workload.captured_flags(), *rung.flags, "--run-dir", str(run_path)]
    producer = [*CAPTURE, "-o", str(folder / rung.key), str(places.producer()), *flags, "--run-id", run_id,
                "--consumers", str(workload.consumers)]
    return producer, [[str(places.consumer()), *flags]] * (workload.consumers if rung.has_consumers else 0)


def as_typed(producer, consumers, folder, run_path):
    """The same for a shell. A consumer that is there before its producer waits for it."""
    folders = f"mkdir -p {shlex.quote(str(folder))} && mkdir -p -m 700 {shlex.quote(str(run_path))}\n"
    return folders + "".join(f"{shlex.join(consumer)} &\n" for consumer in consumers) + f"{shlex.join(producer)}\nwait\n"


def _capture(producer, consumers, folder, rung):
    """
    Whether a report was written. Its exit code says little: nsys ends the program when the capture's range ends, before its last step.
    Not by the supervisor: a program under nsys does not surely inherit the lifeline, so that here whole process groups are ended.
    """
    report = folder / f"{rung.key}.nsys-rep"
    report.unlink(missing_ok=True)
    children = []
    say(f"{rung.title}: capturing to {report}")
    try:
        with open(folder / f"{rung.key}.log", "wb") as log:
            for command in (producer, *consumers):
                children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))
        children[0].wait()
    finally:
        for child in children:
            _end(child)
    return report.exists()


def _end_on_signal(number, frame):
    """An exception, so that what was started is ended on the way out."""
    raise SystemExit(128 + number)


def _end(child):
    """The whole process group: nsys does not always take its program along."""
    _signal_group(child, signal.SIGTERM)
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    _signal_group(child, signal.SIGKILL)
    child.wait()


def _signal_group(child, number):
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass
