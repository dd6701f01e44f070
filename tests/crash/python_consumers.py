"""The kill-point matrix with consumers whose processor is written in Python: the consumer is then a library in an interpreter."""

import sys
import textwrap

from tests.crash.crash_run import BIN, SAMPLES, CrashRun, Order, failpoints_of_the_sources
from tests.crash.matrix import DEATHS, ELSEWHERE, LAUNCHER, Cell
from tests.support.done_items import items_of_checkpoint, items_of_records

# A file and a record a sample. It reads its slab twice, and fails once in the whole run, in the middle of a slab, so that a failure's steps are passed.
PROCESSOR = """
    import os, pathlib

    def save(slab, changed, once):
        for sample, values in slab:
            total = int(values.sum(dtype="int64"))
            slab.progress()
            yield sample, ".sum", f"{total}\\n".encode()
            yield sample, {"sum": total}
            if sample.item == 42:
                try:
                    os.close(os.open(once, os.O_CREAT | os.O_EXCL))
                    raise ValueError("once")
                except FileExistsError:
                    pass
            if int(values.sum(dtype="int64")) != total:
                pathlib.Path(changed).write_text(sample.key)
"""
# The function's turn is between these two; around it the interpreter's own ways to end count: atexit, its handlers of signals, what is buffered.
IN_THE_TURN = ("consumer.work_noted", "sink.commit")


class PythonCrashRun(CrashRun):
    """The same run; its consumers go on in the interpreter that runs these tests."""

    PROCESSOR = PROCESSOR

    def consumers(self):
        post = self.run.folder / "post.py"
        post.write_text(textwrap.dedent(self.PROCESSOR))
        self.run.flags += ("--processor", f"{post}:save", "--consumer-python", sys.executable,
                           "--processor-option", f"changed={self.changed},once={self.run.folder / 'failed'}")
        return {"OFFRAMP_BIN_DIR": str(BIN)}

    def outputs(self):
        return {name: text for name, text in self.run.files().items() if name.endswith(".sum") or name == "records.jsonl"}

    def led_by_the_checkpoint(self):
        files = {int(path.stem) for path in self.run.output.glob("*.sum")}
        return sorted(items_of_checkpoint(self.run.output) - (items_of_records(self.run.output) & files))

    def wrong(self, code, expected):
        wrong = super().wrong(code, expected)
        return wrong if (self.run.folder / "failed").exists() else [*wrong, "the function has not failed"]


class FailureCell(Cell):
    """At a step that one slab alone comes by."""

    @property
    def order(self):
        return Order(self.failpoint, self.action, 1)


def cells():
    """
    SIGKILL wherever a consumer comes by, and where a failure is counted; all ways to die, also the launcher's, in the function's turn. What a producer
    comes by is the same to it whatever its consumers run: the matrix has that.
    """
    from_consumers = [name for name, program in failpoints_of_the_sources().items() if program == "consumer" and name not in ELSEWHERE]
    killed = [Cell(name, "consumer", "kill") for name in from_consumers]
    others = [Cell(name, "consumer", action) for name in IN_THE_TURN for action in (*DEATHS, LAUNCHER) if action != "kill"]
    return [*killed, *others, FailureCell("consumer.failed", "consumer", "kill"), FailureCell("ledger.fail.counted", "producer", "kill")]


def is_whole(outputs):
    """The results of a finished run: a file for each sample, and one of records."""
    return len(outputs) == SAMPLES + 1
