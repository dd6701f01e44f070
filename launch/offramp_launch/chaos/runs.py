"""The runs of `chaos`: an undisturbed one, and others whose processes are killed, paused, scaled and resumed."""

import collections
import contextlib
import os
import pathlib
import random
import secrets
import signal
import tempfile
import time
from typing import Any

from offramp_launch import interrupts
from offramp_launch.arguments import without_values, words_of
from offramp_launch.chaos.results import confirmed, differences, results_in
from offramp_launch.commanded_run import begin, failure_of, paths_within, remove, within
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError, shell_code
from offramp_launch.run_dir import LIVE, read_endpoint, read_status
from offramp_launch.run_steps import sweep
from offramp_launch.supervision.control import ControlClient

MARK = "CHAOS_OF_OFFRAMP"  # an environment variable by which all processes of these runs are found
CONSUMER, PRODUCER, ALL = "consumers killed", "producers killed", "everything killed"
PAUSED, SCALED, RESUMED, COMPARED = "pauses", "changes of consumers", "resumes", "files compared"
DECK = {CONSUMER: 4, PRODUCER: 2, ALL: 2, PAUSED: 3, SCALED: 3}  # disturbances, until they are shuffled again
MOST = 12  # disturbances in one run, which then goes on to its end
BETWEEN, PAUSE = (0.02, 0.3), (0.02, 0.5)  # of two disturbances, and of a pause: shares of the undisturbed run's time
LEAST_PATIENCE, PATIENCE = 120, 10  # for the end: seconds, and multiples of that time
OF_DEATHS = (ExitCode.DEAD_LETTERS, 128 + signal.SIGKILL)  # of a run with too many deaths, which --resume continues
GONE_SECONDS = 60  # for killed processes to give back their memory
LEFT_SECONDS = 10  # for the last processes to end, and for a sweep by another run
LOOK_SECONDS = 0.01


class Runs:
    """
    Owns: a folder for results, one for run directories, the processes of its runs, and their lifeline. Thread: one.
    Blocks: until a run has ended. `tally`: what has happened. `wrong`: what did not hold, as texts. `is_confirmed`:
    whether undisturbed runs do not differ so.
    """

    def __init__(self, places, flags, config, consumers, beside, seed):
        self._places, self._flags, self._consumers = places, flags, consumers
        # Times and victims depend on the machine, so the order has a generator of its own.
        self._order = random.Random(seed)
        self._random = random.Random(self._order.getrandbits(32))
        self._deck, self._mark = [], secrets.token_hex(4)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix=".offramp-chaos-", dir=beside))
        self.logs = pathlib.Path(tempfile.mkdtemp(prefix="offramp-chaos-"))  # a path short enough for sockets
        self._lifeline = os.pipe()
        # All runs have the same output, whose name may be in their results.
        self._output, self._wanted = self.scratch / "output", self.scratch / "undisturbed"
        self._apart = paths_within(self.scratch, config)
        if "--write-path" in self._apart:
            self._apart["--write-path"] = self._output / "written"
        self._starts, self._paused = 0, {}
        self._killed: set = set()  # kinds of kills since the last start
        self.tally: collections.Counter = collections.Counter()
        self.wrong: list = []
        self.is_confirmed = True
        self._process: Any = None  # subprocess.Popen of the current run

    _run_dir = property(lambda self: self.logs / str(self._starts))

    def close(self, keeps):
        """Ends all processes. `keeps`: the folders stay."""
        self._kill_everything()
        for descriptor in self._lifeline:
            os.close(descriptor)
        sweep(str(self._places.producer()))
        if not keeps:
            remove(self.scratch, self.logs)

    def undisturbed(self):
        """Computes the results to compare with. Returns (their number, seconds). Errors: LaunchError if that fails."""
        began = time.monotonic()
        self._compute(self._wanted)
        self._seconds = time.monotonic() - began
        if not (files := results_in(self._wanted)):
            raise UsageError(
                f"the undisturbed run wrote no files to its output, so there is nothing to compare. See {self.logs}",
                "Give a processor that writes to the run's output",
            )
        return len(files), self._seconds

    def disturbed(self):
        """Computes the results once more, with disturbances. Sets `wrong`."""
        self.wrong = self._disturb_to_the_end()
        if self.wrong:
            return
        left, named = self._left_over(), differences(self._wanted, self._output)
        self.tally[COMPARED] += len(results_in(self._wanted))
        self.wrong, self.is_confirmed = [*left, *texts_of(named)], not named
        if named:  # Ctrl-C while they are confirmed leaves them in `wrong`
            self.wrong, self.is_confirmed = [*left, *texts_of(self._confirmed(named))], True
        if not self.wrong:
            remove(self._output, *(path for path in self.logs.iterdir() if path.is_dir()))

    def _confirmed(self, named):
        """The differences that a second undisturbed run does not have. Errors: UsageError if it has all of them."""
        self._output.rename(self.scratch / "disturbed")
        self._compute(again := self.scratch / "undisturbed-again")
        unstable = differences(self._wanted, again)
        if not (remaining := confirmed(named, unstable)):
            raise UsageError(
                f"two undisturbed runs differ already, in {len(unstable)} files such as {next(iter(unstable))}: "
                f"these results are not deterministic, so they cannot be compared. See {self._wanted} and {again}",
                "Let the processor write the same bytes for the same sample; on a GPU, pass --deterministic",
            )
        return remaining

    def _compute(self, folder):
        self._start()
        if code := self._process.wait():
            kept = f"Make it succeed first. Kept: {self.scratch}, {self.logs}"
            raise LaunchError(f"the undisturbed run failed: {self._failure()}", kept, shell_code(code))
        self._output.rename(folder)

    def _disturb_to_the_end(self):
        """Starts and resumes the run until it has ended. Returns what did not hold, as texts."""
        left, patience, began = MOST, max(LEAST_PATIENCE, PATIENCE * self._seconds), time.monotonic()
        while True:
            self._start("--resume")
            last = time.monotonic()
            following = last + self._share(BETWEEN)
            while self._process.poll() is None:
                now = time.monotonic()
                self._continue_paused(now)
                if now > last + patience:
                    return [f"the run does not end within {patience:.0f} s of the last disturbance"]
                if left and now >= following:
                    if self._disturb():
                        left, last = left - 1, now
                    following = time.monotonic() + self._share(BETWEEN)
                time.sleep(LOOK_SECONDS)
            self._continue_paused()
            code = shell_code(self._process.returncode)
            if code == ExitCode.OK:
                if left == MOST:  # undisturbed, and faster than the first run, which filled the caches
                    self._seconds = min(self._seconds, time.monotonic() - began)
                return []
            if not is_continued(code, self._killed):
                return [f"the run ended with exit code {code}: {self._failure()}"]
            self.tally[RESUMED] += 1

    def _start(self, *more):
        self._starts += 1
        self._killed = set()
        run_id = f"chaos-{self._mark}-{self._starts}"
        own = {"--output": self._output, "--run-dir": self._run_dir, "--run-id": run_id, **self._apart}
        flags = [*without_values(self._flags, own), *words_of(own), *more]
        environment = {**os.environ, MARK: self._mark}
        with interrupts.deferred():
            self._process = begin(self._places, self._lifeline[0], flags, f"{self._run_dir}.log", environment)

    def _failure(self):
        return failure_of(self._run_dir, pathlib.Path(f"{self._run_dir}.log"))

    def _share(self, bounds):
        return self._random.uniform(*bounds) * self._seconds

    def _disturb(self):
        """The next disturbance. False where its victim does not exist: others come first."""
        if not self._deck:
            self._deck = [kind for kind, number in DECK.items() for _ in range(number)]
            self._order.shuffle(self._deck)
        kind = self._deck.pop()
        if {ALL: self._kill_everything, SCALED: self._scale}.get(kind, lambda: self._hit(kind))():
            self.tally[kind] += 1
            return True
        self._deck.insert(0, kind)
        return False

    def _hit(self, kind):
        living, status = self._processes(), read_status(self._run_dir)
        consumers = {each.get("pid") for each in status.get("consumers") or []} & living
        producer = {int(read_endpoint(self._run_dir).get("producer_pid", 0))} & living
        victims = {CONSUMER: consumers, PRODUCER: producer, PAUSED: consumers | producer}[kind]
        if not victims:
            return False
        victim = self._random.choice(sorted(victims))
        if kind == PAUSED:
            self._paused[victim] = time.monotonic() + self._share(PAUSE)
        else:
            self._killed.add(kind)
        return send(victim, signal.SIGSTOP if kind == PAUSED else signal.SIGKILL)

    def _scale(self):
        number = self._random.randint(1, 2 * self._consumers)
        with contextlib.suppress(LaunchError):  # it has not begun, or is ending
            return ControlClient(self._run_dir).ask({"do": "scale", "consumers": number})["ok"]

    def _continue_paused(self, now=float("inf")):
        for pid in [pid for pid, until in self._paused.items() if now >= until]:
            del self._paused[pid]
            if pid in self._processes():
                send(pid, signal.SIGCONT)

    def _kill_everything(self):
        """Whether the launcher died by it. Errors: LaunchError if a process does not die."""
        self._killed.add(ALL)

        def are_gone():
            pids = sorted(self._processes())
            for pid in self._random.sample(pids, len(pids)):
                send(pid, signal.SIGKILL)
            return not pids and (self._process is None or self._process.poll() is not None)

        if not within(GONE_SECONDS, are_gone):
            raise LaunchError(f"the processes {sorted(self._processes())} do not die by SIGKILL")
        return self._process is not None and self._process.returncode == -signal.SIGKILL

    def _processes(self):
        """The pids of all living processes of these runs."""
        wanted, found = f"{MARK}={self._mark}".encode(), set()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if wanted in pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.add(int(entry))
        return found

    def _left_over(self):
        """What the run has left after its end, as texts."""

        def left():
            memory = [name for name in os.listdir("/dev/shm") if f"chaos-{self._mark}-" in name]
            sockets = [path.name for path in (self._run_dir / LIVE).glob("*") if path.is_socket()]
            return {"shared memory": memory, "processes": sorted(self._processes()), "sockets": sockets}

        within(LEFT_SECONDS, lambda: not any(left().values()))
        return [f"left over: {what} {', '.join(map(str, names))}" for what, names in left().items() if names]


def is_continued(code, killed):
    """Whether --resume may continue a run that ended so after these kinds of kills."""
    # After the death of a loop, its wrapper may exit with any code.
    return PRODUCER in killed or bool(killed) and code in OF_DEATHS


def texts_of(named):
    return [f"{name} {how}" for name, how in named.items()]


def send(pid, number):
    """False where the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
