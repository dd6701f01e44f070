"""The output folder of a run: whose it is while the run lives, and what earlier runs left in it."""

import contextlib
import fcntl
import json
import os
import pathlib
import stat
import subprocess
import time

from offramp_launch import shared_folder
from offramp_launch.exit_code import ExitCode, LaunchError, shell_code
from offramp_launch.log_follower import last_error

# Names that the programs use too: producer/run/output_lock.hpp, producer/report/manifest_file.hpp, common/base/next_place.hpp.
LOCK = ".offramp-lock"
MANIFEST = ".offramp-manifest"
NEXT = ".offramp-next"
LEFT_OVER_SECONDS = 30      # programs whose launcher died end by themselves: a slab and some seconds
LOOK_AGAIN_SECONDS = 0.1


class OutputLock:
    """
    Keeps a second run out of an output folder, from before its programs start until what they left is put together.
    Owns: an exclusive lock on OUTPUT/.offramp-lock. The run's programs inherit `fd`, so that the lock outlives a launcher that is
    killed for as long as any of them may still write. Errors: LaunchError (RUN_IN_USE) naming the other run and its launcher.
    """

    def __init__(self, folder, run_id, note=print):
        self._path = pathlib.Path(folder) / LOCK
        self._note = note
        self._told = False
        deadline = time.monotonic() + LEFT_OVER_SECONDS
        while not self._try_lock(folder, deadline):
            pass
        try:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, json.dumps({"run": run_id, "pid": os.getpid()}).encode(), 0)
        except OSError as problem:
            self.close()
            raise self._cannot_write(folder, problem) from problem

    def _try_lock(self, folder, deadline):
        """False: to be tried again."""
        try:
            self.fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as problem:
            raise self._cannot_write(folder, problem) from problem
        facts = os.fstat(self.fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:      # laid there by somebody: what it leads to is not ours
            os.close(self.fd)
            raise LaunchError(f"{self._path} is not a lock of ours: it is no ordinary file, or one of several names", "Remove it",
                              ExitCode.CANNOT_WRITE)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait_for_programs_left_over(folder, deadline)
            os.close(self.fd)
            return False
        except OSError:
            self._note(f"[run] {folder} has no locks: a second run into it would not be noticed")
            return True
        # Whoever had it before may have removed the file that we opened.
        if self._path.exists() and os.path.samestat(os.fstat(self.fd), os.stat(self._path)):
            return True
        os.close(self.fd)
        return False

    def _wait_for_programs_left_over(self, folder, deadline):
        """Errors: when the other launcher lives, or its programs do not end."""
        try:
            holder = json.loads(os.pread(self.fd, 512, 0))
            run, pid = str(holder["run"]), int(holder["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            run, pid = "?", None
        if pid is None or is_alive(pid) or time.monotonic() > deadline:
            os.close(self.fd)
            raise LaunchError(f"run {run} (process {pid or '?'}, or a program that it started) writes to {folder}",
                              "Wait for its end, end it (./launch/offramp stop), or give this run another --output",
                              ExitCode.RUN_IN_USE)
        if not self._told:
            self._note(f"[run] waiting for the last programs of run {run}, whose launcher (process {pid}) died", flush=True)
            self._told = True
        time.sleep(LOOK_AGAIN_SECONDS)

    @staticmethod
    def _cannot_write(folder, problem):
        return LaunchError(f"--output {folder} cannot be written: {problem.strerror}",
                           "Give --output a folder that you may write to, with room", ExitCode.CANNOT_WRITE)

    def close(self):
        with contextlib.suppress(OSError):      # on a disk that became read-only the file stays; nobody holds it any more
            self._path.unlink(missing_ok=True)
        os.close(self.fd)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def prepare(folder, consumer, identity, kept_open=(), continues=False, beyond=False, note=print):
    """
    Settles where a run's results go, before its programs start. What earlier ones left stays as it is until this one has results of its own. The consumer
    refuses what is not ours, and what a run has ended with, unless --start-over asks for its replacement; its words are the user's.
    `continues`: the run goes on with what lies there. `beyond`: results are not only in the folder.
    """
    folder = pathlib.Path(folder)
    if not beyond and not any(name != LOCK for name in os.listdir(folder)):
        return
    former = describe_manifest(folder / MANIFEST)
    program, *flags = consumer
    done = subprocess.run([program, "--prepare", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          pass_fds=kept_open, **identity)
    if done.returncode != 0:
        raise LaunchError(last_error(done.stderr) or done.stderr.strip() or f"'{program} --prepare' ended with exit code {done.returncode} and wrote nothing",
                          "", shell_code(done.returncode))
    if former and not continues:
        note(f"[run] {folder} holds {former}, which this run replaces once it has results of its own; with the same input and settings, --resume "
             "continues instead", flush=True)


def lies_beside(folder):
    """This run's results are not in their place: it did not come to its end, and a former run's lie there."""
    return os.path.lexists(pathlib.Path(folder) / NEXT)


def describe_manifest(path):
    """What an unfinished run did, in words; nothing when there is none. Only told, never relied on: hashes are not looked at."""
    try:
        header, *lines = shared_folder.read(path.parent, path.name).decode(errors="replace").splitlines()
        header = json.loads(header)
        items = int(header["identity"]["items"])
        run = str(header["run"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    done = sum(end - begin for begin, end in _joined(_ranges(lines)))
    return f"{done} of {items} items of run {run}" if done < items else None


def _ranges(lines):
    for line in lines:
        try:
            yield from ((int(begin), int(end)) for begin, end in json.loads(line)["done"])
        except (ValueError, KeyError, TypeError, RecursionError):
            pass


def _joined(ranges):
    joined = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([begin, end])
    return joined
