"""Watches a run whose producer is the user's program, which opens an Egress, and its consumers."""

import contextlib
import os
import signal

from offramp_launch.supervision.children import Child
from offramp_launch.exit_code import ExitCode, status_behind_a_shell
from offramp_launch.processes import stat_of
from offramp_launch.progress import ENDS
from offramp_launch.supervision.supervisor import Supervisor
from offramp_launch.watching.counters import grown

GONE = ("X", "Z")  # states of a process that has ended
COUNTS = "released_samples released_batches submitted_samples dead_lettered_samples dropped_samples redelivered".split()


class ProgramSupervisor(Supervisor):
    """
    After such a program's death, its successor starts a new run in the same directory instead of recovering the memory.
    It continues the work: the Egress's checkpoint lists what consumers have finished. The dead run's consumers leave,
    and new ones start. Owns, Thread, Blocks: as Supervisor.
    """

    FOLLOWS, WITH_CONSUMERS = "the program is started again", "it continues with the remaining work"

    def __init__(self, plan, display, environment):
        """`environment`: the program's environment variables."""
        self._environment = environment
        self._counted = self._counted_before = {}  # counters of all dead programs; without the last one
        self._last_counted = None  # process id of the last one
        self._before = set()  # processes of the runs before the last program's
        self._died_behind_another = self._cut_short = False  # the last program's loop died; any loop was cut short
        self._away = 0  # number of consumers to start for the next program's run
        super().__init__(plan, display)

    def _make_producer(self, _):
        self._away, others = 0, self._away
        [group] = self._groups.named("")  # such a run has no others
        for _ in range(others):
            group.slots.add()
        self._died_behind_another = False
        if self._status:
            self._before.add(self._status.get("pid"))
        lifeline = f"{self._lifeline_read}:{os.fstat(self._lifeline_read).st_ino}"
        environment = {**self._environment, "OFFRAMP_LIFELINE_FD": lifeline}
        if self._producer_pids:
            environment["OFFRAMP_RESUME"] = "true"
        log = self._plan.run_dir.log("producer")
        return Child("producer", self._plan.producer, log, (self._lifeline_read,), env=environment)

    def _facts(self):
        """A dead program's status stays current until its successor writes one, and counts once."""
        return {
            **super()._facts(),
            "earlier": self._counted_before if self._status.get("pid") == self._last_counted else self._counted,
        }

    def _seek_hold(self):
        """Does nothing: a successor does not use the memory of a dead program's run."""

    # -- how it ended -----------------------------------------------------------------------------------------------

    died = property(
        lambda self: (
            (status := self._producer.status) is not None
            and (status < 0 or status == ExitCode.DEVICE_BROKEN or self._died_behind_another)
        ),
        doc="Whether the last program died, whatever became of its run.",
    )
    end = property(
        lambda self: self._own_status().get("state") if self._own_status().get("state") in ENDS else None,
        doc="The final state of the last program's run; None where it opened none, or died in it.",
    )

    def _understand_its_end(self):
        """A process in between encodes the death of the run's process: a shell as 128 + signal, torchrun as 1."""
        if self._is_the_child():
            return
        status = status_behind_a_shell(self._producer.status)
        self._producer.ended_with(status)
        self._died_behind_another = (
            self.has_opened_a_run() and self.end is None and status > 0 and not lives(self._own_status().get("pid"))
        )

    def _is_the_child(self):
        """Whether the started program is the run's process itself."""
        return self._own_status().get("pid") == self._producer.pid

    def _own_status(self):
        """The status of the last program's run, not of an earlier one; the program may only start the loop."""
        if not self._started:
            return {}
        pid = self._status.get("pid")
        is_new_run = self._status.get("run_id") == self._plan.run_id and pid not in self._before
        return self._status if pid == self._producer.pid or is_new_run else {}

    def _answer(self, request):
        """Also accepts `cut-short` from a loop that ends because it was asked to, behind any wrapper."""
        if request.get("do") != "cut-short":
            return super()._answer(request)
        self._cut_short = self._cut_short or request.get("run_id") == self._plan.run_id
        return {}

    def _look(self):
        """A loop that its wrapper restarts is also a new run."""
        before = self._own_status()
        super()._look()
        if before and before.get("pid") != self._own_status().get("pid"):
            self._count_as_earlier(before)

    def _count_as_earlier(self, status):
        """`status`: empty for a program that died before it wrote one; its predecessor has been counted."""
        if status:
            self._counted_before, self._counted = self._counted, grown(self._counted, status)
            self._last_counted = status.get("pid")

    def _signal_producer(self):
        """Signals the run's process itself: a shell in between would end and leave it behind."""
        pid = self._own_status().get("pid")
        with contextlib.suppress(OSError, TypeError):
            process = os.pidfd_open(pid)
            try:
                if not self.end and (os.getsid(pid) == self._producer.pid or descends_from(pid, self._producer.pid)):
                    signal.pidfd_send_signal(process, signal.SIGTERM)
                    return
            finally:
                os.close(process)
        super()._signal_producer()

    def has_opened_a_run(self):
        return bool(self._own_status())

    def completed(self):
        return self.counts()["released_samples"]

    def counts(self):
        """Totals over all its programs."""
        return {name: (self._counted.get(name) or 0) + (self._own_status().get(name) or 0) for name in COUNTS}

    def _code(self):
        code = super()._code()
        if self._cut_short and (
            code == ExitCode.OK or code == ExitCode.INTERNAL and self.end == "ended" and not self._is_the_child()
        ):
            # its loop did as it was asked; a script may hide that, and torchrun reports it as a failure
            return int(ExitCode.INTERRUPTED)
        if code != ExitCode.OK:
            return code
        if not self.has_opened_a_run():
            return int(ExitCode.USAGE)
        if self.end != "ended":
            return int(ExitCode.PRODUCER_GONE if self.end is None else ExitCode.INTERRUPTED)
        return int(ExitCode.DEAD_LETTERS if self._status.get("dead_lettered_samples") else ExitCode.OK)

    def producer_end_reason(self):
        child = self._producer
        if child.status == ExitCode.OK and not self.has_opened_a_run():
            return (
                "the program ended without having opened a run: it made no offramp.Egress(), or submitted nothing to it\n"
                "Create an offramp.Egress() in it, without arguments, and submit each batch"
            )
        if child.status == ExitCode.OK and self.end is None:
            return "the program ended in the middle of its run\nLeave `with offramp.Egress()` before it ends, or call drain() and close()"
        if child.status is not None and child.status > 0:
            return f"the program {child.ending()}: {child.reason() or 'it wrote nothing'}"
        return super().producer_end_reason()

    # -- after its death ----------------------------------------------------------------------------------------------

    def _producer_follows(self):
        if not self.died:
            return False
        if self.end == "ended":
            self._reported_exit = int(ExitCode.OK)
            self._display.note("the run was already over, and all its work is done")
            return False
        if not self._has_successor():
            return False
        self._count_as_earlier(self._own_status())
        self._away = len(self._groups.staying())
        self._groups.send_away()
        return True


def descends_from(pid, ancestor):
    """Includes descendants in another session, such as torchrun's programs."""
    while pid > 1 and pid != ancestor:
        stat = stat_of(pid)
        pid = stat.parent if stat else 0
    return pid == ancestor


def lives(pid):
    stat = stat_of(pid)
    return stat is not None and stat.state not in GONE
