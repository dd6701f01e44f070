"""The commands of `offramp`: one table, the way into each, and their exit codes."""

import difflib
import importlib
import os
import sys

from offramp_launch.exit_code import ExitCode, LaunchError, NO_ROOM, UsageError
from offramp_launch.help_pages import print_page
from offramp_launch.places import here
from offramp_launch.standard_streams import lost_stream

# Where each command starts, imported when it is used, and its properties:
#   sets-up   it installs and builds first, and then needs the set-up's Python; its help lists the set-up's flags
#   runner    it needs the programs for models
#   programs  its programs are set up before it starts
#   works     its exit code reports its work even if its output could not be written
#   http      it takes --http, which the environment may also set
#   own-help  it prints its help itself
#   packaged  a wheel or Debian package has it
COMMANDS = {
    "run": ("starting.run", "sets-up works http own-help packaged"),
    "job": ("starting.job", "sets-up"),
    "shard": ("starting.shard", "sets-up works http"),
    "demo": ("demo_command.start", "sets-up programs works packaged"),
    "consume": ("starting.consume", "sets-up works http own-help packaged"),
    "export": ("exporting.start", "works own-help"),
    "query": ("texts.query", "own-help"),
    "ladder": ("starting.ladder", "sets-up works"),
    "chaos": ("chaos.command.start", "sets-up programs works packaged"),
    "tune": ("tuning.command.start", "sets-up runner programs"),
    "bench": ("benchmark.start", "sets-up works"),
    "scale": ("live_commands.scale", "works packaged"),
    "reload": ("live_commands.reload", "works packaged"),
    "status": ("live_commands.status", "packaged"),
    "top": ("watching.top.start", "packaged"),
    "trace": ("tracing.command.start", "works packaged"),
    "stop": ("live_commands.stop", "works packaged"),
    "dead-letters": ("dead_letters.start", "packaged"),
    "new-processor": ("new_processor.start", "works packaged"),
    "clean": ("cleaning.start", "works packaged"),
    "doctor": ("doctor.start", "packaged"),
    "test": ("testing.start", "sets-up works"),
    "setup": ("starting.setup", "sets-up works"),
    "package": ("packaging.start", "sets-up works"),
    "version": ("starting.version", "packaged"),
    "help": ("commands.usage", "packaged"),
}
# Processes that commands, consumers or the Python package start.
INTERNAL = {
    "worker-of-a-run": ("gpus.worker.start", ""),
    "run-of-a-command": ("commanded_run.start", ""),
    "merge-ranks": ("jobs.merge.merge_ranks", ""),
    "uploader-of-a-consumer": ("stores.uploader.serve", ""),
    "upload-of-a-run": ("stores.uploader.store_once", ""),
    "run-dir-of-a-url": ("stores.place.print_run_dir", ""),
}
SPELLED = {"-h": "help", "--help": "help", "--version": "version"}


def main(argv):
    code = carry_out(argv)
    lost = lost_stream()
    if lost and code == 0 and argv[:1] and not has(argv[0], "works"):
        print(f"offramp: standard output cannot be written: {lost}", file=sys.stderr)
        return int(ExitCode.CANNOT_WRITE)
    return code


def carry_out(argv):
    places = here()
    try:
        command, *arguments = argv or ["help"]
        command = SPELLED.get(command, command)
        if command not in COMMANDS and command not in INTERNAL:
            refuse_command(places, command)
        if places.is_installed and command != "help":
            from offramp_launch import installed

            installed.begin(command)
        if not has(command, "http"):
            os.environ.pop("OFFRAMP_HTTP", None)  # programs would refuse the unknown setting
        os.environ.pop("OFFRAMP_UPLOADER", None)  # of another run, if a processor starts this command
        if not has(command, "own-help") and {"-h", "--help"}.intersection(arguments) and command != "help":
            return print_page(places, command, has(command, "sets-up"))
        if has(command, "sets-up"):
            places.keep_compiled()
        if has(command, "programs"):
            from offramp_launch import starting

            arguments = starting.set_up_for(places, arguments, needs_runner=has(command, "runner"))
        return start_of(command)(places, arguments)
    except LaunchError as problem:
        print(f"offramp: {problem}", file=sys.stderr)
        return int(problem.code)
    except KeyboardInterrupt:
        print("offramp: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        where = f"'{problem.filename}'" if problem.filename else "a file of this command"
        print(f"offramp: {where} cannot be written: {problem.strerror}", file=sys.stderr)
        return int(ExitCode.CANNOT_WRITE)


def has(command, what):
    return what in COMMANDS.get(command, ("", ""))[1].split()


def start_of(command):
    module, _, function = {**COMMANDS, **INTERNAL}[command][0].rpartition(".")
    return getattr(importlib.import_module(f"offramp_launch.{module}"), function)


def refuse_command(places, typed):
    known = [command for command in COMMANDS if not places.is_installed or has(command, "packaged")]
    near = difflib.get_close_matches(typed, known, n=1)
    raise UsageError(
        f"'{typed}' is not a command" + (f"; did you mean '{near[0]}'?" if near else ""), f"Known: {', '.join(known)}"
    )


def usage(places, _):
    print((places.launch / ("usage-installed.txt" if places.is_installed else "usage.txt")).read_text(), end="")
    return int(ExitCode.OK)
