"""The first steps of the commands that run programs: their help, the set-up, and which of several commands is meant."""

import os
import pathlib
import subprocess
import sys

from offramp_launch import interrupts
from offramp_launch.arguments import names_in, refuse, take_all, take_values
from offramp_launch.exit_code import ExitCode
from offramp_launch.groups import FLAG, parsed
from offramp_launch.help_pages import print_page
from offramp_launch.setup.build import set_up_programs
from offramp_launch.setup.toolchain import FLAGS as TOOLCHAIN_FLAGS
from offramp_launch.stores.place import url_given


def set_up_for(places, argv, beside=(), needs_runner=False):
    """Sets up the programs. Returns the programs' flags. `beside`: further flags, given elsewhere."""
    if needs_runner:
        require_runner(places)
    if places.is_installed:
        return argv
    flags, passed = take_values(argv, TOOLCHAIN_FLAGS)
    if not os.environ.get("OFFRAMP_BIN_DIR"):
        had_environment = places.venv_python.exists()
        set_up_programs(places, flags, requirements_of([*beside, *passed]))
        if not had_environment and places.venv_python.exists():
            begin_again(places)
    return passed


def begin_again(places):
    """The same command in the environment that the set-up has just made, in which launch/offramp begins from now on."""
    sys.stdout.flush()
    with interrupts.blocked():
        os.execv(
            places.venv_python,
            [*places.python_command(places.venv_python, places.launch / "offramp_launch", "-E", "-s"), *sys.argv[1:]],
        )


def requirements_of(argv, environment=os.environ):
    """Additional requirement files for a run's flags: Arrow for Parquet, and obstore for object stores."""
    given = take_values(argv, ("--processor", "--source"))[0]
    processors = given.get("--processor", environment.get("OFFRAMP_PROCESSOR", "")).split(",")
    groups = [text for _, text in take_all(argv, (FLAG,))[0]] or environment.get("OFFRAMP_GROUP", "").splitlines()
    processors += [parsed(text).processor for text in groups]
    reads = given.get("--source", environment.get("OFFRAMP_SOURCE", "")) == "parquet-text"
    return (
        *(["requirements-parquet.txt"] if reads or "embeddings-parquet" in processors else []),
        *(["requirements-stores.txt"] if url_given(argv, environment) else []),
    )


def require_runner(places):
    if places.is_installed and not places.producer().exists():
        from offramp_launch.installed import no_runner

        raise no_runner()


def version(places, argv):
    from offramp_launch.settings import version_of

    refuse(argv, "version")
    ours, programs = places.version(), version_of(places.consumer() if places.is_installed else places.producer())
    print(f"offramp {ours}" + (f" (commit {commit})" if (commit := places.commit()) else ""))
    if programs not in (None, ours):
        print(
            f"Its programs in {places.programs()} are {programs}: "
            + ("install both in one version" if places.is_installed else "./launch/offramp setup rebuilds them")
        )
    return int(ExitCode.OK)


def setup(places, argv):
    flags, rest = take_values(argv, TOOLCHAIN_FLAGS)
    refuse(rest, "setup")
    set_up_programs(places, flags)
    print(f"[setup] ready: {places.programs()}")
    return int(ExitCode.OK)


def run(places, argv):
    if {"-h", "--help"}.intersection(argv):
        return run_help(places)
    if "--version" in argv:
        return version(places, [])
    names = names_in(argv)
    if "--on" in names:
        from offramp_launch.jobs import on_ray

        return on_ray.run(argv)
    if places.is_installed and not places.producer().exists() and "--producer" not in names:
        from offramp_launch import demo_command, installed

        if not installed.is_demo(argv):
            raise installed.no_runner()
        return demo_command.start(places, argv)
    argv = set_up_for(places, argv)
    if names.intersection(("--gpus", "--shards", "--start-ahead")):
        from offramp_launch.gpus.command import start
    elif "--producer" in names:
        from offramp_launch.program_command import start
    else:
        from offramp_launch.run_command import start
    return start(places, argv, ["run", *argv])


def run_help(places):
    print_page(places, "run", sets_up=True)
    if places.is_installed and not places.producer().exists():
        print("\nThis package has no runner for models; without --model and --input it is `offramp demo`.")
        return int(ExitCode.OK)
    if not places.producer().exists():
        print("\nThe flags of a run itself are listed here once `./launch/offramp setup` has built the programs.")
        return int(ExitCode.OK)
    print("\nFlags of a run:\n", flush=True)
    return subprocess.run([places.producer(), "--help"], check=False).returncode


def consume(places, argv):
    from offramp_launch import consume_command

    if {"-h", "--help", "--help-all"}.intersection(argv):
        return consume_command.print_help(places)
    # An Egress that starts this command has its programs.
    argv = argv if consume_command.is_started_by_egress(argv) else set_up_for(places, argv)
    return consume_command.start(places, argv, ["consume", *argv])


def job(places, argv):
    if argv[:1] == ["ray"]:
        from offramp_launch.jobs import on_ray

        return on_ray.start(places, argv[1:])
    from offramp_launch.jobs import command

    if argv[:1] not in (["status"], ["sbatch"], ["k8s"]):
        require_runner(places)
        argv = set_up_for(places, argv, flags_of_job(argv))
    return command.start(places, argv)


def shard(places, argv):
    require_runner(places)
    from offramp_launch.jobs import shard_command

    return shard_command.exit_of_attempt(
        lambda: shard_command.start(places, set_up_for(places, argv, flags_of_job(argv)))
    )


def flags_of_job(argv):
    """The flags that the job began with; empty before it has begun."""
    from offramp_launch.jobs import files

    folder = take_values(argv, ("--job",))[0].get("--job")
    facts = files.read(pathlib.Path(folder) / "job.json") if folder else None
    return facts.get("flags", []) if isinstance(facts, dict) else []


def ladder(places, argv):
    flags, passed = take_values(argv, TOOLCHAIN_FLAGS)
    if "--from" not in names_in(passed):
        set_up_for(places, argv)
    from offramp_launch.ladder import command

    return command.start(places, passed)
