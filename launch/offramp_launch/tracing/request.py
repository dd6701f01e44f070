"""Asks the programs of a run that goes on for some seconds of their time ranges: common/tracing/live_trace.hpp says how they hear of it."""

import contextlib
import json
import os
import secrets
import time

from offramp_launch.exit_code import ExitCode, LaunchError

REQUEST = "trace-request.json"
LEAST_SECONDS, MOST_SECONDS = 0.1, 60
# An idle consumer looks once a second: by then all have begun.
LEAD_SECONDS = 1.5
# From the end of the time to the last file, of a consumer that is at work on a slab.
PATIENCE_SECONDS = 10


class TraceRequests:
    """
    One at a time. Owns: RUN_DIR/trace-request.json. Borrows: run directory, timers. Thread: the loop's. Blocks: never.
    """

    def __init__(self, run_dir, timers):
        self._run_dir, self._timers = run_dir, timers
        self._current = None    # its id, until nobody can answer any more
        self._over_at = 0.0     # by the timers' clock

    def begin(self, seconds, programs):
        """`programs`: (process, pid) of those that are to answer. Returns what was asked, for the control socket."""
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not LEAST_SECONDS <= seconds <= MOST_SECONDS:
            raise LaunchError(f"trace --seconds {seconds} is out of bounds", f"From {LEAST_SECONDS} to {MOST_SECONDS}", ExitCode.USAGE)
        if self._current and (left := self._over_at - self._timers.now()) > 0:
            raise LaunchError("a trace of this run is under way", f"It is over in {left:.0f} s at most", ExitCode.RUN_IN_USE)
        if not programs:
            raise LaunchError("the run has no programs yet that could be traced", "./launch/offramp status tells when it has", ExitCode.NO_SUCH_RUN)
        begin = time.monotonic_ns() + int(LEAD_SECONDS * 1e9)
        asked = {"id": f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}", "from_ns": begin, "until_ns": begin + int(seconds * 1e9)}
        folder = self._put(asked)
        patience = LEAD_SECONDS + seconds + PATIENCE_SECONDS
        self._current, self._over_at = asked["id"], self._timers.now() + patience
        self._timers.after(patience, lambda: self._end(asked["id"]))
        return {**asked, "folder": str(folder), "programs": [{"process": process, "pid": pid} for process, pid in programs]}

    def _put(self, asked):
        """Makes the folder of the answers, and the request behind it: both, or neither. Errors: LaunchError (CANNOT_WRITE)."""
        folder, new = self._run_dir.file("trace-" + asked["id"]), self._run_dir.file(REQUEST + ".new")
        try:
            folder.mkdir(mode=0o700)
            new.write_text(json.dumps(asked) + "\n", encoding="utf-8")
            os.replace(new, self._run_dir.file(REQUEST))
        except OSError as problem:
            for remove in (new.unlink, folder.rmdir):
                with contextlib.suppress(OSError):
                    remove()
            where = problem.filename or new    # who has no room to write does not say where
            raise LaunchError(f"'{where}' cannot be written: {problem.strerror}", "See that the run's directory can be written and has room", ExitCode.CANNOT_WRITE) from problem
        return folder

    def _end(self, one):
        if one == self._current:    # and no later one has taken its place
            self.close()

    def close(self):
        """Nobody who comes later takes it for a request of theirs."""
        self._current = None
        with contextlib.suppress(OSError):
            self._run_dir.file(REQUEST).unlink()
