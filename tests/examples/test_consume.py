"""
A custom loop built with the installed package, with built-in consumers that `offramp consume` starts and the test kills
and scales.
"""

import array
import ast
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from test_examples import BUILD, HERE, configure, install, run
from tests.support.compiled import build_folder
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

OFFRAMP = pathlib.Path(__file__).resolve().parents[2] / "launch" / "offramp"


def npy_values(path):
    """The float32 numbers of a .npy file of version 1."""
    data = path.read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise AssertionError(f"{path} is not a .npy file")
    begin = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:begin].decode())
    values = array.array("f", data[begin:])
    if header["descr"] != "<f4" or header["shape"] != (len(values),):
        raise AssertionError(f"{path}: {header}")
    return values


class Consume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        world = tempfile.TemporaryDirectory(prefix="offramp-package-")
        cls.addClassCleanup(world.cleanup)
        folder = pathlib.Path(world.name)
        cls.programs = folder / "build"
        install(folder / "prefix")
        configure(HERE / "project", cls.programs, folder / "prefix")
        run("cmake", "--build", str(cls.programs), "--target", "loop", "steady_loop")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-consume-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_dir, self.output = self.folder / "run", self.folder / "results"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "OFFRAMP_BIN_DIR": str(BUILD / "bin"),
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_SKIP_PACKAGES": "1",
        }
        self.loops, self.launchers = [], []
        self.addCleanup(self.require_no_memory_left)

    def require_no_memory_left(self):
        for process in (*self.launchers, *self.loops):
            put_away(process)
        self.sweep()
        wait_for(lambda: not self.in_memory(), f"that {self.in_memory()} disappears")

    def sweep(self):
        """Removes the shared memory of a killed loop, whose run has no other process to do it."""
        subprocess.run(
            [str(BUILD / "bin" / "offramp-producer"), "sweep", "--log-level", "warning"],
            env=self.environment,
            check=True,
        )

    def in_memory(self):
        return [
            name
            for name in os.listdir("/dev/shm")
            for loop in self.loops
            if name.startswith(f"offramp-egress-{loop.pid}-")
        ]

    def start(self, program, *arguments):
        loop = subprocess.Popen(
            [str(self.programs / program), str(self.run_dir), *map(str, arguments)], stdout=subprocess.PIPE, text=True
        )
        self.loops.append(loop)
        return loop

    def consume(self, *flags):
        launcher = subprocess.Popen(
            [str(OFFRAMP), "consume", "--run-dir", str(self.run_dir), "--output", str(self.output), *flags],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.launchers.append(launcher)
        return launcher

    def end(self, launcher, code=0):
        printed, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(code, launcher.returncode, printed)
        return printed

    def call(self, *command):
        done = subprocess.run(
            [str(OFFRAMP), *command, "--run-dir", str(self.run_dir)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def consumers(self):
        """The pids of the consumers in the run's status.json."""
        try:
            return {consumer["pid"] for consumer in json.loads((self.run_dir / "status.json").read_text())["consumers"]}
        except (OSError, ValueError):
            return set()

    def kill_one(self):
        victim = min(wait_for(self.consumers, "a consumer"))
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: victim not in self.consumers() and self.consumers(), "another consumer")

    def assert_arrays_are_the_loops(self, folder, batches):
        made = {str(path.relative_to(folder)) for path in folder.rglob("*.npy")}
        self.assertEqual({f"batch-{batch}/row-{row}.values.npy" for batch in range(batches) for row in range(8)}, made)
        for batch in range(batches):
            for row in range(8):
                self.assertEqual(
                    array.array("f", [batch]) * 1000, npy_values(folder / f"batch-{batch}" / f"row-{row}.values.npy")
                )

    def test_consumers_are_killed_and_scaled_without_loss(self):
        enough = self.folder / "enough"
        launcher = self.consume("--processor", "npy,checksum", "--consumers", "2")
        loop = self.start("steady_loop", enough)
        for _ in range(3):
            self.kill_one()
        self.assertIn("-> 4 consumers", self.call("scale", "4"))
        wait_for(lambda: len(self.consumers()) == 4, "four consumers")
        self.kill_one()
        self.assertIn("-> 1 consumers", self.call("scale", "1"))
        wait_for(lambda: len(self.consumers()) == 1, "one consumer")
        status = json.loads(self.call("status", "--json"))
        self.assertEqual(
            (1, loop.pid, "running"), (status["consumers_wanted"], status["producer_pid"], status["status"]["state"])
        )
        self.assertIn("draining", self.call("stop"))
        self.end(launcher, 130)
        self.assertIsNone(loop.poll(), "the loop still runs")
        # joins the same run, which continues
        launcher = self.consume("--processor", "npy,checksum", "--consumers", "2")
        wait_for(lambda: len(self.consumers()) == 2, "two consumers")
        enough.touch()
        batches = int(loop.communicate(timeout=WATCHDOG_SECONDS)[0])
        printed = self.end(launcher)
        self.assertIn(f"{8 * batches} samples, ", printed)
        self.assert_arrays_are_the_loops(self.output / "npy", batches)
        lines = (self.output / "checksum" / "checksums.tsv").read_text()
        for batch in range(batches):
            for row in range(8):
                self.assertEqual(1, lines.count(f"batch-{batch}/row-{row}\t"), "each sample once")
        summary = json.loads((self.run_dir / "summary.json").read_text())
        self.assertEqual((0, 8 * batches), (summary["exit"], summary["samples"]["released"]))

    def once(self, code, processor, *flags):
        """The output of a run of the short loop with these consumers."""
        loop = self.start("loop")
        printed = self.end(self.consume("--processor", processor, "--consumers", "1", *flags), code)
        put_away(loop)
        return printed

    def test_results_are_kept_under_another_name_on_request(self):
        results = self.output / "checksums.tsv"
        self.once(0, "checksum")
        first = results.read_text()
        self.assertEqual(80, first.count("batch-"))
        printed = self.once(64, "checksum")
        self.assertIn("which has finished", printed)
        self.assertIn("--overwrite", printed)
        self.assertIn("cannot be added to", self.once(64, "checksum", "--resume"))
        self.assertEqual(first, results.read_text())
        former = first.replace("\tbatch-0/row-0\t", "\tanother\t")
        results.write_text(former)
        self.assertIn(
            f"the results in {self.output} are kept as {self.output}.before-", self.once(0, "checksum", "--overwrite")
        )
        self.assertEqual(first, results.read_text())
        [kept] = self.output.parent.glob(f"{self.output.name}.before-*/checksums.tsv")
        self.assertEqual(former, kept.read_text())

    def test_results_are_added_to_by_key(self):
        self.once(0, "npy")
        (self.output / "batch-0" / "row-0.values.npy").unlink()
        (self.output / "mine.npy").touch()
        self.assertIn("--resume", self.once(64, "npy"))
        self.once(0, "npy", "--resume")
        (self.output / "mine.npy").unlink()  # --resume kept it
        self.assert_arrays_are_the_loops(self.output, 10)

    def test_consumers_end_with_a_program_that_is_killed(self):
        launcher = self.consume("--processor", "npy", "--consumers", "2")
        loop = self.start("steady_loop", self.folder / "never")
        wait_for(lambda: len(self.consumers()) == 2, "two consumers")
        loop.kill()
        self.assertIn("the run's program died", self.end(launcher, 86).splitlines()[-1])
        self.assertEqual("failed", json.loads((self.run_dir / "status.json").read_text())["state"])
