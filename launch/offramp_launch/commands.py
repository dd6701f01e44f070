"""The commands of `offramp`: their first steps and their exit codes."""

import difflib
import json
import os
import pathlib
import subprocess
import sys

from offramp_launch import (benchmark, cleaning, consume_command, demo_command, doctor, exporting, installed, interrupts, new_processor, packaging,
                            program_command, dead_letters, reload_command, run_command, testing, texts)
from offramp_launch.gpus import command as gpus_command, worker as gpus_worker
from offramp_launch.jobs import command as job_command, files as job_files, on_ray, shard_command
from offramp_launch.arguments import count, take_switch, take_values
from offramp_launch.supervision.control import ControlClient
from offramp_launch.supervision.autoscaler import are_bounds
from offramp_launch.exit_code import NO_ROOM, ExitCode, LaunchError
from offramp_launch.gpus.status import lines_of_workers
from offramp_launch.ladder import command as ladder_command
from offramp_launch.places import here
from offramp_launch.progress import describe, describe_holders
from offramp_launch.run_dir import find_live_run
from offramp_launch.setup.setting_up import set_up_programs
from offramp_launch.standard_streams import lost_stream
from offramp_launch.summary import wall_clock
from offramp_launch.tracing import command as trace_command
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS
from offramp_launch.tuning import command as tune_command, trial as tune_trial
from offramp_launch.watching import address, top as top_command
from offramp_launch.watching.timestamps import age_of

# `run`, `shard`, `job`, `consume`, `demo`, `ladder`, `tune`, `top` and `trace` continue under these names in the set-up's Python, which has the packages for the progress
# line, the contact sheet and the pictures.
CONTINUED = "run-set-up"
CONSUME_CONTINUED = "consume-set-up"
DEMO_CONTINUED = "demo-set-up"
LADDER_CONTINUED = "ladder-set-up"
TUNE_CONTINUED = "tune-set-up"
SHARD_CONTINUED = "shard-set-up"
JOB_CONTINUED = "job-set-up"
TOP_CONTINUED = "top-set-up"
TRACE_CONTINUED = "trace-set-up"

# The name under which the launch script passes on an unknown command.
NO_COMMAND = "no-command"
COMMANDS = ("run", "job", "shard", "demo", "consume", "export", "query", "ladder", "tune", "bench", "scale", "reload", "status", "top", "trace", "stop", "dead-letters",
            "new-processor", "clean", "doctor", "test", "setup", "package", "version", "help")
SETTING_UP = ("run", "job", "shard", "demo", "consume", "ladder", "tune", "bench", "test", "setup", "package")
# Commands with --http, which the environment may also set.
WATCHED = ("run", CONTINUED, "shard", SHARD_CONTINUED, "consume", CONSUME_CONTINUED)
HELP = ("help", "-h", "--help")
HAS_OWN_HELP = ("run", "consume", "export", "query")
# Commands whose exit code reports their work even if their output could not be written.
EXIT_BY_COMMAND = ("run", CONTINUED, "shard", SHARD_CONTINUED, "demo", DEMO_CONTINUED, "consume", CONSUME_CONTINUED, "ladder", LADDER_CONTINUED, "bench", "test", "setup",
                        "package", "export", "stop", "scale", "reload", "trace", TRACE_CONTINUED, "new-processor", "clean")


def main(argv):
    code = carry_out(argv)
    lost = lost_stream()
    if lost and code == 0 and argv[:1] and argv[0] not in EXIT_BY_COMMAND:
        print(f"offramp: standard output cannot be written: {lost}", file=sys.stderr)
        return int(ExitCode.CANNOT_WRITE)
    return code


def carry_out(argv):
    commands = {"run": run, CONTINUED: run_set_up, "demo": demo, DEMO_CONTINUED: demo_set_up, "consume": consume, CONSUME_CONTINUED: consume_set_up,
                "scale": scale, "reload": reload, "status": status, "top": top, TOP_CONTINUED: top_command.start, "trace": trace, TRACE_CONTINUED: trace_command.start,
                "stop": stop, "doctor": examine, "bench": bench, "test": test, "setup": setup,
                "dead-letters": inspect_dead_letters, "new-processor": new_processor.start, "export": exporting.start, "query": texts.query, "ladder": ladder,
                "clean": cleaning.start, "job": job, JOB_CONTINUED: job_command.start, "shard": shard, SHARD_CONTINUED: shard_command.start, "package": package, "version": version, "--version": version,
                LADDER_CONTINUED: ladder_set_up, "tune": tune, TUNE_CONTINUED: tune_command.start, gpus_worker.COMMAND: gpus_worker.start, tune_trial.COMMAND: tune_trial.start, NO_COMMAND: refuse_command}
    places = here()
    try:
        command, *arguments = argv or ["help"]
        if command in HELP:
            return usage(places, ExitCode.OK)
        if command not in commands:
            return refuse_command(places, [command])
        if places.is_installed:
            installed.begin(command)
        if command not in WATCHED:
            os.environ.pop(address.VARIABLE, None)      # programs would refuse the unknown setting
        if command not in HAS_OWN_HELP and {"-h", "--help"}.intersection(arguments):
            return help_of(places, command)
        return commands[command](places, arguments)
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


def refuse_command(places, argv):
    """`argv`: the unknown command."""
    known = installed.COMMANDS if places.is_installed else COMMANDS
    near = difflib.get_close_matches(argv[0], known, n=1)
    raise LaunchError(f"'{argv[0]}' is not a command" + (f"; did you mean '{near[0]}'?" if near else ""), f"Known: {', '.join(known)}", ExitCode.USAGE)


def usage(places, code):
    print((places.launch / ("usage-installed.txt" if places.is_installed else "usage.txt")).read_text(), end="")
    return int(code)


def help_of(places, command):
    """Prints the command's page of launch/help, with the set-up's flags for commands that set up."""
    print((places.launch / "help" / f"{command.lstrip('-')}.txt").read_text(), end="")
    if command in SETTING_UP and not places.is_installed:
        print((places.launch / "help" / "toolchain-flags.txt").read_text(), end="")
    return int(ExitCode.OK)


def version(places, argv):
    refuse(argv, "version")
    ours, programs = places.version(), run_command.version_of(places.consumer() if places.is_installed else places.producer())
    print(f"offramp {ours}" + (f" (commit {commit})" if (commit := places.commit()) else ""))
    if programs not in (None, ours):
        print(f"Its programs in {places.programs()} are {programs}: " + ("install both in one version" if places.is_installed else "./launch/offramp setup rebuilds them"))
    return int(ExitCode.OK)


def run(places, argv):
    if {"-h", "--help"}.intersection(argv):
        return run_help(places)
    if "--version" in argv:
        return version(places, [])
    if on_ray.is_meant(argv):
        return on_ray.run(argv)
    if places.is_installed and not places.producer().exists() and not program_command.is_meant(argv):
        if not installed.is_demo(argv):
            raise installed.no_runner()
        return demo(places, argv)
    return continue_set_up(places, CONTINUED, run_set_up, set_up_for(places, argv))


def set_up_for(places, argv, beside=()):
    """Sets up the programs. Returns the programs' flags. `beside`: further flags, given elsewhere."""
    if places.is_installed:
        return argv
    flags, passed = take_values(argv, TOOLCHAIN_FLAGS)
    if not os.environ.get("OFFRAMP_BIN_DIR"):
        set_up_programs(places, flags, requirements_of([*beside, *passed]))
    return passed


def requirements_of(argv, environment=os.environ):
    """Additional requirement files for a run's flags: Arrow, for Parquet only."""
    given = take_values(argv, ("--processor", "--source"))[0]
    processors = given.get("--processor", environment.get("OFFRAMP_PROCESSOR", "")).split(",")
    reads = given.get("--source", environment.get("OFFRAMP_SOURCE", "")) == "parquet-text"
    return ("requirements-parquet.txt",) if reads or "embeddings-parquet" in processors else ()


def continue_set_up(places, command, function, argv):
    """Continues in the set-up's Python, if there is one."""
    if places.venv_python.exists() and sys.prefix != str(places.venv):
        sys.stdout.flush()
        with interrupts.blocked():
            os.execv(places.venv_python, [*places.python_command(places.venv_python, places.launch / "offramp_launch", "-E", "-s"), command, *argv])
    return function(places, argv)


def run_set_up(places, argv):
    command = gpus_command if gpus_command.is_meant(argv) else program_command if program_command.is_meant(argv) else run_command
    return command.start(places, argv, ["run", *argv])


def job(places, argv):
    if argv[:1] in (["status"], ["sbatch"], ["k8s"]):
        return job_command.start(places, argv)
    if argv[:1] == ["ray"]:
        return on_ray.start(places, argv[1:])
    require_runner(places)
    return continue_set_up(places, JOB_CONTINUED, job_command.start, set_up_for(places, argv, flags_of_job(argv)))


def shard(places, argv):
    require_runner(places)
    return shard_command.exit_of_attempt(
        lambda: continue_set_up(places, SHARD_CONTINUED, shard_command.start, set_up_for(places, argv, flags_of_job(argv))))


def flags_of_job(argv):
    """The flags that the job began with; empty before it has begun."""
    folder = take_values(argv, ("--job",))[0].get("--job")
    facts = job_files.read(pathlib.Path(folder) / "job.json") if folder else None
    return facts.get("flags", []) if isinstance(facts, dict) else []


def require_runner(places):
    if places.is_installed and not places.producer().exists():
        raise installed.no_runner()


def consume(places, argv):
    if {"-h", "--help", "--help-all"}.intersection(argv):
        return consume_help(places)
    return continue_set_up(places, CONSUME_CONTINUED, consume_set_up, set_up_for(places, argv))


def consume_set_up(places, argv):
    return consume_command.start(places, argv, ["consume", *argv])


def demo(places, argv):
    return continue_set_up(places, DEMO_CONTINUED, demo_set_up, set_up_for(places, argv))


def demo_set_up(places, argv):
    return demo_command.start(places, argv)


def package(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    return packaging.start(places, flags, rest)


def ladder(places, argv):
    flags, passed = take_values(argv, TOOLCHAIN_FLAGS)
    measures = not any(argument.partition("=")[0] == "--from" for argument in passed)
    if measures and not os.environ.get("OFFRAMP_BIN_DIR"):
        set_up_programs(places, flags)
    return continue_set_up(places, LADDER_CONTINUED, ladder_set_up, passed)


def ladder_set_up(places, argv):
    return ladder_command.start(places, argv)


def tune(places, argv):
    require_runner(places)
    return continue_set_up(places, TUNE_CONTINUED, tune_command.start, set_up_for(places, argv))


def run_help(places):
    help_of(places, "run")
    if places.is_installed and not places.producer().exists():
        print("\nThis package has no runner for models; without --model and --input it is `offramp demo`.")
        return int(ExitCode.OK)
    if not places.producer().exists():
        print("\nThe flags of a run itself are listed here once `./launch/offramp setup` has built the programs.")
        return int(ExitCode.OK)
    print("\nFlags of a run:\n", flush=True)
    return subprocess.run([places.producer(), "--help"], check=False).returncode


def consume_help(places):
    """Adds the flags from the program's help, since only the processors document their settings."""
    help_of(places, "consume")
    if not places.consumer().exists():
        print("\nAll flags of consumers are listed here once `./launch/offramp setup` has built the programs.")
        return int(ExitCode.OK)
    program = subprocess.run([places.consumer(), "--help-all"], stdout=subprocess.PIPE, text=True, check=False)
    if program.returncode != 0:
        raise LaunchError(f"the flags of consumers cannot be listed: {places.consumer()} --help-all ended with exit code {program.returncode}",
                          "Its error is above; ./launch/offramp setup rebuilds it", ExitCode.SYSTEM)
    print("\nAll flags of consumers, those of each processor among them:\n\n" + consume_command.flags_among(program.stdout))
    return int(ExitCode.OK)


def setup(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    refuse(rest, "setup")
    set_up_programs(places, flags)
    print(f"[setup] ready: {places.programs()}")
    return int(ExitCode.OK)


def test(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    sanitizers, rest = take_switch(rest, "--sanitizers")
    return testing.run_tests(places, flags, sanitizers, rest)


def bench(places, argv):
    flags, passed = take_values(argv, TOOLCHAIN_FLAGS)
    return benchmark.run_benchmark(places, flags, passed)


def scale(places, argv):
    flags, rest = take_values(argv, ["--run-dir"])
    if not rest:
        raise LaunchError("scale needs a number of consumers, bounds, or auto", "Give one, such as ./launch/offramp scale 4, or 2..12", ExitCode.USAGE)
    wanted = rest[0] if are_bounds(rest[0]) else count(rest[0], "scale")
    refuse(rest[1:], "scale")
    reply = client(places, flags).ask({"do": "scale", "consumers": wanted})
    print(f"run {reply['run_id']}: {reply['before']} -> {reply['consumers']} consumers{reply.get('more') or ''}")
    return int(ExitCode.OK)


def reload(places, argv):
    flags, rest = take_values(argv, ["--run-dir"])
    refuse(rest, "reload")
    return reload_command.reload(client(places, flags))


def trace(places, argv):
    return continue_set_up(places, TRACE_CONTINUED, trace_command.start, argv)


def status(places, argv):
    flags, rest = take_values(argv, ["--run-dir"])
    as_json, rest = take_switch(rest, "--json")
    refuse(rest, "status")
    reply = client(places, flags).ask({"do": "status"})
    del reply["ok"]
    if as_json:
        print(json.dumps(reply, indent=2))
        return int(ExitCode.OK)
    now = reply["status"]
    print(f"run {reply['run_id']} ({now.get('state', 'starting')}{', ending' if reply['ending'] else ''}) in {reply['run_dir']}")
    print(f"  {describe(now, 'samples')}")
    print(f"  consumers {reply['consumers_alive']} alive, {reply['consumers_wanted']} wanted{followed(reply.get('following'))}")
    if reply["reload"] and reply["reload"]["state"] == "running":
        print(f"  reload    {reply['reload']['of'] - reply['reload']['left']} of {reply['reload']['of']} consumers replaced")
    if (age := age_of(now, {"time": wall_clock()})) is not None and now.get("state") == "running":
        print(f"  updated {age:.1f} s ago")
    for line in (*lines_of_workers(now), *describe_holders(now)):
        print(line)
    if now.get("slabs"):
        print("  slabs " + ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in now["slabs"].items() if number))
    return int(ExitCode.OK)


def top(places, argv):
    return continue_set_up(places, TOP_CONTINUED, top_command.start, argv)


def followed(report):
    """Autoscaling, for the line of the number of consumers."""
    if not report:
        return ""
    mean = f", {report['mean_consumers']} on average" if report["mean_consumers"] is not None else ""
    changes = f"; changes: {report['changes']}" if report["changes"] is not None else ""
    return f" ({'within' if report['follows'] else 'no longer within'} {report['bounds']}, by load{changes}{mean})"


def stop(places, argv):
    flags, rest = take_values(argv, ["--run-dir"])
    now, rest = take_switch(rest, "--now")
    refuse(rest, "stop")
    connection = client(places, flags)
    reply = connection.ask({"do": "stop", "now": now})
    print(f"run {reply['run_id']}: {'abandoning' if now else 'draining'}", flush=True)
    connection.wait_for_the_end()
    print(f"run {reply['run_id']}: ended; {reply['run_dir']}/summary.json")
    return int(ExitCode.OK)


def inspect_dead_letters(places, argv):
    return dead_letters.start(places, argv)


def client(places, flags):
    return ControlClient(find_live_run(places, flags.get("--run-dir")))


def examine(places, argv):
    refuse(argv, "doctor")
    findings = doctor.examine_installed(places) if places.is_installed else doctor.examine(places)
    for finding in findings:
        print(finding.line())
    return doctor.exit_code(findings)


def refuse(rest, command):
    if rest:
        raise LaunchError(f"{command} does not accept '{rest[0]}'", "See ./launch/offramp help", ExitCode.USAGE)
