"""
Steps the attempts of a job through the launcher's code for a shard and a merge, with a fake run of three small files.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import threading
import types
from unittest import mock

from offramp_launch.jobs import files as job_files, folder as job_folder, merge as job_merge, shard_command
from offramp_launch.jobs.folder import Job

ITEMS, SHARDS = 3, 2
PLACES = types.SimpleNamespace(producer=lambda: "producer", consumer=lambda: "consumer")
STEPPED = ("link", "unlink", "replace", "stat", "listdir")
AT_ONCE = (1, 1, 2, 3, 5, 8, 13)
ALL = 1 << 30
KILLED_ONE_IN = 12


class Killed(BaseException):
    pass


class Attempt:
    """Runs code in its own thread and permits one or a few file operations at a time. Owns the thread."""

    current = threading.local()

    def __init__(self, code):
        self.go, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.dying = self.over = False
        self.left = 0  # operations before it waits again
        self.problem = self.result = None
        self.thread = threading.Thread(target=self._live, args=(code,), daemon=True)
        self.thread.start()
        self.waits.acquire()

    def _live(self, code):
        Attempt.current.attempt = self
        try:
            step()
            self.result = code()
        except Killed:
            pass
        except BaseException as problem:  # together() raises it
            self.problem = problem
        self.over = True
        self.waits.release()

    def let(self, operations=1):
        self.left = operations - 1
        self.go.release()
        self.waits.acquire()

    def kill(self):
        """Ends the thread before its next file operation."""
        self.dying = True
        self.let()
        self.thread.join()


def step():
    attempt = Attempt.current.attempt
    if attempt.left > 0 and not attempt.dying:
        attempt.left -= 1
    elif not attempt.dying:
        attempt.waits.release()
        attempt.go.acquire()
    if attempt.dying:
        raise Killed


class SteppedOs:
    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in STEPPED:
            return (lambda _: None) if name == "fsync" else real  # the history kills processes, not the machine

        def stepped(*arguments, **named):
            step()
            return real(*arguments, **named)

        return stepped


def stepped_open(*arguments, **named):
    step()
    return open(*arguments, **named)


def put(path, text):
    """Writes atomically, as the programs do."""
    temporary = path.parent / f".{path.name}.{threading.get_ident()}"
    step()
    temporary.write_text(text)
    step()
    os.replace(temporary, path)


@contextlib.contextmanager
def stepping():
    """Steps the launcher's code and discards its output."""
    stepped, made = SteppedOs(), job_files.put_once

    def counted(path, value):
        first = made(path, value)
        History.current.too_late += path.parent.name == "done" and not first
        return first

    with (
        mock.patch.object(job_files, "put_once", counted),
        mock.patch.object(job_files, "os", stepped),
        mock.patch.object(job_folder, "os", stepped),
        mock.patch.object(job_files, "open", stepped_open, create=True),
        mock.patch.object(shard_command, "run", lambda *arguments: History.current.run(*arguments)),
        mock.patch.object(shard_command, "held", lambda *_: contextlib.nullcontext(mock.Mock())),
        mock.patch.object(shard_command, "settings_of", lambda *_: {}),
        mock.patch.object(shard_command, "facts_of", lambda *_, **__: {"items": ITEMS, "identity": {}}),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        yield


class History:
    current = None

    def __init__(self, folder, chance, record_first=False):
        self.folder, self.chance, self.record_first = folder, chance, record_first
        self.kills = self.too_late = self.runs = 0
        self.steps = []
        facts = {
            "id": "job-1",
            "items": ITEMS,
            "shards": SHARDS,
            "identity": {},
            "output": str(folder / "out"),
            "folder": str(folder),
            "flags": [],
            "listed": False,
        }
        (folder / "out").mkdir(parents=True)
        History.current = self
        begun = Attempt(lambda: self.begun(facts))
        begun.let(ALL)
        self.job = begun.result

    def begun(self, facts):
        job = Job.begun(self.folder / "job", facts)[0]
        job.claim_output()
        return job

    def play(self):
        """Call it within stepping()."""
        History.current = self
        self.together({"other": lambda: self.shard(1)}, kills=0)
        self.together({"first": lambda: self.shard(0), "second": lambda: self.shard(0)}, kills=4)
        self.together({"merge": lambda: job_merge.merge(PLACES, self.job, False, self.ask)}, kills=2)

    def together(self, codes, kills):
        """Steps all attempts in parallel until each ends. Kills at most `kills` of them and retries each."""
        live, kills_left = {name: Attempt(code) for name, code in codes.items()}, kills > 0
        while live:
            name = self.chance.choice(list(live))
            attempt = live[name]
            if kills and self.chance.randrange(KILLED_ONE_IN) == 0:
                kills -= 1
                self.kills += 1
                self.steps.append(f"{name} killed")
                attempt.kill()
                live[name] = Attempt(codes[name])
                continue
            operations = self.chance.choice(AT_ONCE) if kills_left else ALL
            attempt.let(operations)
            self.steps.append(f"{name} {operations}")
            if attempt.over:
                del live[name]
                if attempt.problem:
                    raise attempt.problem
                assert attempt.result == 0, f"{name} ended with {attempt.result}"
            if self.chance.randrange(KILLED_ONE_IN) == 0:
                self.turn_a_clock()

    def turn_a_clock(self):
        """Changes one file's time, since the clocks of hosts may differ by hours."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.chance.choice(files), (self.chance.randrange(1 << 31),) * 2)

    def shard(self, index):
        if self.record_first:
            self.job.note_done(
                index,
                {
                    "done": self.job.items_of(index),
                    "skipped": 0,
                    "dead_letters": 0,
                    "dropped": 0,
                    "parts": {},
                    "attempt": 0,
                    "host": "here",
                    "seconds": 0,
                },
            )
        return shard_command.do(shard_command.Attempt(None, self.job, index, []))

    def run(self, attempt, *_):
        """Writes a file for each item, notes it in a checkpoint, and finally writes the lines of all items."""
        job, index = attempt.job, attempt.index
        place, run_dir = job.place(index), self.folder / f"run-{self.number()}"
        items = range(0, job.items_of(0)) if index == 0 else range(job.items_of(0), ITEMS)
        checkpoint = place / ".checkpoint"
        done = json.loads(checkpoint.read_text()) if checkpoint.exists() else []
        before = len(done)
        for item in items:
            if item not in done:
                put(job.output / f"{item}.bin", f"item {item}")
                done.append(item)
                put(checkpoint, json.dumps(done))
        put(place / "lines.tsv", "".join(f"{item}\t{item * item}\n" for item in items))
        run_dir.mkdir()
        (run_dir / "summary.json").write_text(
            json.dumps({"samples": {"done_before": before, "released": len(done) - before}})
        )
        return 0, run_dir

    def number(self):
        self.runs += 1
        return self.runs

    def ask(self, command, told_to="", pass_fds=()):
        """Does the work of the programs at a merge."""
        assert pass_fds, "the programs inherit the lock"
        if command[1] == "finish":
            return
        step()
        indices = [int(line.split()[0]) for line in told_to.splitlines()]
        if len(command) > 5 or "--output" in command:
            put(
                self.job.output / "lines.tsv",
                "".join((self.job.place(index) / "lines.tsv").read_text() for index in indices),
            )
        else:
            put(
                self.job.output / ".offramp-checkpoint",
                json.dumps({"run": self.job.id, "identity": {"items": str(ITEMS)}}) + "\n",
            )

    def check(self):
        out = self.job.output
        found = {path.name: path.read_text() for path in out.iterdir() if not path.name.startswith(".")}
        wanted = {
            **{f"{item}.bin": f"item {item}" for item in range(ITEMS)},
            "lines.tsv": "".join(f"{item}\t{item * item}\n" for item in range(ITEMS)),
        }
        assert found == wanted, found
        summary = json.loads((self.job.folder / "summary.json").read_text())
        assert summary["conserved"] and summary["done"] == ITEMS and not summary["partial"], summary
        records = [name for name in os.listdir(self.job.folder / "done") if not name.startswith(".")]
        assert sorted(records) == ["0.json", "1.json"], records
        assert not pathlib.Path(out, job_folder.SHARDS).exists(), "the merge removes the folders of the shards"

    def remove(self):
        shutil.rmtree(self.folder)
