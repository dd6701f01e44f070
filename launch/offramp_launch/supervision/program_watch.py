"""Watches the consumers of a run that the user's program began: starts, restarts and scales them until its end."""

import os
import selectors

from offramp_launch.exit_code import ExitCode
from offramp_launch.progress import ENDS
from offramp_launch.run_dir import read_endpoint
from offramp_launch.supervision.watch import Watch

FINAL_STATUS_SECONDS = 5  # for the run's status.json, once its program is gone or has forgotten the run


class ProgramWatch(Watch):
    """
    The program owns the run: nothing here ends it. Owns: a pidfd of the program, and what Watch owns.
    Thread, Blocks: as Watch; run() until the run is over, or the watch is stopped, and every consumer has ended.
    """

    ENDS_THE_RUN = False

    def __init__(self, plan, display, endpoint, program):
        """`endpoint`: the run's endpoint; `program`: a pidfd of the process that it names, owned from here on."""
        super().__init__(plan, display)
        self._endpoint = endpoint
        self._program = program
        self.died = False  # whether the program died in the middle of the run

    def close(self):
        super().close()
        os.close(self._program)

    run_is_over = property(lambda self: self._over)
    nonce = property(lambda self: self._endpoint["nonce"])
    end = property(
        lambda self: self._status.get("state") if self._status.get("state") in ENDS else None,
        doc="The run's final state; None while it goes on, or where its program died.",
    )

    def _begin(self):
        self._selector.register(self._program, selectors.EVENT_READ, self._on_program_end)
        self._begin_consumers()

    def _of_this_run(self, consumer):
        """
        Before the consumer reads the endpoint, the program's next run may take the directory. The launcher's own runs
        cannot do so: their consumers start before there is a nonce, and a successor of a producer that died too early
        for recovery draws a new nonce.
        """
        program, *flags = consumer
        return [program, "serve", self._endpoint["nonce"], *flags]

    def _is_running(self):
        return bool(self._alive()) or not (self._over or self._draining or self.failure)

    def wants_consumers(self):
        return super().wants_consumers() and not self._draining and self._read_nonce() == self._endpoint["nonce"]

    def _read_nonce(self):
        """The nonce of the run that consumers would find now, perhaps the program's next one; None without a run."""
        return read_endpoint(self._plan.run_dir.path).get("nonce")

    def _code(self):
        if self.died or self.end == "failed":
            return int(ExitCode.PRODUCER_GONE)
        if self.end == "ended":
            return int(ExitCode.DEAD_LETTERS if self._status.get("dead_lettered_samples") else ExitCode.OK)
        return int(ExitCode.INTERRUPTED)  # it was abandoned, or goes on without this watch

    def _look(self):
        before = self._status
        super()._look()
        if self._status.get("nonce") != self._endpoint["nonce"]:
            self._status = before  # it is another run's, in the same directory
        if self.end:
            self._end_consumers()
        elif not self._over and (nonce := self._read_nonce()) != self._endpoint["nonce"]:
            # Its final status follows in a moment, unless the next run has already replaced it.
            self._timers.after(0 if nonce else FINAL_STATUS_SECONDS, self._end_consumers)

    # -- ending -----------------------------------------------------------------------------------------------------

    def _on_program_end(self):
        self._selector.unregister(self._program)
        self._look()
        if not self._over:
            self.died = True
            self._display.note(f"the run's program (pid {self._endpoint['producer_pid']}) ended before its run did")
            self._end_consumers()

    def _ask_to_drain(self):
        self._groups.send_away()

    def _ask_to_abandon(self, asked_before):
        if not asked_before:
            self._ask_to_drain()

    def _end_failed(self):
        """The run waits for other consumers."""
        self._terminate_children()

    def _facts(self):
        return {
            **super()._facts(),
            "producer_pid": int(self._endpoint["producer_pid"]),
            "producer_restarts": 0,
            "taking_over": False,
            "taking_over_since_ns": None,
        }
