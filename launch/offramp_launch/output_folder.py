"""
The output folder of a run: its lock while the run lives, and the work of earlier runs in it.

An output folder belongs to one piece of work. --resume continues it, other work is refused, and --overwrite renames the
folder to FOLDER.before-RUN_ID when the new run starts. A run that makes no result gives the folder its name back.
Nothing is replaced in place.
"""

import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import math
import os
import pathlib
import stat
import subprocess
import time
import types

from offramp_launch import interrupts, intervals, shared_folder
from offramp_launch.exit_code import ExitCode, InputError, LaunchError, UsageError, write_errors, WriteError
from offramp_launch.processes import error_of, is_alive
from offramp_launch.progress import print_note

# Names that the programs use too: producer/runner/checkpoint/output_lock.hpp,
# producer/runner/checkpoint/checkpoint_file.hpp.
LOCK = ".offramp-lock"
CHECKPOINT = ".offramp-checkpoint"
ITEMS, NEW_ITEMS = ".offramp-items", ".offramp-items.new"  # producer/runner/checkpoint/items_file.hpp
OWN_RUN = ".offramp-own-run"  # consumer/processors/results/own_run.cpp
EGRESS, NEW_EGRESS = ".offramp-egress", ".offramp-egress.new"  # launch/python/offramp/_checkpoint.py
STORE, OWNER = ".offramp-store", ".offramp-output"  # stores/place.py
OF_OFFRAMP = ".offramp-"
# Files of a run in its output before it has a result.
NOTES = (LOCK, OWN_RUN, NEW_EGRESS, ITEMS, NEW_ITEMS, STORE, OWNER)
OF_AN_OWN_RUN = (EGRESS, CHECKPOINT, OWN_RUN)  # notes of a custom program's work
CLAIM = pathlib.Path(".offramp-shards/job.json")  # jobs/folder.py
LONGEST_CLAIM = 64 << 10
# Errors of a file that is missing, or of another form.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
AT_FDCWD, RENAME_NOREPLACE = -100, 1
LEFT_OVER_SECONDS = 30  # programs whose launcher died end by themselves after a slab and a few seconds
LOOK_AGAIN_SECONDS = 0.1


class OutputLock:
    """
    Keeps a second run out of an output folder, from before its programs start until their results are merged.
    Owns: a lock on OUTPUT/.offramp-lock, and a descriptor of the folder, whose name may later lead elsewhere. The lock
    is taken exclusively, and then shared: each program that runs a user's code takes its own share
    (common/app/program/output_share.hpp), so that the lock outlives a killed launcher, and no user code releases it for
    others. Programs that merge results inherit `fd`: they run no user code. Errors: LaunchError (RUN_IN_USE) naming the
    other run and its launcher.
    """

    def __init__(self, folder, run_id, note=print_note):
        self._note = note
        self._has_reported_wait = False
        self._folder, self._aside = os.path.abspath(folder), {}  # each folder that was set aside, and its name now
        self.run_id = run_id
        deadline = time.monotonic() + LEFT_OVER_SECONDS
        with output_errors(folder):
            self._inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not (self._try_lock(folder, deadline) and self._is_in_place(folder)):
                pass
        except BaseException:
            os.close(self._inside)
            raise

    def _is_in_place(self, folder):
        """Whether the locked folder still has that name. If another run has renamed it, gives the lock up."""
        if self._has_its_folder():
            return True
        self._remove()
        os.close(self.fd)
        with output_errors(folder):
            self._hold(folder)
        return False

    def _try_lock(self, folder, deadline):
        """False: try again."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | shared_folder.AS_IT_IS
        with output_errors(folder):
            try:
                self.fd = os.open(LOCK, flags, 0o644, dir_fd=self._inside)
            except OSError as problem:
                if problem.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                    raise self._foreign_files(folder) from problem
                raise
        facts = os.fstat(self.fd)
        # placed there by another program: its target is not this run's
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            os.close(self.fd)
            raise self._foreign_files(folder)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait_for_programs_left_over(folder, deadline)
            os.close(self.fd)
            return False
        except OSError:
            self._note(f"the file system of {folder} has no locks: a second run into it would not be detected")
            with contextlib.suppress(OSError):
                self._share(folder)
            return True
        # The previous holder may have removed the opened file.
        if self._has_its_name() and self._share(folder):
            return True
        os.close(self.fd)
        return False

    def _share(self, folder):
        """Writes the lock's owner into it, and shares it with the run's programs. False: another run was faster."""
        with output_errors(folder):
            try:
                os.ftruncate(self.fd, 0)
                os.pwrite(self.fd, json.dumps({"run": self.run_id, "pid": os.getpid()}).encode(), 0)
                with contextlib.suppress(PermissionError):  # the file is another user's
                    os.fchmod(self.fd, 0o644)  # whatever the umask: consumers of --consumer-user read it
            except OSError:
                self._remove()
                os.close(self.fd)
                raise
        try:
            fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _has_its_name(self):
        try:
            return os.path.samestat(os.fstat(self.fd), os.stat(LOCK, dir_fd=self._inside, follow_symlinks=False))
        except OSError:
            return False

    def _wait_for_programs_left_over(self, folder, deadline):
        """Errors: LaunchError when the other launcher is alive, or its programs do not end."""
        try:
            holder = json.loads(os.pread(self.fd, 512, 0))
            run, pid = str(holder["run"]), int(holder["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            run, pid = "?", None
        if pid is None or is_alive(pid) or time.monotonic() > deadline:
            os.close(self.fd)
            raise LaunchError(
                f"run {run} (process {pid or '?'}, or a program that it started) writes to {folder}",
                "Wait for its end, stop it (./launch/offramp stop), or give this run another --output",
                ExitCode.RUN_IN_USE,
            )
        if not self._has_reported_wait:
            self._note(f"waiting for the last programs of run {run}, whose launcher (process {pid}) died")
            self._has_reported_wait = True
        time.sleep(LOOK_AGAIN_SECONDS)

    @staticmethod
    def _foreign_files(folder):
        return WriteError(
            f"{pathlib.Path(folder) / LOCK} is not an Offramp lock: it is not an ordinary file, or has several links",
            "Remove it",
        )

    folder = property(lambda self: self._folder)

    def require_in_place(self):
        """Call before work counts as done. Errors: LaunchError (CANNOT_WRITE) if folder or lock was replaced."""
        try:
            there = os.stat(self._folder)
            why = "" if os.path.samestat(os.fstat(self._inside), there) else "another folder has its name"
        except OSError as problem:
            why = str(problem.strerror)
        if why:
            raise WriteError(
                f"the output folder {self._folder} was moved, unmounted or replaced while this run wrote to it ({why}): no further results "
                "are recorded",
                "Put the folder back, or mount it again, and continue with --resume",
            )
        if not self._has_its_name():
            raise WriteError(
                f"{os.path.join(self._folder, LOCK)} was removed or replaced while this run wrote to that folder",
                "Leave it there while a run lives, and continue with --resume",
            )

    def set_aside(self, other=None):
        """
        Renames the folder to FOLDER.before-RUN_ID, and puts an empty one with its owner and mode in its place, which
        the lock and this run's notes move to. A kill in between leaves the old name or the new one. `other`: another
        folder of the run's results, instead. Errors: LaunchError (CANNOT_WRITE).
        """
        folder = os.path.realpath(other or self._folder)
        with interrupts.deferred():
            aside = rename_aside(folder, self.run_id, self._note)
            self._aside[folder] = aside
            if not other:
                self._move_lock(aside, folder)
                move_notes(aside, folder, (NEW_EGRESS,))
                self._hold(folder)

    def put_back(self):
        """Gives the folders that were set aside their names again, if this run has made nothing."""
        output = os.path.realpath(self._folder)
        if not self._aside or not self._has_its_folder() or not all(map(is_bare, self._aside)):
            return
        with interrupts.deferred(), contextlib.suppress(OSError):
            for folder, aside in self._aside.items():
                move_notes(folder, aside, (LOCK,))
                for name in NOTES:  # there, the next run of this program would take the former results for its own
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))
                for below, _, _ in os.walk(folder, topdown=False):
                    os.rmdir(below)
                os.rename(aside, folder)
                self._note(f"this run made no result: {folder} has its former content again")
                if folder == output:
                    self._hold(folder)
        self._aside = {}

    def _move_lock(self, aside, folder):
        """Errors: LaunchError (RUN_IN_USE) where another run has taken the new folder."""
        try:
            rename_unless_taken(os.path.join(aside, LOCK), os.path.join(folder, LOCK))
        except FileExistsError as problem:
            raise LaunchError(
                f"another run has taken {folder}, whose former results are in {aside}",
                "Wait for its end, or give this run another --output",
                ExitCode.RUN_IN_USE,
            ) from problem

    def _has_its_folder(self):
        try:
            return os.path.samestat(os.fstat(self._inside), os.stat(self._folder))
        except OSError:
            return False

    def _hold(self, folder):
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.close(self._inside)
        self._inside = inside

    def _remove(self):
        with contextlib.suppress(OSError):  # on a disk that became read-only the file stays, unlocked
            if self._has_its_name():
                os.unlink(LOCK, dir_fd=self._inside)

    def close(self):
        self.put_back()
        self._remove()
        os.close(self.fd)
        os.close(self._inside)


def output_errors(folder):
    return write_errors(
        f"--output {folder} cannot be written", "Give --output a folder that you may write to, with room"
    )


def rename_unless_taken(source, target):
    """Errors: FileExistsError where the target exists, and other OSErrors."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28
    if renameat2 and renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), RENAME_NOREPLACE) == 0:
        return
    if renameat2 and ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL):  # else the file system has no such call
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


def move_notes(source, target, names):
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(source, name), os.path.join(target, name))


def is_bare(folder):
    """Whether there is no file in it, but for notes of a run without results."""
    for below, _, files in os.walk(folder):
        if any(name not in NOTES for name in files) if below == folder else files:
            return False
    return True


def rename_aside(folder, run_id, note):
    """
    Renames the folder to FOLDER.before-RUN_ID, and puts an empty one with its owner and mode in its place. Returns the
    new name. Errors: LaunchError (CANNOT_WRITE).
    """
    aside = f"{folder}.before-{run_id}"
    if os.path.lexists(aside):
        raise WriteError(
            f"--overwrite cannot rename {folder} to {aside}: File exists",
            "Move that away, or give this run another --run-id",
        )
    with write_errors(
        f"--overwrite cannot rename {folder} to {aside}",
        "Give another folder: this one must not be a mount point, and its parent must be writable, with room",
    ):
        facts = os.stat(folder)
        note(f"the results in {folder} are kept as {aside}")
        os.rename(folder, aside)
        try:
            os.mkdir(folder)
        except OSError:
            os.rename(aside, folder)
            raise
        with contextlib.suppress(OSError):  # another user's, in a folder that this user may write to
            os.chown(folder, facts.st_uid, facts.st_gid)
        with contextlib.suppress(OSError):
            os.chmod(folder, stat.S_IMODE(facts.st_mode))
    return aside


def make_room(lock, output, config, is_own=False):
    """
    Makes sure that the output holds no other work: refuses it, or sets it aside with --overwrite; --resume continues
    it. The folder of --write-path likewise. `lock`: of the output. `is_own`: the run is a custom program's. Errors:
    LaunchError (USAGE).
    """
    require_one_intent(config)
    file = first_file(output)
    is_noted = shared_folder.holds(output, OWN_RUN)  # a custom program's run without a checkpoint
    is_work = holds_work(output) or not file and holds_work_below(output) or bool(file) and is_noted
    if file and not is_work:
        raise UsageError(f"--output {output} holds {file}, which is of no Offramp run", "Give an empty or a new folder")
    may_continue = config.get("resume") and (is_own or not is_noted or holds_work(output))
    is_anew = not config.get("resume") and not config.get("overwrite")
    is_empty = is_own and is_anew and not file and holds_empty_work(output)
    if is_work and not config.get("overwrite") and not may_continue and not is_empty:
        ways = "" if config.get("resume") else "--resume to compute missing and new items, "
        raise UsageError(
            f"--output {output} holds {describe_work(output)}",
            f"Give {ways}--overwrite to keep these results as {os.path.basename(os.path.realpath(output))}.before-RUN_ID and begin anew, "
            "or another --output",
        )
    _make_room_to_write(output, lock, config, is_own and is_noted)
    if is_empty:
        for folder, name in itertools.product((*folders_of_groups(output), output), OF_AN_OWN_RUN):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
    if is_work and config.get("overwrite"):
        lock.set_aside()


def require_one_intent(config):
    """Errors: LaunchError (USAGE)."""
    if config.get("resume") and config.get("overwrite"):
        raise UsageError(
            "--resume and --overwrite contradict each other",
            "Give --resume to continue the work in --output, --overwrite to keep it under another name and begin anew",
        )


def holds_empty_work(folder):
    """Whether it has notes of a custom program's work, but no finished batch and no results."""
    with os.scandir(folder) as entries:
        others = any(each.name not in (*NOTES, *OF_AN_OWN_RUN) and each.name.startswith(OF_OFFRAMP) for each in entries)
    return not others and not holds_work_below(folder, folders_of_groups(folder)) and has_no_finished_batch(folder)


def folders_of_groups(folder):
    """Those in the folder that have only notes of its custom program's work, as those of its groups have."""
    work = own_work_of(folder)
    below = [os.path.join(folder, name) for name in next(os.walk(folder))[1]]
    return [each for each in below if work and has_own_run(each, work) and not holds_work(each, (*NOTES, CHECKPOINT))]


def _make_room_to_write(output, lock, config, is_of_own_run):
    folder = folder_of_write(config)
    file = first_file(folder) if folder else None
    # there it is part of the output
    if not file or pathlib.Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(output)):
        return
    owner = _write_path_noted(output)
    is_mine = os.path.realpath(owner) == os.path.realpath(folder) if owner else is_of_own_run
    if not is_mine or not (config.get("resume") or config.get("overwrite")):
        raise UsageError(
            f"--write-path {folder} is not empty: it holds {file}",
            "Give an empty or a new folder; or --resume, or --overwrite, with the --output of the run that wrote there",
        )
    if config.get("overwrite"):
        lock.set_aside(folder)


def _write_path_noted(output):
    """--write-path of the work in the output; None without one."""
    with contextlib.suppress(*UNREADABLE):
        return _header_in(output)["identity"].get("--write-path") or None
    return None


def folder_of_write(config):
    """The folder of --write-path; None if no processor writes to one."""
    path = config.get("write-path") if "write" in config.get("processor", "").split(",") else None
    return path if path and os.path.isdir(path) else None


def first_file(folder):
    """A file below the folder, relative to it, or None. Hidden names and a mount point's lost+found do not count."""
    for below, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "lost+found")
        for name in sorted(files):
            if not name.startswith("."):
                return os.path.relpath(os.path.join(below, name), folder)
    return None


def holds_work(folder, besides=NOTES):
    """Whether an Offramp run left work there: entries of its own `besides` these."""
    with os.scandir(folder) as entries:
        ours = [each for each in entries if each.name.startswith(OF_OFFRAMP) and each.name not in besides]
    return any(not each.is_dir(follow_symlinks=False) or not is_bare(each.path) for each in ours)


def holds_work_below(folder, besides=()):
    """The same for the folders in it, `besides` these: each processor of several, and each group, has its own."""
    for name in next(os.walk(folder))[1]:
        with contextlib.suppress(PermissionError):  # lost+found
            if (below := os.path.join(folder, name)) not in besides and holds_work(below):
                return True
    return False


def has_own_run(folder, run):
    """Whether consumers of this run of a custom program were here before: what they made is its own."""
    try:
        return shared_folder.read(folder, OWN_RUN, 256) == f"{run}\n".encode()
    except OSError:
        return False


def describe_work(folder):
    noted = _read_checkpoint(folder)
    if not noted:
        return "the work of an earlier run"
    run, items, lines = noted
    has_ended = any('"ended":true' in line for line in lines[-1:])
    what = f"{_items_done(lines)} of {items} items" if items and not has_ended else "the results"
    return f"{what} of run {run}, which has {'' if has_ended else 'not '}finished"


def prepare(folder, consumer, identity, run_id="", beyond=False, note=print_note, words=("prepare",)):
    """
    Checks the place for a run's results, before its programs start, and removes what a killed run left there. The
    consumer refuses work that this run cannot continue, and a table of another run; its error goes to the user.
    `run_id`: the run that holds the output's lock, in which the consumer takes a share. `beyond`: results also go
    elsewhere. `words`: the consumer's command, with its argument. Signals make it wait for the consumer, or kill it:
    the caller holds the lock.
    """
    folder = pathlib.Path(folder)
    if not beyond and is_empty(folder):
        return
    done = interrupts.wait_through(
        [consumer[0], *words, *consumer[1:], *(["--run-id", run_id] if run_id else [])],
        lambda: note(f"checking {folder} (another signal stops it)"),
        lambda: note(f"stopped checking {folder}"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **identity,
    )
    if done.returncode != 0:
        raise error_of([consumer[0], words[0]], done)
    for warning in done.stdout.splitlines():
        note(f"{warning}")


def require_no_job(output, config):
    """Errors: LaunchError (USAGE) if a job's shards write to the output, or to --write-path, until they are merged."""
    for flag, folder in (("--output", output), ("--write-path", folder_of_write(config))):
        if not folder or not shared_folder.holds(folder, CLAIM):
            continue
        job, home, ranks = _claim_in(folder)
        if ranks == "0":  # writers of one data set are not numbered
            raise UsageError(
                f"{flag} {folder} has the work of offramp.ray.Writer, which is not merged yet",
                f"Merge it with offramp.ray.merge(), or give this run another {flag}",
            )
        if ranks:
            raise UsageError(
                f"{flag} {folder} has the work of a program with {ranks} ranks",
                f"Continue it with offramp.ranks.egress(..., resume=True) in all ranks, or give this run another {flag}",
            )
        if pathlib.PurePath(home).parts[-2:] == (CLAIM.parent.name, "job"):
            raise UsageError(
                f"{flag} {folder} holds an unfinished run with --gpus",
                f"Continue it with its flags: ./launch/offramp run --gpus N --resume; or give this run another {flag}",
            )
        raise UsageError(
            f"{flag} {folder} is in use by the shards of {f'{job} in {home}' if job else 'a job'}, which is not merged yet",
            f"Give this run another {flag}, or merge first (./launch/offramp job merge). To give up that job and its shards' results, "
            f"end the running shards and remove {pathlib.Path(folder) / CLAIM.parent}: later ones then do nothing",
        )


def _claim_in(folder):
    """(the job that claimed the folder, its folder, the number of ranks if they are the job); empty if unreadable."""
    try:
        claim = json.loads(shared_folder.read(folder, CLAIM, LONGEST_CLAIM))
        return str(claim["job"]), str(claim["folder"]), str(claim.get("ranks", ""))
    except UNREADABLE:
        return "", "", ""


def is_empty(folder):
    return all(name == LOCK for name in os.listdir(folder))


@contextlib.contextmanager
def removed_after_a_failure(folders):
    """Removes the empty folders that a run created for its results, innermost first, unless it sets `well`."""
    ended = types.SimpleNamespace(well=False)
    try:
        yield ended
    finally:
        with contextlib.suppress(OSError):  # a folder with content stays, and so do its parents
            for folder in () if ended.well else folders:
                os.rmdir(folder)


def is_used_by_other_run(folder, run_id):
    """Whether the checkpoint there is another run's. For messages only: hashes are not checked."""
    with contextlib.suppress(LaunchError):
        return run_noted(folder) not in (None, run_id)
    return False


def _header_in(folder):
    """The first line of the checkpoint there. Errors: those of UNREADABLE."""
    return json.loads(shared_folder.read_line(folder, CHECKPOINT))


def run_noted(folder):
    """The run of the checkpoint there; None without one. Errors: LaunchError (BAD_INPUT) where it cannot be read."""
    try:
        return str(_header_in(folder)["run"])
    except FileNotFoundError:
        return None
    except UNREADABLE as problem:
        raise InputError(
            f"{pathlib.Path(folder) / CHECKPOINT} does not name its run: {problem}",
            "Move it away, if you no longer need the results there",
        ) from problem


def items_done_in(folder):
    """Number of items done by the checkpoint there. For messages only: hashes are not checked."""
    noted = _read_checkpoint(folder)
    return _items_done(noted[2]) if noted else 0


def _read_checkpoint(folder):
    """(its run, that run's number of items, the lines of finished items), or None."""
    try:
        header, *lines = shared_folder.read(folder, CHECKPOINT).decode(errors="replace").splitlines()
        header = json.loads(header)
        return str(header["run"]), _items_of(header["identity"]), lines
    except UNREADABLE:
        return None


def _items_of(identity):
    """The run's items; with --shard I/N, those of that part. 0 where only a custom program knows."""
    items = int(identity.get("items", 0))
    number, _, count = identity.get("--shard", "").partition("/")
    return items // int(count) + (int(number) <= items % int(count)) if count else items


def _items_done(lines):
    """`lines`: with ranges of finished items, which may overlap."""
    ranges: list[tuple[int, int]] = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            ranges += [(int(begin), int(end)) for begin, end in json.loads(line)["done"]]
    return intervals.total(intervals.union(ranges, 0, math.inf))


def own_work_of(folder, name=EGRESS):
    """The name of the work in the folder's checkpoint; None without a readable checkpoint."""
    try:
        header = json.loads(shared_folder.read(folder, name).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    work = header.get("work") if isinstance(header, dict) else None
    return work if isinstance(work, str) else None


def has_no_finished_batch(folder):
    """Whether the folder has a checkpoint without a finished batch."""
    try:
        lines = shared_folder.read(folder, EGRESS).splitlines()
    except OSError:
        return False
    return own_work_of(folder) is not None and not any(b'"done"' in line for line in lines[1:])


def begin_own_work(folder, work):
    """Call before the consumers of this work start: puts the checkpoint that its Egress has written in place."""
    with shared_folder.folder_within(folder, EGRESS) as (inside, name), contextlib.suppress(FileNotFoundError):
        if own_work_of(folder) != work and own_work_of(folder, NEW_EGRESS) == work:
            os.replace(NEW_EGRESS, name, src_dir_fd=inside, dst_dir_fd=inside)
