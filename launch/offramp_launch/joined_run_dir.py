"""The directory of a run that the user's program began: waits for the run, and holds the directory for one launcher."""

import contextlib
import os
import select
import socket
import stat
import struct
import time

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.progress import ENDS
from offramp_launch.groups import FOLDER as GROUPS
from offramp_launch.run_dir import (
    LIVE,
    LOGS,
    REPORTS,
    STATUS,
    RunDir,
    opened_folder,
    put_reports_aside,
    read_endpoint,
    read_object,
)

LOOK_AGAIN_SECONDS = 0.05
# A group's entry in the status has no batches: it leaves out the run's, which other groups share.
COUNTS_OF_A_GROUP = ("released_samples", "dead_lettered_samples", "dropped_samples", "released_batches")
# Marks a run that offramp-producer began (common/app/settings/kept_settings.hpp).
PRODUCERS_OWN = f"{LIVE}/settings.toml"


class JoinedRunDir(RunDir):
    """
    Holds the directory together with its program, which has another lock there. Errors: LaunchError when a launcher
    holds it (RUN_IN_USE), it is another user's (NOT_PERMITTED), or others may write to it (USAGE).
    """

    def __init__(self, places, folder, group=""):
        """`group`: the folder is that of this group, in a run's directory."""
        self.group = group
        super().__init__(places, folder)

    def status(self, note=lambda left_out: None):
        """With a group, its counts and consumers instead of the run's."""
        status = super().status(note)
        own = next((each for each in status.get("groups") or [] if each.get("name") == self.group), None)
        if own is None:
            return status
        consumers = [each for each in status.get("consumers") or [] if each.get("group") == self.group]
        return {**status, **{name: own.get(name) for name in COUNTS_OF_A_GROUP}, "consumers": consumers}

    @staticmethod
    def _make(folder):
        return False  # the run exists

    def _take(self, folder, inside, made, account):
        facts = os.fstat(inside)
        if facts.st_mode & 0o022:
            raise UsageError(
                f"other users may write to --run-dir '{folder}' (mode {stat.S_IMODE(facts.st_mode):04o})",
                f"chmod go-w {folder}",
            )
        self._hold(folder, inside)
        begun = any(folder.glob(f"{LOGS}/*"))  # an earlier launcher's consumers
        put_reports_aside(folder, inside, begun, [name for name in REPORTS if name != STATUS])
        os.mkdir(LOGS, 0o700, dir_fd=inside)

    def _hold(self, folder, inside):
        try:
            super()._hold(folder, inside)
        except LaunchError as problem:
            if problem.code != ExitCode.RUN_IN_USE:
                raise
            raise LaunchError(
                f"the run in '{folder}' has a launcher already, which starts its consumers",
                f"./launch/offramp scale N --run-dir {folder} sets their number",
                ExitCode.RUN_IN_USE,
            ) from problem

    def hold_group(self, name):
        """Holds a group's folder too, which another launcher could join alone."""
        folder = self.path / GROUPS / name
        with opened_folder(folder) as inside:
            self._hold(folder, inside)


def wait_for_run(folder, seconds, note):
    """
    (the endpoint, a pidfd of its program), once both exist. Errors: LaunchError (NO_SUCH_RUN) when they do not appear
    within so many seconds, (NOT_PERMITTED) when the run is another user's, (USAGE) when it is a run of
    offramp-producer.
    """
    deadline = time.monotonic() + seconds
    noted = False
    while True:
        require_may_join(folder)
        met = read_endpoint(folder)
        program = open_process(int(met["producer_pid"])) if met else None
        # Read again: the process id may have been reused.
        if program is not None and read_endpoint(folder) == met:
            require_without_groups(folder, met)
            require_of_own_program(folder)
            return met, program
        if program is not None:
            os.close(program)
        elif met:
            require_same_pid_namespace(folder, met)
        if time.monotonic() >= deadline:
            raise LaunchError(
                f"no run in '{folder}' within {seconds:g} s: {existing_entries(folder, met)}",
                "Start the program whose outputs are to be consumed with this run directory (offramp_egress_open), or give --wait SECONDS",
                ExitCode.NO_SUCH_RUN,
            )
        if not noted:
            note(f"waiting for a run in {folder}, {seconds:g} s at most: {existing_entries(folder, met)}")
            noted = True
        time.sleep(LOOK_AGAIN_SECONDS)


def require_same_pid_namespace(folder, endpoint):
    """Errors: LaunchError (NOT_PERMITTED) if a process that is unknown here listens there (run_search.cpp)."""
    for path in folder.glob(f"{LIVE}/work-*.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as door:
            door.connect(str(path))
            listener = struct.unpack(
                "3i", door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            )[0]
            if str(listener) != endpoint["producer_pid"] and read_endpoint(folder) == endpoint:
                raise LaunchError(
                    f"the program of the run in '{folder}' (pid {endpoint['producer_pid']}) is in another pid namespace and cannot be "
                    "watched from here",
                    "Share the pid namespace (docker run --pid, shareProcessNamespace of a pod)",
                    ExitCode.NOT_PERMITTED,
                )


def existing_entries(folder, endpoint):
    """Describes the directory without a reachable run."""
    if endpoint:
        return f"its program (pid {endpoint['producer_pid']}) is dead"
    status = read_object(folder / STATUS)
    if status and status.get("state") in ENDS:
        return "its earlier run is over"
    if status:
        return "the run there accepts no consumers yet"
    return "no program has begun one there" if folder.is_dir() else "it does not exist"


def wait_for_run_of(pid, folder):
    """As wait_for_run(), for the process that started this one, while it lives."""
    program = open_process(pid)
    ended = program is None or os.getppid() != pid
    while not ended:
        require_may_join(folder)
        met = read_endpoint(folder)
        if met.get("producer_pid") == str(pid):
            return met, program
        ended = bool(select.select([program], [], [], LOOK_AGAIN_SECONDS)[0])
    raise LaunchError(
        f"the program (pid {pid}) whose outputs were to be consumed ended before it began a run in '{folder}'",
        "See its own messages for the reason",
        ExitCode.NO_SUCH_RUN,
    )


def require_may_join(folder):
    with contextlib.suppress(FileNotFoundError):
        facts = os.stat(folder)
        if not stat.S_ISDIR(facts.st_mode):
            raise UsageError(f"--run-dir '{folder}' is not a folder", "Give the run directory of the program")
        if facts.st_uid != os.getuid():
            raise LaunchError(
                f"the run in '{folder}' is another user's (uid {facts.st_uid}): only that user can open its memory",
                "Start the consumers as that user",
                ExitCode.NOT_PERMITTED,
            )


def require_without_groups(folder, endpoint):
    """`folder`: where consumers shall join, which is a group's own folder with --group. Errors: LaunchError (USAGE)."""
    if names := endpoint.get("groups"):
        raise UsageError(
            f"the run in '{folder}' has groups of consumers, each with a processor of its own",
            f"Give --group NAME; its groups: {names.replace(',', ', ')}",
        )


def require_of_own_program(folder):
    if (folder / PRODUCERS_OWN).exists():
        raise UsageError(
            f"the run in '{folder}' belongs to offramp-producer, not to your own program",
            f"./launch/offramp scale N --run-dir {folder} sets its number of consumers; without a launcher: "
            f"offramp-consumer --run-dir {folder}",
        )


def open_process(pid):
    """A pidfd; None where the process does not exist."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
