"""Tracing a live run: its programs write their time ranges, continue, and give the results of an untraced run."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

from test_hosts import Hosted, in_python

from tests.support.launched_run import ROOT, LaunchedRun
from tests.support.waiting import WATCHDOG_SECONDS, put_away

COPY = (
    *"--device cpu --model copy --copy-bytes 64KiB --batch 4 --slabs 4 --consumers 2 --batches 3000".split(),
    *"--processor checksum".split(),
)
SLABS_AT_ONCE, LOOK_SECONDS = 2, 0.2
# Time limit for intermediate steps on a busy machine.
SECONDS = "5"
# Submits until the test lets it end, with some compute time in between.
LOOP = """
    import pathlib, sys, time, numpy, offramp

    with offramp.Egress(sys.argv[1], slabs=4) as egress:
        number = 0
        while not pathlib.Path(sys.argv[1]).with_name("go").exists():
            time.sleep(0.01)
            egress.submit({"values": numpy.full((4, 100), number, "float32")})
            number += 1
        egress.drain()
"""


def asked_in(run_dir):
    """The command on the run, while it is live."""
    try:
        return json.loads((run_dir / "live/trace-request.json").read_text())
    except (OSError, ValueError):
        return None


def without_pid(name):
    return re.sub(r" \d+", "", name)


class Traced(Hosted):
    def trace(self, run, *flags):
        """Starts the command `trace`."""
        tracing = subprocess.Popen(
            [str(ROOT / "launch" / "offramp"), "trace", str(run.run_dir), "--seconds", SECONDS, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=run.environment,
        )
        self.addCleanup(put_away, tracing)
        self.addCleanup(tracing.stdout.close)
        return tracing

    def asked(self, run, tracing):
        """Waits for the request; fails if the command ended without one."""
        return run.until(
            lambda: asked_in(run.run_dir) or self.assertIsNone(tracing.poll(), "the command ended"), "the request"
        )

    def check_trace(self, into, asked, processes, late=()):
        """
        Checks that the trace has each of `processes`, with work in the requested time, and possibly programs that
        started `late`. Returns the names of each program's ranges.
        """
        events = json.loads((into / "trace.json").read_text())["traceEvents"]
        names = {event["pid"]: event["args"]["name"].split()[0] for event in events if event["name"] == "process_name"}
        self.assertIn(sorted(names.values()), [sorted(processes), sorted([*processes, *late])])
        length = (asked["until_ns"] - asked["from_ns"]) / 1e3
        done = {}
        for event in events:
            if event["ph"] == "X":
                self.assertLess(event["ts"], length)
                self.assertGreaterEqual(event["ts"] + event["dur"], -0.001)
                done.setdefault(event["pid"], set()).add(event["name"])
        self.assertLessEqual(set(done), set(names))
        self.assertGreaterEqual(len(done), len(processes), "each program did something")
        return {names[group]: done[group] for group in done}

    def test_a_run_of_the_launchers(self):
        with LaunchedRun(*COPY) as run:
            self.assertEqual(0, run.start().wait(), run.logs())
            wanted = run.files()
        with LaunchedRun(*COPY) as run, run.gate() as gate:
            run.start()
            gate.let(SLABS_AT_ONCE)
            run.until(lambda: len(run.status().get("consumers") or []) == 2, "both consumers")
            run.until(lambda: run.status().get("state") == "running", "that it runs")
            into = run.folder / "traced"
            tracing = self.trace(run, "--into", str(into))
            asked = self.asked(run, tracing)
            refused = self.trace(run)

            def both_are_over():
                gate.let(SLABS_AT_ONCE)  # a consumer at the gate answers only behind it
                time.sleep(LOOK_SECONDS)
                return tracing.poll() is not None and refused.poll() is not None

            run.until(both_are_over, "the end of both commands")
            self.assertEqual(85, refused.returncode, printed := refused.stdout.read())
            self.assertIn("a trace of this run is under way", printed)
            self.assertEqual(0, tracing.returncode, printed := tracing.stdout.read())
            self.assertNotIn("missing: ", printed)
            self.assertEqual([], list(run.run_dir.glob("logs/trace-2*")), "the files are in the requested folder")
            done = self.check_trace(into, asked, ["producer", "consumer", "consumer"])
            self.assertLessEqual({"compute", "copy_to_cpu", "d2h", "publish"}, done["producer"])
            self.assertIn("process_output", done["consumer"])
            gate.open()
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(wanted, run.files())
            self.assertIsNone(asked_in(run.run_dir), "the request does not outlive its run")

    def test_a_run_with_groups(self):
        flags = [*COPY[: COPY.index("--consumers")], "--batches", "3000"]
        with (
            LaunchedRun(*flags, "--group", "arrays=checksum:1", "--group", "sums=records:1") as run,
            run.gate() as gate,
        ):
            run.start()
            gate.let(SLABS_AT_ONCE)
            run.until(lambda: len(run.status().get("consumers") or []) == 2, "both consumers")
            run.until(lambda: run.status().get("state") == "running", "that it runs")
            into = run.folder / "traced"
            tracing = self.trace(run, "--into", str(into))
            asked = self.asked(run, tracing)

            def it_is_over():
                gate.let(SLABS_AT_ONCE)
                time.sleep(LOOK_SECONDS)
                return tracing.poll() is not None

            run.until(it_is_over, "the end of the command")
            self.assertEqual(0, tracing.returncode, printed := tracing.stdout.read())
            self.assertNotIn("missing: ", printed)
            self.check_trace(into, asked, ["producer", "consumer", "consumer"])
            events = json.loads((into / "trace.json").read_text())["traceEvents"]
            names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
            self.assertEqual(
                ["producer", "consumer of arrays", "consumer of sums"], [without_pid(name) for name in names]
            )
            self.assertEqual([], list(run.run_dir.rglob("logs/trace-2*")), "the files are in the requested folder")
            gate.open()
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual([], list(run.run_dir.rglob("trace-request.json")), "no request outlives its run")

    @in_python
    def test_a_loop_of_the_user_one_of_whose_consumers_dies_meanwhile(self):
        run = self.run_of()
        loop = self.start_loop(run, LOOP, "--processor", "checksum")
        run.until(
            lambda: sum(consumer["ready"] for consumer in run.status().get("consumers") or []) == 2, "both consumers"
        )
        dead = run.status()["consumers"][0]["pid"]
        tracing = self.trace(run)
        asked = self.asked(run, tracing)
        os.kill(dead, signal.SIGKILL)
        printed, _ = tracing.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, tracing.returncode, printed)
        self.assertIn(f"missing: consumer {dead}, which ended without an answer", printed)
        # the dead consumer's successor
        done = self.check_trace(
            run.run_dir / f"logs/trace-{asked['id']}", asked, ["producer", "consumer"], late=["consumer"]
        )
        self.assertLessEqual({"queue_output", "d2h"}, done["producer"])
        pathlib.Path(run.folder, "go").touch()
        self.assertEqual(0, loop.wait(WATCHDOG_SECONDS))
        self.assertEqual(0, run.wait(), run.logs())
