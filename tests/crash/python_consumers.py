"""The kill-point matrix for consumers with a Python processor: the consumer is then a library in an interpreter."""

import sys
import textwrap

from tests.crash.crash_run import BIN, SAMPLES, CrashRun, Order, failpoints_of_the_sources
from tests.crash.matrix import DEATHS, ELSEWHERE, LAUNCHER, Cell
from tests.support.done_items import items_of_checkpoint, items_of_records

# Writes a file and a record per sample and reads its slab twice. It fails once in the whole run, in the middle of a
# slab, to reach the failpoints of a failure.
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
# The function runs between these two failpoints, where atexit, signal handlers and buffers of the interpreter matter.
IN_THE_TURN = ("consumer.work_noted", "sink.commit")


class PythonCrashRun(CrashRun):
    """The same run with consumers in the interpreter that runs these tests."""

    PROCESSOR = PROCESSOR

    def consumers(self):
        post = self.run.folder / "post.py"
        post.write_text(textwrap.dedent(self.PROCESSOR))
        self.run.flags += (
            "--processor",
            f"{post}:save",
            "--consumer-python",
            sys.executable,
            "--processor-option",
            f"changed={self.changed},once={self.run.folder / 'failed'}",
        )
        return {"OFFRAMP_BIN_DIR": str(BIN)}

    def outputs(self):
        return {
            name: text for name, text in self.run.files().items() if name.endswith(".sum") or name == "records.jsonl"
        }

    def led_by_the_checkpoint(self):
        files = {int(path.stem) for path in self.run.output.glob("*.sum")}
        return sorted(items_of_checkpoint(self.run.output) - (items_of_records(self.run.output) & files))

    def wrong(self, code, expected):
        wrong = super().wrong(code, expected)
        return wrong if (self.run.folder / "failed").exists() else [*wrong, "the function has not failed"]


class FailureCell(Cell):
    """A cell at a step that only one slab passes."""

    @property
    def order(self):
        return Order(self.failpoint, self.action, 1)


def cells():
    """
    SIGKILL at each failpoint of a consumer and where a failure is counted; around the function also the other ways to
    die and the launcher's death. The producer's failpoints do not depend on the processor: matrix.py covers them.
    """
    from_consumers = [
        name for name, program in failpoints_of_the_sources().items() if program == "consumer" and name not in ELSEWHERE
    ]
    killed = [Cell(name, "consumer", "kill") for name in from_consumers]
    others = [
        Cell(name, "consumer", action) for name in IN_THE_TURN for action in (*DEATHS, LAUNCHER) if action != "kill"
    ]
    return [
        *killed,
        *others,
        FailureCell("consumer.failed", "consumer", "kill"),
        FailureCell("ledger.fail.counted", "producer", "kill"),
    ]


def is_whole(outputs):
    """Whether these are the results of a finished run: a file per sample and records.jsonl."""
    return len(outputs) == SAMPLES + 1
