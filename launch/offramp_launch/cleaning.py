"""
The command `clean`: removes the directories of ended runs under build/runs and in /tmp, and dangling links to run
directories.

It keeps all work: live runs; runs with results (without --output they are in RUN_DIR/output), dead letters or a list of
dropped samples; and directories chosen with --run-dir, to which only a link leads.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import time

from offramp_launch import shared_folder
from offramp_launch.arguments import parse
from offramp_launch.exit_code import ExitCode, UsageError
from offramp_launch.run_dir import CONTROL_SOCKET, DROPPED, ENDPOINT, LIVE, LOCK, accepts_connections, short_runs_folder
from offramp_launch.supervision.recovery import RunHold

DAYS = 7
DAY_SECONDS = 86400
# The parts of a run directory that are work, and their descriptions.
WORK = (
    ("output", "its results"),
    ("dead-letters", "dead letters"),
    (f"{LIVE}/spill", "spilled samples"),
    (DROPPED, "the list of dropped samples"),
)


def start(places, argv):
    flags = parse(argv, "clean", ["--older-than"], ["--dry-run"], "clean --help")
    is_dry_run = "--dry-run" in flags
    before = time.time() - days_of(flags.get("--older-than", str(DAYS))) * DAY_SECONDS
    removed, kept = 0, 0
    for entry in entries_of(places):
        reason = keep_reason(entry, before)
        if reason is None:
            reason = None if is_dry_run else remove(entry)
        removed, kept = removed + (reason is None), kept + (reason is not None)
        print(
            f"{'kept   ' if reason else 'would remove' if is_dry_run else 'removed'} {entry}"
            + (f": {reason}" if reason else "")
        )
    print(f"{removed} {'would be removed' if is_dry_run else 'removed'}, {kept} kept")
    return int(ExitCode.OK)


def days_of(text):
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 1e6:
        raise UsageError(f"--older-than '{text}' is not a number of days", f"Give 0 or more [{DAYS}]")
    return days


def entries_of(places):
    """Entries of the folders of runs that this user owns."""
    for runs in (places.runs, short_runs_folder()):
        with contextlib.suppress(OSError):
            facts = os.lstat(runs)
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                yield from sorted(runs.iterdir())


def keep_reason(entry, before):
    """Why an entry stays; None for one that can be removed."""
    facts = os.lstat(entry)
    if stat.S_ISLNK(facts.st_mode):
        return "a link to an existing directory" if entry.exists() else None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or not shared_folder.holds(entry, LOCK):
        return "not a run's directory"
    if lives(entry):
        return "its run is live"
    found = [words for name, words in WORK if holds_anything(entry / name)]
    if any(map(holds_anything, entry.glob("groups/*/dead-letters"))):
        found.append("dead letters of a group")
    if found:
        return f"it holds {' and '.join(found)}"
    if last_change(entry) > before:
        return "it is not old enough (--older-than)"
    return None


def lives(run_dir):
    """Whether its launcher, or a program that has outlived it, is alive."""
    with open(os.open(run_dir / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return accepts_connections(run_dir / CONTROL_SOCKET) or RunHold(run_dir / ENDPOINT).is_held_by_others()


def holds_anything(name, within=None):
    """Whether a non-empty file is in it, at any depth. Follows no links: results may be another user's."""
    try:
        facts = os.stat(name, dir_fd=within, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            return not stat.S_ISREG(facts.st_mode) or facts.st_size > 0
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | shared_folder.AS_IT_IS, dir_fd=within)
        try:
            return any(holds_anything(inner, inside) for inner in os.listdir(inside))
        finally:
            os.close(inside)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # unreadable folders stay


def last_change(run_dir):
    return max(os.lstat(path).st_mtime for path in (run_dir, *run_dir.iterdir()))


def remove(entry):
    """Returns None, or why it could not remove the entry."""
    try:
        if entry.is_symlink():
            entry.unlink()
        else:
            shutil.rmtree(entry)
    except OSError as problem:
        return f"it cannot be removed: {problem.strerror}"
    return None
