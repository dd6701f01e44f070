"""The commands `job init`, `status`, `merge`, `sbatch` and `k8s`: split a run's work into shards for many hosts."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import pathlib
import secrets
import shutil
import sys
import tempfile

from offramp_launch import arguments, run_steps, settings, sink, texts
from offramp_launch.jobs import engines, merge as job_merge
from offramp_launch.demo import shipped_model_flags, wants_demo
from offramp_launch.groups import given_as_flags, groups_of
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, NO_ROOM, NotFoundError, UsageError
from offramp_launch.jobs.files import link, write_errors
from offramp_launch.jobs.folder import SHARDS, Job, difference_of
from offramp_launch.output_folder import NOTES, OutputLock, prepare, removed_after_a_failure
from offramp_launch.processes import answer_of
from offramp_launch.run_dir import new_run_id

# The job gives these to each shard's run.
OF_A_SHARD = tuple(
    "--shard --resume --overwrite --run-dir --run-id --samples-folder --input-list --input-index --turn".split()
)
# The same, if the environment or a settings file sets them.
SET_BY_JOB = ("shard", "resume", "overwrite", "samples-folder", "input-list", "input-index")
NOT_IN_A_JOB = {
    "--consumer-user": "consumers of another user would write to a folder that hosts share",
    "--producer": "your own producer program splits its input itself",
    "--strategy": "the rungs are measured on one machine",
}
# Specific to this host, or secret.
NOT_FOR_ALL = ("run-dir", "run-id", "output", "log-file", "lifeline-fd", "trace-dir", "http-url", "http-header")
# Prefix of the identity's entry for a file that --processor names.
OF_A_PROCESSOR = "processor "
# Files that job-facts may write beside its list, by the ends of their names. A shard uses the last one with the others.
BESIDE_A_LIST = ("items", "index")
# From a file system without locks.
NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def start(places, argv):
    what, *rest = argv or [""]
    commands = {"init": init, "status": status, "merge": merge, "sbatch": sbatch, "k8s": k8s}
    if what not in commands:
        raise UsageError(
            f"'{what}' is not a command of job" if what else "job needs a command",
            f"Commands: {', '.join(commands)}, ray",
        )
    try:
        return commands[what](places, rest)
    except OSError as problem:
        if problem.errno in NO_ROOM:  # the launcher reports it for every command
            raise
        raise job_merge.error_of_file(problem) from problem


def job_of(flags):
    folder = flags.get("--job")
    if not folder:
        raise UsageError("--job is not given", "Give the job's folder, which all hosts share: --job FOLDER")
    return arguments.folder_given(folder, "--job")


def init(places, argv):
    given, flags = arguments.take_values(argv, ("--job", "--shards", "--output"))
    folder = job_of(given)
    if "--shards" not in given:
        raise UsageError(
            "--shards is not given", "Give the number of shards: about four per GPU that will work on them"
        )
    shards = arguments.count(given["--shards"], "--shards")
    require_job_flags(flags)
    wanted = given.get("--output") and arguments.folder_given(given["--output"])
    flags, config = settled(places, flags)
    output = wanted or arguments.folder_given(config.get("output") or folder / "output")
    run_steps.require_apart(str(output), config, groups_of(config, flags))
    with place_of_a_list(folder) as listing:
        facts = facts_of(places, flags, config, listing=listing, output=output)
        return begin(places, folder, output, shards, flags, config, facts, listing)


@contextlib.contextmanager
def place_of_a_list(folder):
    """A temporary path for the job's list of input, and what is written beside it; removed if the job is refused."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".input.list.{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        for written in folder.glob(f"{path.name}*"):
            with contextlib.suppress(OSError):
                written.unlink()


def beside(path, end):
    return path.with_name(f"{path.name}.{end}")


def begin(places, folder, output, shards, flags, config, facts, listing):
    """Begins the job, or continues an equal one. Errors: LaunchError, if it cannot, or the folder holds another."""
    if not 1 <= shards <= facts["items"]:
        raise UsageError(
            f"--shards is {shards}, and the input has {facts['items']} items",
            f"Give a number from 1 to {facts['items']}",
        )
    wanted = new_job(places, facts, shards, output, config, flags, listing)
    if (folder / "job.json").exists():
        job, began = kept(folder, wanted, listing)
        if not job_merge.is_merged(job) and job.unclaimed():
            with alone_in(output, job.id):
                claim(job)
    else:
        with alone_in(output, wanted["id"]):
            require_room(places, wanted, flags)
            job, began = kept(folder, wanted, listing)
            claim(job)
    merged = job_merge.is_merged(job)
    print(
        f"[job] {job.id} {'begins' if began else 'is merged already' if merged else 'exists already'} in {folder}: {job.items} items in {job.shards} shards, results in {job.output}\n"
        f"  run        ./launch/offramp shard --job {folder} --index I, for each I from 0 to {job.shards - 1}, on any host that shares these folders\n"
        f"  then       ./launch/offramp job merge --job {folder}",
        flush=True,
    )
    return int(ExitCode.OK)


def new_job(places, facts, shards, output, config, flags, listing):
    """The contents of job.json for a new job. `facts`, `listing`: of facts_of()."""
    return {
        "id": f"job-{new_run_id()}",
        "made_by": build_of(places),
        **facts,
        "shards": shards,
        "output": str(output),
        "write_path": folder_written_to(config),
        "folder": os.getcwd(),
        "flags": flags,
        "listed": listing.exists(),
    }


@contextlib.contextmanager
def alone_in(output, job_id):
    """Holds the output's lock, which is all that a run without results yet has there. Errors: LaunchError."""
    with removed_after_a_failure(run_steps.check_output(output, None)) as ended:
        with contextlib.closing(OutputLock(str(output), job_id)):
            yield
        ended.well = True


def kept(folder, wanted, listing):
    """(the job of this folder, whether it began now). Errors: LaunchError, if the folder holds another."""
    if wanted["listed"]:
        keep_list(listing, folder / "input.list")
    job, began = Job.begun(folder, wanted)
    job.require_made_by(wanted["made_by"])
    if not job_merge.is_merged(job):
        keep_index(listing, job)
    return job, began


def claim(job):
    """Errors: LaunchError (USAGE) if a folder is not empty: shards would take the files for their own."""
    for flag, folder in job.unclaimed():
        require_empty(folder, flag)
    job.claim_output()


def folder_written_to(config):
    """The folder of --write-path; empty if no processor writes there."""
    path = pathlib.Path(config.get("write-path", "")).absolute()
    is_used = "write" in config.get("processor", "").split(",") and (path.is_dir() or not os.path.lexists(path))
    return str(path) if is_used else ""


def require_job_flags(flags):
    header = arguments.take_values(flags, ("--http-header",))[0].get("--http-header", "@")
    if not header.startswith("@"):
        raise UsageError(
            "an --http-header that is not in a file would be stored in the job's folder, which others may read",
            "Give it as @FILE, a file that every host sees",
        )
    refuse_names(word.partition("=")[0] for word in flags)  # the first is reported


def refuse_of_a_shard(flags):
    """Refuses flags that only the job may set, not a host. Errors: LaunchError (USAGE)."""
    require_job_flags(arguments.without_values(flags, ("--run-dir",)))
    if "--output" in arguments.names_in(flags):
        raise UsageError("shard does not accept --output: the job sets it", "Leave it out")


def refuse_settings(config):
    """Errors: LaunchError (USAGE) for a run's settings that a job does not support, from wherever they come."""
    refuse_names(f"--{name}" for name in (*SET_BY_JOB, "consumer-user") if config.get(name))


def refuse_names(names):
    for name in names:
        if name in OF_A_SHARD:
            raise UsageError(
                f"job init does not accept {name}: the job sets it for each shard",
                f"Leave {name} out, also as a variable {variable(name[2:])} and in a --config",
            )
        if name in NOT_IN_A_JOB:
            raise UsageError(f"job init does not accept {name}: {NOT_IN_A_JOB[name]}", f"Leave {name} out")


def settled(places, flags):
    """(the flags with all settings of this host, their config). Errors: LaunchError, for what a run would refuse."""
    flags = arguments.hide_query(sink.hide_password(flags, os.environ), os.environ)
    producer, config = settings.resolve_run(places, flags)
    refuse_settings(config)
    flags = [*flags, *sink.resolve(config, os.environ)]
    if wants_demo(flags, config):
        raise UsageError("a job needs an input", "Give --input FOLDER, and --model")
    flags = given_as_flags(groups_of(config, flags), config, [*flags, *shipped_model_flags(flags, config)])
    named = arguments.names_in(flags)
    flags += [
        part
        for name, value in config.items()
        if variable(name) in os.environ and f"--{name}" not in named and name not in (*NOT_FOR_ALL, *SET_BY_JOB)
        for part in settings.as_flag(name, value)
    ]
    flags = in_one_form(flags, config)
    settings.resolve(str(places.consumer()), flags)
    return flags, settings.resolve(producer, flags)


def in_one_form(flags, config):
    """
    The flags as `--name=value`; of a switch `--name=true`. A shard replaces flags of the job with its own, and cannot
    know which words are values. An empty value stays a separate word, as programs refuse one after '='. `config`: of
    these flags.
    """
    words, found = iter(flags), []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            value = "true" if isinstance(config.get(name.removeprefix("--")), bool) else next(words, "")
        found += [f"{name}={value}"] if value else [name, value]
    return found


def variable(name):
    return "OFFRAMP_" + name.replace("-", "_").upper()


def build_of(places):
    """Version and commit: one version may have several builds."""
    return " ".join(filter(None, (places.version(), places.commit())))


def facts_of(places, flags, config, listing=None, output=None, job=None):
    """
    {"items", "identity"} of the input as it is now. `config`: of these flags. For a new job, `listing`: where to write
    the list of a folder, and beside it the index with which a shard reads only its part; `output`: where its results
    go. `job`: the job that has these files. Errors: LaunchError, if the producer refuses the flags.
    """
    if config.get("source") in texts.SOURCES:
        texts.provide_tokenizers(places)
    of_job = arguments.words_of(job.flags_of_input() if job else {"--output": output})
    facts = json.loads(answer_of([str(places.producer()), "job-facts", str(listing or ""), *flags, *of_job]))
    if why := facts.pop("unwritten", ""):
        warn_of_whole_lists(why)
    facts["identity"].update(hashes_of_processors(config))
    return facts


def hashes_of_processors(config):
    """Hashes of the files that --processor names: FILE:NAME, so:FILE, exec:FILE."""
    files = [
        pathlib.Path(part)
        for name in config.get("processor", "").split(",")
        for part in (name.rpartition(":")[0], name.partition(":")[2])
        if part
    ]
    return {f"{OF_A_PROCESSOR}{file}": job_merge.digest(file) for file in files if file.is_file()}


def require_room(places, wanted, flags):
    """Errors: LaunchError, if new_job()'s folders hold results: shards cannot distinguish them from each other's."""
    output = pathlib.Path(wanted["output"])
    if wanted["write_path"]:
        require_empty(pathlib.Path(wanted["write_path"]), "--write-path")
    run_steps.check_output(output, None)
    require_empty(output, "--output")
    require_locks(output)
    prepare(output, [str(places.consumer()), *flags, "--output", str(output)], {}, beyond=True)


def require_empty(folder, flag):
    """Errors: LaunchError (USAGE)."""
    with write_errors(folder):
        there = os.listdir(folder) if os.path.lexists(folder) else []
    # Another host may have begun the same job by now: the claim in SHARDS decides.
    if others := sorted(name for name in there if name not in (*NOTES, SHARDS)):
        raise UsageError(
            f"{flag} {folder} is not empty: {', '.join(others[:3])}", "Give each job an empty or new folder"
        )


def require_locks(folder):
    """Without locks attempts remove each other's work. Errors: LaunchError (CONFIG without locks, SYSTEM if broken)."""
    with write_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in NO_LOCKS:
                raise LaunchError(
                    f"files in {folder} cannot be locked: {problem.strerror}",
                    "Check that the file system's lock service (for NFS: lockd, statd) runs on this host",
                ) from problem
            raise LaunchError(
                f"{folder} is on a file system without locks ({problem.strerror}); locks keep two attempts from processing one shard",
                "Mount it with locks (flock), or choose another",
                ExitCode.CONFIG,
            ) from problem


def keep_list(written, path):
    """Errors: LaunchError (USAGE) if the folder holds a list of other items."""
    with write_errors(path):
        content = written.read_bytes()
        if not link(written, path) and path.read_bytes() != content:
            raise UsageError(
                f"the input has changed since {path} was written",
                "To use the input as it is now, begin a job in another folder",
            )


def keep_index(listing, job):
    """Gives the job the files beside its list, and removes those that an earlier init left."""
    try:
        if not beside(listing, BESIDE_A_LIST[-1]).exists():
            for end in reversed(BESIDE_A_LIST):
                (job.folder / f"input.{end}").unlink(missing_ok=True)
            return
        for end in BESIDE_A_LIST:
            if (written := beside(listing, end)).exists():
                os.replace(written, job.folder / f"input.{end}")
    except OSError as problem:
        warn_of_whole_lists(f"{job.folder / 'input.index'} cannot be written: {problem.strerror}")


def warn_of_whole_lists(why):
    print(
        f"[job] warning: {why}. Each shard reads the whole list of pictures; to write the index, give job init again",
        file=sys.stderr,
        flush=True,
    )


def require_same_input(job, facts):
    """Errors: LaunchError (BAD_INPUT; NO_INPUT if a processor's file is missing on this host)."""
    for name in set(job.facts["identity"]).difference(facts["identity"]):
        if (file := pathlib.Path(name.removeprefix(OF_A_PROCESSOR))) != pathlib.Path(name) and not file.exists():
            raise NotFoundError(
                f"the processor's file {file} does not exist on this host",
                "Mount the same folders on this host as on the job's first, under the same paths",
            )
    if difference := difference_of({name: job.facts[name] for name in ("items", "identity")}, facts):
        raise InputError(
            f"the input or the model differs from {job.folder / 'job.json'}: {difference}",
            "Restore it, or begin another job (give job init the settings that have other defaults on this machine)",
        )


def status(places, argv):
    given = arguments.parse(argv, "job", ("--job",), ("--missing", "--json"), "job --help")
    job = Job.found(job_of(given))
    records = job.records()
    missing = job.missing(records)
    about = {"job": job.id, "shards": job.shards, "shards_done": len(records), "missing": missing}
    whole = {**job_merge.sums(job, records), **about}
    if "--json" in given:
        print(json.dumps(whole, indent=2))
    elif "--missing" in given:
        print(job_merge.as_ranges(missing))
    else:
        print("\n".join(status_lines(job, whole)))
    return int(ExitCode.OK)


def status_lines(job, whole):
    yield f"{job.id} in {job.folder}: {whole['shards_done']} of {job.shards} shards are done, {whole['done']} of {job.items} items"
    yield from job_merge.lines_of_groups(whole)
    yield from job_merge.losses(whole)
    for index in whole["missing"][:SHOWN_MISSING]:
        attempts = job.attempts(index)
        ended = ""
        if attempts:
            how = f"exit code {attempts[-1]['exit']}" if "exit" in attempts[-1] else "under way, or killed"
            ended = f", the last on {attempts[-1].get('host')}: {how}"
        yield f"  shard {index}: {len(attempts)} attempts{ended}"
    if len(whole["missing"]) > SHOWN_MISSING:
        yield f"  and {len(whole['missing']) - SHOWN_MISSING} more: ./launch/offramp job status --missing lists them"
    if not whole["missing"]:
        merged = job_merge.is_merged(job)
        yield f"  merged     {job.output}" if merged else f"  then       ./launch/offramp job merge --job {job.folder}"


SHOWN_MISSING = 20


def merge(places, argv):
    given = arguments.parse(argv, "job", ("--job",), ("--partial",), "job --help")
    job = Job.found(job_of(given))
    job.require_for_hosts()
    job.require_made_by(build_of(places))
    enter(job)
    ask = functools.partial(answer_of, warned=lambda text: print(f"[job] {text}", file=sys.stderr, flush=True))
    return job_merge.merge(places, job, "--partial" in given, ask)


def sbatch(places, argv):
    command = shutil.which(places.continue_command_line()) or places.continue_command_line()
    job, given, flags = for_an_engine(argv, engines.SBATCH_FLAGS)
    return write(engines.script(job, command, given, flags))


def k8s(places, argv):
    return write(engines.manifest(*for_an_engine(argv, engines.K8S_FLAGS)))


def write(text):
    sys.stdout.write(text)
    return int(ExitCode.OK)


def for_an_engine(argv, names):
    """(the job, the named flags, each shard's flags). The latter follow `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    given = arguments.parse(argv[:at], "job", ("--job", *names), page="job --help")
    flags = argv[at + 1 :]
    refuse_of_a_shard(flags)
    return Job.found(job_of(given)), given, flags


def enter(job):
    """Changes to the folder where the job began: its flags' relative paths start there."""
    try:
        os.chdir(job.facts["folder"])
    except OSError as problem:
        raise LaunchError(
            f"the folder {job.facts['folder']}, which the job's paths are relative to, is missing on this host: {problem.strerror}",
            "Mount the same folders on this host as on the job's first, under the same paths",
            ExitCode.SINK_UNAVAILABLE,
        ) from problem
