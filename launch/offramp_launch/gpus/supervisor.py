"""Supervises a run with --gpus: one worker per GPU takes the next open shard until all are done."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import pathlib
import selectors
import signal

from offramp_launch.arguments import count
from offramp_launch.supervision.backoff import Backoff
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, shell_code
from offramp_launch.gpus.workers import command_of, workers_of
from offramp_launch.gpus.shares import GROUPS, following, share, shared
from offramp_launch.gpus.status import (
    COUNTS,
    consumers_of,
    counts_of_record,
    counts_of_status,
    describe,
    groups_of_all,
    total_of,
    waits_for_turn,
    whole_status,
)
from offramp_launch.gpus.summary import bring_dead_letters
from offramp_launch.groups import parsed, with_number
from offramp_launch.jobs.files import write_errors
from offramp_launch.jobs.folder import Job
from offramp_launch.output_folder import OutputLock, items_done_in
from offramp_launch.places import Places
from offramp_launch.run_dir import DROPPED, STATUS, RunDir
from offramp_launch.supervision.logbook import KEPT_DEATHS, LONGEST_LINE
from offramp_launch.supervision.process_loop import ProcessLoop
from offramp_launch.jobs.shard_record import AGAIN, DONE, FINAL, FIRST_SIGNAL, TRY_AGAIN
from offramp_launch.supervision.consumer_groups import group_scaled, waiting_note
from offramp_launch.supervision.scaling import MOST_CONSUMERS, most_of_this_machine
from offramp_launch.supervision.autoscaler import Bounds
from offramp_launch.supervision.supervisor import TOO_LITTLE_MEMORY
from offramp_launch.supervision.watch import STATUS_SECONDS

FAILURES_OF_A_WORKER = 2  # in a row, with its GPU as the possible cause: then the GPU is given up
# two workers on one device may lack memory for two pools or models
SCARCE = (ExitCode.SHARED_MEMORY_FULL, ExitCode.DEVICE_OUT_OF_MEMORY)
OF_A_GPU = (ExitCode.DEVICE_OUT_OF_MEMORY, ExitCode.DEVICE_BROKEN, ExitCode.DEVICE_UNSUPPORTED)
TRIES_OF_A_SHARD = 4  # by any workers: then the cause is the shard or the machine, not a GPU
ABANDON_SECONDS, KILL_SECONDS = 15, 30  # after one worker failed for good and the others were asked to drain
ABANDONED_END_SECONDS = 5  # until a silent worker is killed


@dataclasses.dataclass
class GpusPlan:
    """What a run with --gpus consists of."""

    places: Places | None
    run_id: str
    run_dir: RunDir
    job: Job | None  # None: not begun yet
    workers: list  # [(device, shares)]
    flags: list  # of the run
    error_limit: int = 0  # items that may be skipped
    # As in RunPlan:
    output_lock: OutputLock | None = None
    log_format: str = "text"
    http: tuple | None = None
    status_seconds: float = STATUS_SECONDS
    is_swept: bool = False
    may_owe_tables: bool = False
    bounds: Bounds | None = None  # of all consumers together, with autoscaling
    starts_ahead: bool = False  # each device loads its next shard while it still computes one
    groups: list = dataclasses.field(default_factory=list)  # of GroupPlan: the results of all workers; empty without


class GpusSupervisor(ProcessLoop):
    """Owns: the workers. If the launcher is killed, the lifeline closes, and the workers and their programs exit."""

    def __init__(self, plan, display):
        super().__init__(plan, display)
        self._job, self._bounds = plan.job, plan.bounds
        self._bounds_of_groups = {group.name: group.follows for group in plan.groups if group.follows}
        self._workers = workers_of(plan.workers, plan.run_dir, plan.starts_ahead)
        self._records_before = records = plan.job.records()
        self._todo = collections.deque(plan.job.missing(records))
        self.counts = {index: counts_of_record(record) for index, record in records.items()}
        for index in self._todo:
            self.counts[index] = {**dict.fromkeys(COUNTS, 0), "done": items_done_in(plan.job.place(index))}
        self._groups_of_shards = {index: record["report"] for index, record in records.items()}
        for index in self._todo:
            self._note_groups(index, self.counts[index]["done"], [])
        self.done_before = total_of(self.counts.values())["done"]
        self._tries: collections.Counter[int] = collections.Counter()
        self._noted = set()
        self.attempts = []
        self._abandoned_at = None

    # -- the life of a run ------------------------------------------------------------------------------------------

    def _begin(self):
        for worker in self._workers:
            self._begin_next(worker)
        self._tick()
        for record in self._records_before.values():  # an earlier launcher may have ended before it kept their output
            self._keep_output(record)

    def _code(self):
        """0 if all shards are done."""
        return int(ExitCode.INTERRUPTED) if self.is_work_left() else int(ExitCode.OK)

    workers = property(lambda self: self._workers)

    def _at_work(self):
        return [worker for worker in self._workers if worker.child]

    def _alive(self):
        return [worker.child for worker in self._at_work()]

    def _is_running(self):
        return bool(self._at_work()) or any(worker.is_waiting for worker in self._workers)

    def is_work_left(self):
        return bool(self._todo)

    def _begin_next(self, worker):
        if self._draining or not worker.is_free or not self._todo:
            return
        if worker.number == 2 and any(each.is_loading for each in self._workers if each.number == 1):
            return  # if memory is too small for two, the second worker must be the one that fails
        index = self._todo.popleft()
        run_dir = self._new_run_dir(index)
        command = command_of(self._plan, worker, index, run_dir, self._lifeline_read)
        self.attempts.append((index, run_dir))
        kept_open = (self._plan.output_lock.fd,) if self._plan.output_lock else ()
        try:
            worker.begin(index, run_dir, self.run_dir.log(run_dir.name), command, self._lifeline_read, kept_open)
        except LaunchError as problem:
            self._todo.append(index)
            self.fail(problem)
            return
        self._selector.register(worker.child.pidfd, selectors.EVENT_READ, lambda: self._on_end(worker))

    def _other(self, worker):
        """The worker that shares this one's device and turn; None if there is none, or it is out."""
        others = (each for each in self._workers if each is not worker and not each.is_out)
        return next((each for each in others if each.turn and each.turn == worker.turn), None)

    def _new_run_dir(self, index):
        """A directory that no earlier attempt used."""
        again = 0
        while (folder := self.run_dir.file(f"s{index}" + (f"-{again}" if again else ""))).exists():
            again += 1
        return folder

    # -- the end of a worker's process --------------------------------------------------------------------------------

    def _on_end(self, worker):
        self._selector.unregister(worker.child.pidfd)
        worker.child.reap()
        self._look_at(worker)
        child = worker.ended()
        done = self._record_of(worker.index)
        if done is not None:  # its exit code after the record does not matter
            self.counts[worker.index] = counts_of_record(done)
            self._groups_of_shards[worker.index] = done["report"]
            worker.failures, worker.shards_done, worker.backoff = 0, worker.shards_done + 1, Backoff()
            if other := self._other(worker):
                other.failures = 0  # the GPU they share works
            self._keep_output(done)
        else:
            self._todo.append(worker.index)
            code, fate = shell_code(child.status) or int(ExitCode.INTERNAL), fate_of_worker(child.status)
            why = f"its process {child.ending()}" if child.status < 0 else worker.why()
            self._after_failure(worker, code, fate, why)
        for each in self._workers:
            self._begin_next(each)

    def _record_of(self, index):
        try:
            return self._job.record(index)
        except LaunchError as problem:
            self.fail(problem)
            return None

    def _after_failure(self, worker, code, fate, why):
        """The worker's shard is already back in the queue."""
        if self.failure or (self._draining and fate == AGAIN):
            return
        self._logbook.note_death(worker.name, f"shard {worker.index} ended with exit code {code}: {why}"[:LONGEST_LINE])
        log, where = f"Its log: {worker.log_path}", f"shard {worker.index} on {worker.name}"
        if fate != AGAIN:
            self._fail(f"{where} ended with exit code {code}, which a retry cannot fix: {why}", log, code)
            return
        last = self._code_of_last_try(worker, code)
        other = self._other(worker)
        if last in SCARCE and other and (other.child or other.shards_done):
            worker.left_out = why
            self._display.note(
                f"{worker.name} is left out: there is too little memory for two workers on {worker.device.name}, which continues without --start-ahead: {why}"
            )
        elif remedy := self._remedy_for_memory(worker, last, why):
            self._fail(f"{where}: {why}", remedy, last)
        else:
            self._try_again(worker, other, last, why, log)

    def _fail(self, what, fix, code):
        self.fail(LaunchError(what, fix, code))

    def _remedy_for_memory(self, worker, last, why):
        """The remedy where every worker would fail for lack of memory; empty where another try may succeed."""
        own = f"Each of {len(self._workers)} workers has its own "
        if last == ExitCode.SHARED_MEMORY_FULL and worker.shards_done == 0:
            return (
                f"{own}pool: "
                + ("leave --start-ahead out, or " if worker.turn else "")
                + "give --slabs N, a number for all "
                + ("GPUs together, of which each has its share twice, " if worker.turn else "of them together, ")
                + "or fewer --gpus; --resume then continues"
            )
        is_first = total_of(self.counts.values())["done"] <= self.done_before
        if last == ExitCode.SYSTEM and why.startswith(TOO_LITTLE_MEMORY) and is_first:
            return f"{own}model and pool: give fewer --gpus"
        return ""

    def _try_again(self, worker, other, last, why, log):
        """Retries the shard, unless it or the GPU has failed too often. `other`: the worker that shares the GPU."""
        worker.failures += last in OF_A_GPU or last > FIRST_SIGNAL
        self._tries[worker.index] += 1
        if self._tries[worker.index] >= TRIES_OF_A_SHARD:
            what = f"shard {worker.index} failed {TRIES_OF_A_SHARD} times, the last time on {worker.name}: {why}"
            self._fail(what, log, reported_by_run(last))
        elif worker.failures + (other.failures if other else 0) >= FAILURES_OF_A_WORKER:
            self._give_up(worker, why)
            if other and not other.child:
                other.lost = why  # both use this GPU
            if all(each.is_out for each in self._workers):
                what = f"every worker failed {FAILURES_OF_A_WORKER} times in a row; the last, {worker.name}: {why}"
                self._fail(what, log, reported_by_run(last))
        else:
            self._display.note(f"{worker.name}: shard {worker.index} failed and will be retried: {why}")
            worker.is_waiting = True
            self._timers.after(worker.backoff.after_life_of(0), lambda: self._begin_again(worker))

    def _begin_again(self, worker):
        worker.is_waiting = False
        self._begin_next(worker)

    def _give_up(self, worker, why):
        worker.lost = why
        left = sum(not each.is_out and each.device is not worker.device for each in self._workers)
        self._display.note(
            f"{worker.name} is given up after {FAILURES_OF_A_WORKER} failures in a row, the last at shard {worker.index}: {why}"
            + (f"; {'the other one takes' if left == 1 else f'the other {left} take'} over its share" if left else "")
        )

    def _code_of_last_try(self, worker, code):
        """The exit code of the worker's run, if it noted one and `code` only means that another try may succeed."""
        exits = [attempt.get("exit") for attempt in self._job.attempts(worker.index)[-1:]] if code == TRY_AGAIN else []
        return exits[0] if exits and exits[0] not in (None, ExitCode.OK, ExitCode.INTERRUPTED) else code

    def _keep_output(self, record):
        """Collects a done shard's dead letters and dropped items; another try at an open one makes its own."""
        try:
            run_dir = pathlib.Path(record["report"]["run_dir"])
            bring_dead_letters(run_dir)
            with contextlib.suppress(OSError):  # nothing was dropped, or an earlier launcher's directory is gone
                listed = (run_dir / DROPPED).read_bytes()
                whole = self.run_dir.file(DROPPED)
                with write_errors(whole), open(whole, "ab") as file:
                    file.write(listed)
        except LaunchError as problem:
            self.fail(problem)

    # -- status -------------------------------------------------------------------------------------------------------

    def _between_looks(self):
        for worker in self._at_work():
            if worker.to_be_scaled and not worker.silent:
                worker.scale()
        for worker in self._workers:
            self._begin_next(worker)

    def _look(self):
        for worker in self._at_work():
            self._look_at(worker)
            if change := worker.look_at_its_process():
                self._display.note(change)
        self._kill_the_silent()
        total = total_of(self.counts.values())
        self._require_few_errors(total["skipped"])
        at_work = [(worker.name, worker.status) for worker in self._at_work()]
        workers = [describe(worker) for worker in self._workers]
        groups = groups_of_all(self._groups_of_shards.values(), [status for _, status in at_work])
        self._status = whole_status(self._state(), self._job.items, total, at_work, workers, groups)
        with contextlib.suppress(OSError):
            self.run_dir.write(STATUS, json.dumps({**self._status, "run_id": self._plan.run_id}, indent=2) + "\n")
        self._display.show(self._status)

    def _state(self):
        if self._is_running():
            return "draining" if self._draining else "running"
        return "abandoned" if self.is_work_left() else "ended"

    def _look_at(self, worker):
        for line in worker.look():
            if line not in self._noted:  # each shard's producer may repeat a warning
                self._noted.add(line)
                self._display.note(f"{worker.name}, shard {worker.index}: {line}")
        if worker.status:
            self.counts[worker.index] = counts_of_status(worker.status)
            self._note_groups(worker.index, worker.status.get("done_before"), worker.status.get("groups") or [])

    def _note_groups(self, index, done_before, groups):
        """`groups`: as the shard's run reports them; none before it has begun."""
        before = [{"name": plan.name, "optional": plan.optional} for plan in self._plan.groups]
        self._groups_of_shards[index] = {"samples": {"done_before": done_before}, "groups": groups or before}

    def _require_few_errors(self, skipped):
        """Each shard's run gets the whole run's limit, which the sum over all shards must keep, too."""
        if skipped > self._plan.error_limit:
            self._fail(
                f"{skipped} of {self._job.items} items had to be skipped, and --max-errors allows {self._plan.error_limit}",
                "Fix them, or allow more (--max-errors 100% skips every unreadable item); --resume continues the run",
                ExitCode.BAD_INPUT,
            )

    # -- ending -------------------------------------------------------------------------------------------------------

    def fail(self, problem):
        """Fails the run: drains the workers, then abandons, then kills them."""
        if self.failure:
            return
        self.failure = problem
        self._display.note(str(problem))
        if not self._draining:
            self._draining = True  # the next signal abandons
            self._ask_to_drain()
        self._timers.after(ABANDON_SECONDS, self._ask_to_drain)
        self._timers.after(KILL_SECONDS, self._kill_children)

    def _ask_to_drain(self):
        """A worker that already drains abandons its run."""
        self._signal_children(signal.SIGTERM)

    def _ask_to_abandon(self, asked_before):
        if asked_before:
            self._ask_to_drain()
            return
        for worker in self._at_work():
            try:
                if worker.silent:
                    raise LaunchError(worker.silent, "")
                worker.ask({"do": "stop", "now": True})
            except LaunchError:  # the run has not begun, is ending, or does not answer
                worker.child.signal(signal.SIGTERM)

    def _abandon(self):
        self._abandoned_at = self._abandoned_at or self._timers.now()
        super()._abandon()

    def _kill_the_silent(self):
        """Kills silent workers of an abandoned run; their programs end with them. --resume continues their shards."""
        if self._abandoned_at is None or self._timers.now() < self._abandoned_at + ABANDONED_END_SECONDS:
            return
        for worker in self._at_work():
            if worker.silent:
                self._display.note(
                    f"{worker.name}: killing process {worker.child.pid}, which does not exit: {worker.silent}"
                )
                worker.child.signal(signal.SIGKILL)

    def _kill_everyone(self):
        left = self._at_work()
        super()._kill_everyone()
        for worker in left:
            worker.ended()
            self._todo.append(worker.index)

    # -- control ------------------------------------------------------------------------------------------------------

    def _begin_reload(self, _):
        raise self._for_one_worker(
            "reloads the consumers of one worker at a time",
            "reload --run-dir {}; status lists all. Shards that begin later use the changed files",
        )

    def _begin_trace(self, seconds):
        raise self._for_one_worker("is traced a worker at a time", "trace {}; status lists all")

    def _for_one_worker(self, what, command):
        one = next((worker.run_dir for worker in self._at_work()), self.run_dir.path)
        return UsageError(f"a run with --gpus {what}", f"./launch/offramp {command.format(one)}")

    def _scale(self, text):
        """Scales all workers together; with bounds each autoscales within its share. With groups: NAME=N."""
        if self._plan.groups or "=" in text:
            return self._scale_group(text)
        working = self._shares()
        bounds = Bounds.of(text, most_of_this_machine(), len(working) * MOST_CONSUMERS)
        wanted = max(bounds.least, len(working)) if bounds else count(text, "scale")
        if not len(working) <= wanted <= len(working) * MOST_CONSUMERS:
            raise UsageError(
                f"scale {wanted} is out of bounds",
                f"Give {len(working)}, one for each worker, to {len(working) * MOST_CONSUMERS}; "
                "./launch/offramp stop ends the run",
            )
        self._require_consumers_are_accepted()
        before, followed = self._consumers_wanted(), self._follows()
        for number, workers in enumerate(working):
            for worker in workers:
                if bounds:
                    worker.shares = following(worker.shares, bounds, len(working), number, worker.consumers)
                else:
                    worker.shares["consumers"] = share(wanted, len(working), number)
                worker.scale_to(worker.shares["consumers"])
        if bounds:
            self._bounds = bounds
            more = f", autoscaled for each worker from now on, within {bounds} in all"
        else:
            more = f"; autoscaling is off (scale {self._bounds} turns it on)" if followed else ""
        self._display.note(f"scale: {before} -> {wanted} consumers{more}")
        return {"before": before, "consumers": wanted, "more": more, **self._describe()}

    def _scale_group(self, text):
        """Divides a group's consumers, or their bounds, among the workers."""
        plan, to = group_scaled(self._plan.groups, text)
        working = self._shares()
        bounds = Bounds.of(to, most_of_this_machine(), len(working) * MOST_CONSUMERS)
        wanted = 0 if bounds else count(to, f"scale {plan.name}")
        if wanted and not len(working) <= wanted <= len(working) * MOST_CONSUMERS:
            raise UsageError(
                f"scale {text} is out of bounds",
                f"Give 0, or {len(working)}, one for each worker, to {len(working) * MOST_CONSUMERS} consumers",
            )
        self._require_consumers_are_accepted()
        before, followed = self._group_wanted(plan), self._follows_group(plan)
        for number, workers in enumerate(working):
            for worker in workers:
                worker.shares[GROUPS] = [
                    shared(with_number(line, bounds or wanted), len(working), number)
                    if parsed(line).name == plan.name
                    else line
                    for line in worker.shares[GROUPS]
                ]
                worker.scale_to(worker.group(plan.name).number, plan.name)
        if bounds:
            self._bounds_of_groups[plan.name] = bounds
            wanted = self._group_wanted(plan)
            more = f", autoscaled for each worker from now on, within {bounds} in all"
        else:
            again = f"scale {plan.name}={self._bounds_of_groups.get(plan.name)}"
            more = (f"; autoscaling is off ({again} turns it on)" if followed else "") + waiting_note(plan, wanted)
        self._display.note(f"scale: {plan.name}: {before} -> {wanted} consumers{more}")
        return {"group": plan.name, "before": before, "consumers": wanted, "more": more, **self._describe()}

    def _require_consumers_are_accepted(self):
        if self._draining:
            raise LaunchError("the run is ending and accepts no more consumers", "", ExitCode.NO_SUCH_RUN)

    def _shares(self):
        """Workers that are not out, grouped by their share of the whole run's settings."""
        shares: dict = {}
        for worker in self._workers:
            if not worker.is_out:
                shares.setdefault(worker.turn or worker.name, []).append(worker)
        return list(shares.values())

    def _follows(self):
        return any(worker.follows for worker in self._workers if not worker.is_out)

    def _following(self):
        """As supervision/scaling.py reports for one run, over all workers. Each worker reports its own changes."""
        return following_report(self._bounds, self._follows())

    def _follows_group(self, plan):
        return any(worker.group(plan.name).bounds for worker in self._workers if not worker.is_out)

    @property
    def following_of_groups(self):
        """As ConsumerGroups.following(), over all workers."""
        bounds = self._bounds_of_groups.items()
        plans = {plan.name: plan for plan in self._plan.groups}
        return {name: following_report(each, self._follows_group(plans[name])) for name, each in bounds}

    def _group_wanted(self, plan):
        return sum(max(worker.consumers_of(plan.name) for worker in workers) for workers in self._shares())

    def _describe_groups(self):
        """As ConsumerGroups.describe(), over all workers."""
        loaded = [worker.status for worker in self._workers if not waits_for_turn(worker.status)]
        alive = collections.Counter(each.get("group") for status in loaded for each in status.get("consumers") or [])
        return [
            {
                "name": plan.name,
                "optional": plan.optional,
                "wanted": self._group_wanted(plan),
                "alive": alive[plan.name],
                "failure": self._failure_of(plan.name),
                "following": self.following_of_groups.get(plan.name),
            }
            for plan in self._plan.groups
        ]

    def _failure_of(self, group):
        """Of the first worker for which the group fails now."""
        found = ((each, each.launcher.get("failures") or {}) for each in self._at_work())
        return next((f"{each.name}: {failures[group]}" for each, failures in found if group in failures), "")

    def _consumers_wanted(self):
        return sum(max(worker.consumers for worker in workers) for workers in self._shares())

    def _facts(self):
        """With each worker's report by name, and the sums over all."""
        seconds, summed = self._plan.status_seconds, ("restarts", "takeovers", "consumer_busy_seconds")
        workers = {worker.name: {**worker.report(), "status_seconds": seconds} for worker in self._workers}
        return {
            "consumers_wanted": self._consumers_wanted(),
            "consumers_alive": consumers_of(self._status, self._workers),
            "reload": None,
            "following": self._following(),
            **({"groups": self._describe_groups()} if self._plan.groups else {}),
            "workers": workers,
            "deaths": self._all_deaths(),
            "done_before": self.done_before,
            **{name: sum(each[name] for each in workers.values()) for name in summed},
        }

    def _all_deaths(self):
        deaths = list(self._logbook.record()["deaths"])
        for worker in self._workers:
            deaths += [{**death, "who": f"{worker.name}: {death['who']}"} for death in worker.deaths()]
        return sorted(deaths, key=lambda death: death["time"])[-KEPT_DEATHS:]


def following_report(bounds, follows):
    """None where autoscaling was never on."""
    return {"bounds": str(bounds), "follows": follows, "changes": None, "mean_consumers": None} if bounds else None


def reported_by_run(code):
    """Codes outside ExitCode, such as a signal's, become TRY_AGAIN."""
    return code if code in {int(each) for each in ExitCode} else TRY_AGAIN


def fate_of_worker(status):
    """DEVICE_UNSUPPORTED counts as AGAIN: a new process does not find a GPU that is lost."""
    if status < 0 or status in (TRY_AGAIN, ExitCode.DEVICE_UNSUPPORTED):
        return AGAIN
    return DONE if status == 0 else FINAL
