"""The commands `job init`, `status`, `merge`, `sbatch` and `k8s`: a run's work, cut into shards that any number of hosts can do."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile

from offramp_launch import run_command, sink, texts
from offramp_launch.jobs import k8s as job_k8s, merge as job_merge, sbatch as job_sbatch
from offramp_launch.arguments import count, hide_query, take_switch, take_values, without_values
from offramp_launch.demo import shipped_model_flags, wants_demo
from offramp_launch.exit_code import NO_ROOM, ExitCode, LaunchError, cannot_be_started, shell_code
from offramp_launch.jobs.files import link, told
from offramp_launch.jobs.folder import SHARDS, Job, difference_of
from offramp_launch.supervision.log_follower import last_error, warnings_in
from offramp_launch.output_folder import LOCK, NEXT, OutputLock, prepare, removed_after_a_failure
from offramp_launch.run_dir import new_run_id

# Each shard's run is told these by the job.
OF_A_SHARD = ("--shard", "--resume", "--overwrite", "--run-dir", "--run-id", "--samples-folder", "--input-list", "--turn")
# Which an environment or a file of settings may say, too.
SET_BY_JOB = ("shard", "resume", "overwrite", "samples-folder", "input-list")
NOT_IN_A_JOB = {
    "--consumer-user": "consumers of another user would write to a folder that hosts share",
    "--producer": "a program of one's own cuts its input itself",
    "--strategy": "the article's rungs are measured on one machine",
}
# Of this host, or a secret.
NOT_FOR_ALL = ("run-dir", "run-id", "output", "log-file", "lifeline-fd", "trace-dir", "http-url", "http-header")
# Begins the fact of a file that --processor names.
OF_A_PROCESSOR = "processor "
# Of a file system that has none.
NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def start(places, argv):
    what, *rest = argv or [""]
    commands = {"init": init, "status": status, "merge": merge, "sbatch": sbatch, "k8s": k8s}
    if what not in commands:
        raise LaunchError(f"job knows no '{what}'" if what else "job wants to be told what to do", f"Known: {', '.join(commands)}, ray", ExitCode.USAGE)
    try:
        return commands[what](places, rest)
    except OSError as problem:
        if problem.errno in NO_ROOM:    # which every command tells of
            raise
        raise LaunchError(f"{problem.filename or 'a file of the job'}: {problem.strerror or problem}", "Look whether the folders that all hosts share are there",
                          ExitCode.SYSTEM) from problem


def job_of(flags):
    folder = flags.get("--job")
    if not folder:
        raise LaunchError("--job is not given", "Give the job's folder, which all hosts see: --job FOLDER", ExitCode.USAGE)
    return pathlib.Path(folder).absolute()


def init(places, argv):
    given, flags = take_values(argv, ("--job", "--shards", "--output"))
    folder = job_of(given)
    if "--shards" not in given:
        raise LaunchError("--shards is not given", "Give the number of shards: about four for each GPU that will work on them", ExitCode.USAGE)
    shards = count(given["--shards"], "--shards")
    require_job_flags(flags)
    flags, config = settled(places, flags)
    output = pathlib.Path(given.get("--output") or config.get("output") or folder / "output").absolute()
    run_command.require_apart(str(output), config)
    with place_of_a_list(folder) as listing:
        facts, listed = facts_of(places, flags, config, listing=listing)
        return begin(places, folder, output, shards, flags, config, facts, listed)


@contextlib.contextmanager
def place_of_a_list(folder):
    """Beside the list that it becomes, unless the job is refused: then it goes."""
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".input.list.{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def begin(places, folder, output, shards, flags, config, facts, listed):
    """Errors: LaunchError, where the job cannot be, or is another."""
    if not 1 <= shards <= facts["items"]:
        raise LaunchError(f"--shards is {shards}, and the input has {facts['items']} items", f"Give a number from 1 to {facts['items']}", ExitCode.USAGE)
    wanted = new_job(places, facts, shards, output, config, flags, listed)
    if (folder / "job.json").exists():
        job, began = kept(folder, wanted, listed)
        if not job_merge.is_merged(job) and job.unclaimed():
            with alone_in(output, job.id):
                claim(job)
    else:
        with alone_in(output, wanted["id"]):
            if wanted["write_path"]:
                require_empty(pathlib.Path(wanted["write_path"]), "--write-path")
            look_at_output(places, output, flags)
            job, began = kept(folder, wanted, listed)
            claim(job)
    merged = job_merge.is_merged(job)
    print(f"[job] {job.id} {'begins' if began else 'is merged already' if merged else 'is there already'} in {folder}: {job.items} items in {job.shards} shards, results in {job.output}\n"
          f"  do them    ./launch/offramp shard --job {folder} --index I, for each I from 0 to {job.shards - 1}, on any host that sees these folders\n"
          f"  then       ./launch/offramp job merge --job {folder}", flush=True)
    return int(ExitCode.OK)


def new_job(places, facts, shards, output, config, flags, listed):
    """What job.json says of one that begins here. `facts`, `listed`: of facts_of()."""
    return {"id": f"job-{new_run_id()}", "made_by": build_of(places), **facts, "shards": shards, "output": str(output), "write_path": folder_written_to(config),
            "folder": os.getcwd(), "flags": flags, "listed": listed is not None}


@contextlib.contextmanager
def alone_in(output, job_id):
    """No run begins there meanwhile, or has begun: one that has no results yet has nothing there but the lock. Errors: LaunchError."""
    with removed_after_a_failure(run_command.check_output(output, None)) as ended:
        lock = OutputLock(str(output), job_id)
        try:
            yield
        finally:
            lock.close()
        ended.well = True


def kept(folder, wanted, listed):
    """(the job of this folder, whether it began now). Errors: LaunchError, where it is another."""
    if listed:
        keep_list(listed, folder / "input.list")
    job, began = Job.begun(folder, wanted)
    job.require_made_by(wanted["made_by"])
    return job, began


def claim(job):
    """Errors: LaunchError (USAGE) where something lies there that shards would take for their own."""
    for flag, folder in job.unclaimed():
        require_empty(folder, flag)
    job.claim_output()


def folder_written_to(config):
    """That of --write-path; nothing where no processor makes files there."""
    path = pathlib.Path(config.get("write-path", "")).absolute()
    is_used = "write" in config.get("processor", "").split(",") and (path.is_dir() or not os.path.lexists(path))
    return str(path) if is_used else ""


def require_job_flags(flags):
    header = take_values(flags, ("--http-header",))[0].get("--http-header", "@")
    if not header.startswith("@"):
        raise LaunchError("--http-header in the clear would stand in the job's folder, which others may read", "Give it as @FILE, a file that every host sees",
                          ExitCode.USAGE)
    refuse_names(flag.partition("=")[0] for flag in flags)


def refuse_of_a_shard(flags):
    """What the job says, and no host. Errors: LaunchError (USAGE)."""
    require_job_flags(without_values(flags, ("--run-dir",)))
    if any(flag.partition("=")[0] == "--output" for flag in flags):
        raise LaunchError("shard has no --output: the job says where its results go", "Leave it out", ExitCode.USAGE)


def refuse_settings(config):
    """What an environment or a file of settings asks for, and a job has not. `config`: of a run with its flags. Errors: LaunchError (USAGE)."""
    refuse_names(f"--{name}" for name in (*SET_BY_JOB, "consumer-user") if config.get(name))


def refuse_names(names):
    for name in names:
        if name in OF_A_SHARD:
            raise LaunchError(f"job init has no {name}: each shard's run is told it by the job", f"Leave {name} out, also as a variable {variable(name[2:])} "
                              "and in a --config", ExitCode.USAGE)
        if name in NOT_IN_A_JOB:
            raise LaunchError(f"job init has no {name}: {NOT_IN_A_JOB[name]}", f"Leave {name} out", ExitCode.USAGE)


def settled(places, flags):
    """(the flags with all that this host's environment says beside them, what they mean). Errors: LaunchError, for what a run would refuse."""
    flags = hide_query(sink.hide_password(flags, os.environ), os.environ)
    producer, config = run_command.resolve_run(places, flags)
    refuse_settings(config)
    flags = [*flags, *sink.resolve(config, os.environ)]
    if wants_demo(flags, config):
        raise LaunchError("a job wants an input", "Give --input FOLDER, and --model", ExitCode.USAGE)
    flags = [*flags, *shipped_model_flags(flags, config)]
    named = {flag.partition("=")[0] for flag in flags}
    flags += [part for name, value in config.items() if variable(name) in os.environ and f"--{name}" not in named and name not in (*NOT_FOR_ALL, *SET_BY_JOB)
              for part in run_command.as_flag(name, value)]
    flags = in_one_form(flags, config)
    run_command.resolve(str(places.consumer()), flags)
    return flags, run_command.resolve(producer, flags)


def in_one_form(flags, config):
    """
    `--name=value`, of a switch `--name=true`: which word is a value is known here alone, and a shard puts its own flags in their place. An empty text stays a
    word of its own, as programs take none behind '='. `config`: what the flags mean.
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
    """Of one version there may be several."""
    return " ".join(filter(None, (places.version(), places.commit())))


def facts_of(places, flags, config, listing=None, listed=None):
    """
    ({"items", "identity"} of the input as it is now, the file with its list). `config`: what the flags mean. `listing`: where the list is written, if the input has
    one; `listed`: the list that was written. Errors: LaunchError, for what the producer refuses.
    """
    if config.get("source") in texts.SOURCES:
        texts.provide_tokenizers(places)
    command = [str(places.producer()), "job-facts", str(listing or ""), *flags, *(["--input-list", str(listed)] if listed else [])]
    facts = json.loads(ask(command))
    facts["identity"].update(hashes_of_processors(config))
    return facts, listing if listing and listing.exists() else None


def hashes_of_processors(config):
    """Of the files that --processor names: FILE:NAME, so:FILE, exec:FILE."""
    files = [pathlib.Path(part) for name in config.get("processor", "").split(",") for part in (name.rpartition(":")[0], name.partition(":")[2]) if part]
    return {f"{OF_A_PROCESSOR}{file}": job_merge.digest(file) for file in files if file.is_file()}


def ask(command, told_to="", warned=None, **more):
    """What a program answers. `warned`: gets what it warns of. Errors: LaunchError, in its own words and with its code."""
    try:
        done = subprocess.run(command, input=told_to, capture_output=True, text=True, check=False, **more)
    except OSError as problem:
        raise cannot_be_started(command[0], problem) from problem
    if done.returncode != 0:
        raise LaunchError(last_error(done.stderr) or done.stderr.strip() or f"'{command[0]} {command[1]}' ended with exit code {done.returncode} and wrote nothing",
                          "", shell_code(done.returncode))
    for message in warnings_in(done.stderr.splitlines() if warned else ()):
        warned(message)
    return done.stdout


def look_at_output(places, output, flags):
    """Errors: LaunchError, where results of others lie: shards cannot tell them from one another's."""
    run_command.check_output(output, None)
    require_empty(output, "--output")
    require_locks(output)
    prepare(output, [str(places.consumer()), *flags, "--output", str(output)], {}, beyond=True)
    if (output / NEXT).exists():
        os.unlink(output / NEXT)
        raise LaunchError("the table that --sink-table leads to holds results of another run", "Give the job a --sink-table of its own, or drop that table",
                          ExitCode.USAGE)


def require_empty(folder, flag):
    """Errors: LaunchError (USAGE)."""
    with told(folder):
        there = os.listdir(folder) if os.path.lexists(folder) else []
    # Another host may have begun the same job by now: whose it is says the file there.
    if others := sorted(name for name in there if name not in (LOCK, SHARDS)):
        raise LaunchError(f"{flag} {folder} holds something already: {', '.join(others[:3])}",
                          "Give a job a folder of its own, which is empty or not there yet", ExitCode.USAGE)


def require_locks(folder):
    """
    Two attempts at one shard would take each other's unfinished work away. Errors: LaunchError (CONFIG where the file system has no locks, SYSTEM
    where it does not give them now).
    """
    with told(folder), tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno not in NO_LOCKS:
                raise LaunchError(f"{folder} gives no locks: {problem.strerror}", "Look whether the lock service of the file system (of NFS: lockd, statd) runs on this host",
                                  ExitCode.SYSTEM) from problem
            raise LaunchError(f"{folder} lies on a file system without locks ({problem.strerror}), by which two attempts at one shard keep out of each other's way",
                              "Mount it with locks (flock), or choose another", ExitCode.CONFIG) from problem


def keep_list(written, path):
    """Errors: LaunchError (USAGE) where a list of other items is there."""
    with told(path):
        content = written.read_bytes()
        if not link(written, path) and path.read_bytes() != content:
            raise LaunchError(f"{path} is the list of an input that was another then", "Begin a job for the input as it is now in another folder", ExitCode.USAGE)


def require_same_input(job, facts):
    """Errors: LaunchError (BAD_INPUT; NO_INPUT where a processor's file is not here)."""
    for name in set(job.facts["identity"]).difference(facts["identity"]):
        if (file := pathlib.Path(name.removeprefix(OF_A_PROCESSOR))) != pathlib.Path(name) and not file.exists():
            raise LaunchError(f"the processor's file {file} is not here", "Mount on this host what the job's first one had, under the same path", ExitCode.NO_INPUT)
    if difference := difference_of({name: job.facts[name] for name in ("items", "identity")}, facts):
        raise LaunchError(f"the input or the model is not what {job.folder / 'job.json'} says: {difference}",
                          "Put it back as it was, or begin another job (a setting that this machine fills in otherwise has to be given to job init)", ExitCode.BAD_INPUT)


def status(places, argv):
    given, rest = take_values(argv, ("--job",))
    only_missing, rest = take_switch(rest, "--missing")
    as_json, rest = take_switch(rest, "--json")
    refuse(rest)
    job = Job.found(job_of(given))
    records = job.records()
    missing = [index for index in range(job.shards) if index not in records]
    whole = {**job_merge.sums(job, records), "job": job.id, "shards": job.shards, "shards_done": len(records), "missing": missing}
    if as_json:
        print(json.dumps(whole, indent=2))
    elif only_missing:
        print(job_merge.as_ranges(missing))
    else:
        print("\n".join(told_of(job, whole)))
    return int(ExitCode.OK)


def told_of(job, whole):
    yield f"{job.id} in {job.folder}: {whole['shards_done']} of {job.shards} shards are done, {whole['done']} of {job.items} items"
    yield from job_merge.losses(whole)
    for index in whole["missing"][:SHOWN_MISSING]:
        attempts = job.attempts(index)
        last = attempts[-1] if attempts else None
        ended = "" if not last else f", the last on {last.get('host')}: " + (f"exit code {last['exit']}" if "exit" in last else "under way, or killed")
        yield f"  shard {index}: {len(attempts)} attempts{ended}"
    if len(whole["missing"]) > SHOWN_MISSING:
        yield f"  and {len(whole['missing']) - SHOWN_MISSING} more: ./launch/offramp job status --missing lists them"
    if not whole["missing"]:
        merged = job_merge.is_merged(job)
        yield f"  merged     {job.output}" if merged else f"  then       ./launch/offramp job merge --job {job.folder}"


SHOWN_MISSING = 20


def merge(places, argv):
    given, rest = take_values(argv, ("--job",))
    partial, rest = take_switch(rest, "--partial")
    refuse(rest)
    job = Job.found(job_of(given))
    job.require_for_hosts()
    job.require_made_by(build_of(places))
    enter(job)
    return job_merge.merge(places, job, partial, lambda *words, **more: ask(*words, warned=lambda text: print(f"[job] {text}", file=sys.stderr, flush=True), **more))


def sbatch(places, argv):
    job, given, flags = for_an_engine(argv, job_sbatch.FLAGS)
    command = shutil.which(places.continue_command_line()) or places.continue_command_line()
    sys.stdout.write(job_sbatch.script(job, command, given, flags))
    return int(ExitCode.OK)


def k8s(places, argv):
    job, given, flags = for_an_engine(argv, job_k8s.FLAGS)
    sys.stdout.write(job_k8s.manifest(job, given, flags))
    return int(ExitCode.OK)


def for_an_engine(argv, names):
    """(the job, the named flags, flags of each shard). Those stand behind `--`."""
    at = argv.index("--") if "--" in argv else len(argv)
    given, rest = take_values(argv[:at], ("--job", *names))
    refuse(rest)
    flags = argv[at + 1:]
    refuse_of_a_shard(flags)
    return Job.found(job_of(given)), given, flags


def enter(job):
    """The paths of its flags are meant from where the job began."""
    try:
        os.chdir(job.facts["folder"])
    except OSError as problem:
        raise LaunchError(f"the folder {job.facts['folder']}, from which the job's paths are meant, is not here: {problem.strerror}",
                          "Mount on this host what the job's first one had, under the same path", ExitCode.SINK_UNAVAILABLE) from problem


def refuse(rest):
    if rest:
        raise LaunchError(f"job knows no '{rest[0]}'", "See ./launch/offramp job --help", ExitCode.USAGE)


