"""The common part of every watch over a run's consumers: slots, failures, scaling, reloading."""

from __future__ import annotations

import dataclasses
import signal
import typing

from offramp_launch.arguments import count
from offramp_launch.supervision.children import Child
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.supervision.scaling import MOST_CONSUMERS, bounds_of
from offramp_launch.supervision.process_loop import ProcessLoop
from offramp_launch.progress import ENDS
from offramp_launch.supervision.consumer_groups import ConsumerGroups, GroupPlan, waiting_note
from offramp_launch.supervision.reload import Reload
from offramp_launch.tracing.request import TraceRequests

if typing.TYPE_CHECKING:
    from offramp_launch.output_folder import OutputLock
    from offramp_launch.run_dir import RunDir

CONSUMERS_END_SECONDS = 1.5  # after the run, which waited for every admitted consumer's Disconnect
TERMINATE_SECONDS = 10  # from SIGTERM, on which a consumer finishes its slab, to SIGKILL
ABANDONED_END_SECONDS = 5  # for programs that were asked to abandon, before they are killed
# Between two status.json files, unless --status-seconds is given. A user's program has no such flag.
STATUS_SECONDS = 0.5


@dataclasses.dataclass
class RunPlan:
    """The programs to start. Watch appends the lifeline's descriptor to their command lines."""

    run_id: str
    run_dir: RunDir
    producer: list  # empty: the user's program is the producer, and already runs
    consumer: list  # with groups: of all together, for their results
    consumers: int
    follows: object = None  # Bounds of autoscaling; None: a fixed number
    account: object = None
    producer_restarts: int = 0
    not_recovered: str = ""  # why these settings rule out recovery from a producer's death; empty: they do not
    output_lock: OutputLock | None = None
    place: object = None  # stores.place.Place; None: results stay in the output folder
    log_format: str = "text"  # of the launcher's messages and the programs' logs
    status_seconds: float = STATUS_SECONDS  # between two status.json files
    http: tuple | None = None  # (host, port) of the status endpoint
    is_swept: bool = False  # whether its memory has been removed after its end
    groups: list = dataclasses.field(default_factory=list)  # of GroupPlan; empty without --group
    may_owe_tables: bool = False  # whether --overwrite may have renamed a table, and nothing was merged yet

    def all_groups(self):
        """The groups of --group. Without it all consumers are one group without a name."""
        command, folder = self.consumer, self.run_dir.path
        return self.groups or [GroupPlan("", False, self.consumers, command, command, folder, follows=self.follows)]


class Watch(ProcessLoop):
    """
    Owns: the consumers.
    Subclasses define the other processes to watch, and _end_failed(); optionally _others(), _facts() and
    _of_this_run().
    """

    def __init__(self, plan, display):
        super().__init__(plan, display)
        self._over = False  # the run accepts no more consumers
        self._left_out = set()  # names in the status that were skipped
        identity = plan.account.of_consumers() if plan.account else {}
        self._groups = ConsumerGroups(
            plan.all_groups(),
            self,
            lambda name, command: self._spawn(name, self._of_this_run(command), identity),
            plan.run_dir.log,
            self._selector,
            self._timers,
            self._logbook,
        )
        self._reload: Reload | None = None  # the latest
        self._traces = TraceRequests(plan.run_dir, self._timers, {each.name: each.folder for each in plan.groups})

    def close(self):
        self._traces.close()
        super().close()

    # -- the life of a watch ----------------------------------------------------------------------------------------

    records = property(lambda self: self._groups.records)
    consumer_restarts = property(lambda self: self._logbook.restarts())
    following = property(
        lambda self: self._groups.following().get(""),
        doc="The autoscaling report; None with groups, or where autoscaling was never on.",
    )
    following_of_groups = property(
        lambda self: self._groups.following(), doc="The same by group, of those where it was on."
    )

    def _begin_consumers(self):
        self._groups.begin()
        self._tick()

    def _of_this_run(self, consumer):
        """The command of a consumer, bound to this run where it could meet another one."""
        return consumer

    def _spawn(self, name, argv, identity):
        command = [*argv, "--lifeline-fd", str(self._lifeline_read)]
        return Child(name, command, self._plan.run_dir.log(name), (self._lifeline_read,), **identity)

    def _others(self):
        """Children that are not consumers."""
        return []

    def _alive(self):
        return [child for child in (*self._others(), *self._groups.children()) if child and child.status is None]

    def _between_looks(self):
        if self._reload:
            self._continue(self._reload)
        if self.wants_consumers() and not self._draining and not (self._reload and self._reload.is_under_way):
            self._groups.follow(self._status)

    def _look(self):
        """Reads the programs' status and logs, and shows them."""
        self._status = self._plan.run_dir.status(self._note_left_out) or self._status
        self._groups.look()
        self._logbook.note_failures(self._groups.describe())
        self._display.show(self._status)

    def _note_left_out(self, names):
        """Reports each name once."""
        if new := [name for name in names if name not in self._left_out]:
            self._left_out.update(new)
            self._display.note(f"skipping {', '.join(new)} of status.json: unknown format")

    # -- the run, as its groups see it ------------------------------------------------------------------------------

    def wants_consumers(self):
        return not (self._over or self._abandoned or self.failure)

    def is_draining(self):
        return self._draining

    def completed(self):
        """Samples that consumers released; dead letters and skipped samples are not progress."""
        return self._status.get("released_samples") or 0

    # -- ending -----------------------------------------------------------------------------------------------------

    def _end_failed(self) -> None:
        raise NotImplementedError

    def fail(self, problem: LaunchError) -> None:
        """Ends the consumers, and a producer of the launcher's, for a reason that the producer does not know."""
        if not self.failure:
            self.failure = problem
            self._display.note(str(problem))
            self._end_failed()

    def _end_consumers(self):
        """The run is over: consumers end by themselves, or soon."""
        if not self._over:
            self._over = True
            self._timers.after(CONSUMERS_END_SECONDS, self._terminate_children)

    def _terminate_children(self):
        self._signal_children(signal.SIGTERM)
        self._timers.after(TERMINATE_SECONDS, self._kill_children)

    def _abandon(self):
        if not self._abandoned:
            self._timers.after(ABANDONED_END_SECONDS, self._kill_children)
        super()._abandon()

    # -- control ----------------------------------------------------------------------------------------------------

    def _scale(self, text):
        """Sets a fixed number, or starts autoscaling within MIN..MAX or the bounds of `auto`. With groups: NAME=..."""
        group, to = self._groups.scaled(text)
        slots, scaling, name = group.slots, group.scaling, group.plan.name
        before, followed, bounds = len(slots.staying()), scaling.bounds, bounds_of(to)
        wanted = bounds.within(before) if bounds else count(to, f"scale {name}".rstrip())
        least = 0 if name else 1  # a run without consumers would only wait
        if not bounds and not least <= wanted <= MOST_CONSUMERS:
            raise UsageError(
                f"scale {text} is out of bounds",
                f"Give {least} to {MOST_CONSUMERS} consumers; ./launch/offramp stop ends the run",
            )
        self._require_consumers_are_accepted()
        if bounds:
            scaling.take_up(bounds)
            more = f", autoscaled from now on, within {bounds}"
        else:
            scaling.leave_off()
            more = f"; autoscaling is off ({scaling.command(followed)} turns it on)" if followed else ""
        more += waiting_note(group.plan, wanted)
        of_group = {"group": name} if name else {}
        self._display.note(f"scale: {f'{name}: ' if name else ''}{before} -> {wanted} consumers{more}")
        slots.bring_to(wanted)
        return {**of_group, "before": before, "consumers": wanted, "more": more, **self._describe()}

    def _require_consumers_are_accepted(self):
        if self._draining or not self.wants_consumers():
            raise LaunchError("the run is ending and accepts no more consumers", "", ExitCode.NO_SUCH_RUN)

    def _begin_reload(self, name):
        """
        `name`: of a group; empty: all consumers. Supersedes a reload under way: its newcomers may have started before
        the latest change.
        """
        groups = self._groups.named(name)
        self._require_consumers_are_accepted()
        if not any(group.slots.staying() for group in groups):
            whose = f"group {name}" if name else "the run"
            raise UsageError(f"{whose} has no consumers to replace", "./launch/offramp status lists them")
        if full := [group.scaling for group in groups if len(group.slots.children()) >= MOST_CONSUMERS]:
            raise UsageError(
                f"{MOST_CONSUMERS} consumers are the maximum, and a reload starts a new one before an old one ends",
                f"Run ./launch/offramp {full[0].command(MOST_CONSUMERS - 1)}, then reload",
            )
        number = 1
        if self._reload:
            self._reload.give_up("another reload has superseded it", ExitCode.INTERRUPTED)
            number = self._reload.number + 1
        self._reload = Reload(number, [group.slots for group in groups], self._timers, self._display.note)
        self._continue(self._reload)
        return self._describe()

    def _continue(self, reload: Reload) -> None:
        if self._draining or not self.wants_consumers():
            reload.give_up("the run is ending", ExitCode.NO_SUCH_RUN)
        reload.look(self._consumers_that_are("ready"), self._consumers_that_are("stalled"))

    def _begin_trace(self, seconds):
        """Traces the producer and all its known consumers; not the consumers when they run as another user."""
        self._look()  # include consumers that joined just now
        programs = []
        # The producer looks for requests in the whole run's directory, a group's consumers in their group's.
        if self._status.get("pid") and self._status.get("state") not in ENDS and not self._plan.run_dir.group:
            programs.append(("producer", self._status["pid"], ""))
        if not self._plan.account:
            consumers = self._status.get("consumers") or []
            programs += [("consumer", each["pid"], each.get("group") or "") for each in consumers]
        return {"run_id": self._plan.run_id, "trace": self._traces.begin(seconds, programs)}

    def _consumers_that_are(self, what):
        """Process ids of the consumers whose `what` is set in the run's last status."""
        return {consumer.get("pid") for consumer in self._status.get("consumers") or [] if consumer.get(what)}

    def _facts(self):
        return {
            "consumers_wanted": len(self._groups.staying()),
            "consumers_alive": len(self._groups.children()),
            "status_seconds": self._plan.status_seconds,
            "following": self.following,
            **({"groups": self._groups.describe()} if self._plan.groups else {}),
            "reload": self._reload.describe() if self._reload else None,
        }
