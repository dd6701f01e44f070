"""Asks the programs of a live run for some seconds of their time ranges (common/tracing/live_trace.hpp)."""

import contextlib
import json
import os
import secrets
import time

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, WriteError
from offramp_launch.run_dir import LIVE, LOGS

REQUEST = f"{LIVE}/trace-request.json"
LEAST_SECONDS, MOST_SECONDS = 0.1, 60
# An idle consumer looks once a second, so all have begun by then.
LEAD_SECONDS = 1.5
# From the end of the recording to the last file: a consumer finishes its slab first.
PATIENCE_SECONDS = 10


class TraceRequests:
    """
    At most one request at a time. Owns: live/trace-request.json in the run directory, and in that of each group, where
    its consumers look. Borrows: run directory, timers. Thread: the loop's. Blocks: never.
    """

    def __init__(self, run_dir, timers, groups=()):
        """`groups`: the folders of the run's groups by name."""
        self._folders, self._timers = {"": run_dir.path, **dict(groups)}, timers
        self._current = None  # its id, until its time for answers is over
        self._over_at = 0.0  # by the timers' clock

    def begin(self, seconds, programs):
        """`programs`: (process, pid, the name of its group or "") of those that should answer. Returns the request."""
        if (
            not isinstance(seconds, (int, float))
            or isinstance(seconds, bool)
            or not LEAST_SECONDS <= seconds <= MOST_SECONDS
        ):
            raise UsageError(f"trace --seconds {seconds} is out of bounds", f"Give {LEAST_SECONDS} to {MOST_SECONDS}")
        if self._current and (left := self._over_at - self._timers.now()) > 0:
            raise LaunchError(
                "a trace of this run is under way", f"Wait {left:.0f} s at most, then try again", ExitCode.RUN_IN_USE
            )
        if not programs:
            raise LaunchError(
                "the run has no programs yet",
                "Try again once ./launch/offramp status lists a producer or consumers",
                ExitCode.NO_SUCH_RUN,
            )
        begin = time.monotonic_ns() + int(LEAD_SECONDS * 1e9)
        request = {
            "id": f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}",
            "from_ns": begin,
            "until_ns": begin + int(seconds * 1e9),
        }
        try:
            answers = {group: str(self._put(request, folder)) for group, folder in self._folders.items()}
        except WriteError:
            self.close()
            for folder in self._folders.values():  # those before the failing one have empty folders
                with contextlib.suppress(OSError):
                    answers_in(folder, request).rmdir()
            raise
        patience = LEAD_SECONDS + seconds + PATIENCE_SECONDS
        self._current, self._over_at = request["id"], self._timers.now() + patience
        self._timers.after(patience, lambda: self._end(request["id"]))
        return {
            **request,
            "folder": answers.pop(""),
            "groups": answers,  # the folders of their consumers' answers
            "programs": [
                {"process": process, "pid": pid, "group": group if group in answers else ""}
                for process, pid, group in programs
            ],
        }

    @staticmethod
    def _put(request, run_dir):
        """Creates the folder for answers, then the request: both, or neither. Errors: LaunchError (CANNOT_WRITE)."""
        folder, new = answers_in(run_dir, request), run_dir / f"{REQUEST}.new"
        try:
            folder.mkdir(mode=0o700, parents=True)
            new.write_text(json.dumps(request) + "\n", encoding="utf-8")
            os.replace(new, run_dir / REQUEST)
        except OSError as problem:
            for remove in (new.unlink, folder.rmdir):
                with contextlib.suppress(OSError):
                    remove()
            where = problem.filename or new  # a failed write() names no file
            raise WriteError(
                f"'{where}' cannot be written: {problem.strerror}",
                "Make the run's directory writable and free some space",
            ) from problem
        return folder

    def _end(self, request_id):
        if request_id == self._current:  # no later request has replaced it
            self.close()

    def close(self):
        """Removes the request, so that programs that start later do not answer it."""
        self._current = None
        for folder in self._folders.values():
            with contextlib.suppress(OSError):
                (folder / REQUEST).unlink()


def answers_in(run_dir, request):
    """The folder for the answers to a request."""
    return run_dir / LOGS / f"trace-{request['id']}"
