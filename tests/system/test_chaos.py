"""
`offramp chaos`: disturbed runs are compared with an undisturbed one, differences are named, and nothing of the user's
is touched. Twins: processors whose results change when a slab is delivered again, or in every run.
"""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test_hosts import in_python

from tests.support.compiled import build_folder
from tests.support.launched_run import ROOT
from tests.support.marked_processes import processes_marked
from tests.support.waiting import put_away, wait_for

WATCHDOG_SECONDS = 300  # two to five runs
COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --status-seconds 0.05 --copy-outputs 48 --batch 8".split(),
    *"--samples-per-slab 4".split(),
)
RUN, SHORT = (*COPY, "--batches", "150"), (*COPY, "--batches", "1")
# An exec: processor without NumPy, which writes `content` to a file of each sample. {mode}: how the file is opened.
# {folder}: the folder of these files, within the output.
PROCESSOR = """
    import json, os, pathlib, sys
    folder = pathlib.Path(json.loads(sys.stdin.readline())["output"], {folder})
    folder.mkdir(exist_ok=True)
    print(json.dumps({{"offramp": 1}}), flush=True)
    for line in sys.stdin:
        slab = json.loads(line)["slab"]
        for sample in slab["samples"]:
            with open(folder / str(sample["item"]), "{mode}") as file:
                file.write({content})
        print(json.dumps({{"slab": slab["number"], "done": True}}), flush=True)
"""
LOOP = """
    import numpy, offramp

    def batches():
        for number in range(200):
            yield [f"{number}-{row}" for row in range(8)], numpy.full((8, 48), number, "float32")

    with offramp.Egress(resume=True) as egress:
        for keys, values in egress.pending(batches()):
            egress.submit(values, keys)
"""
# The first disturbance kills everything, which needs no victim that may not have started yet.
SEED = "1324"


class Chaos(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-chaos-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("tmp", "results"):
            (self.folder / name).mkdir()
        (self.folder / "results" / "mine").write_text("kept")
        self.environment = {
            **os.environ,
            "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"],
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_TEST_CHAOS": self.folder.name,
            "TMPDIR": str(self.folder / "tmp"),
        }

    def start(self, own, *flags):
        process = subprocess.Popen(
            [ROOT / "launch/offramp", "chaos", *own.split(), "--", *flags],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(put_away, process)
        return process

    def chaos(self, own, *flags):
        """(exit code, output)"""
        process = self.start(own, *flags)
        output = process.communicate(timeout=WATCHDOG_SECONDS)[0]
        return process.returncode, output

    def output(self):
        return ("--output", str(self.folder / "results"))

    def processor(self, mode, content, folder="seen"):
        program = self.folder / "processor.py"
        program.write_text(textwrap.dedent(PROCESSOR.format(mode=mode, content=content, folder=repr(str(folder)))))
        return ("--processor", f"exec:{sys.executable} {program}")

    def assert_nothing_is_left(self, *besides):
        self.assertEqual([], processes_marked("OFFRAMP_TEST_CHAOS", self.folder.name))
        names = {path.name for path in self.folder.iterdir()} - {"processor.py", "loop.py"}
        self.assertEqual({"tmp", "build", "results", *besides}, names)
        self.assertEqual("kept", (self.folder / "results" / "mine").read_text())
        self.assertEqual(["mine"], os.listdir(self.folder / "results"))
        if not besides:
            self.assertEqual([], os.listdir(self.folder / "tmp"))

    def test_a_disturbed_run_has_the_same_files_and_rows(self):
        code, output = self.chaos(
            f"--for 1s --seed {SEED}", *RUN, *self.output(), "--processor", "checksum,embeddings-sqlite"
        )
        self.assertEqual(0, code, output)
        self.assertIn(f"[chaos] seed {SEED}; ", output)
        self.assertRegex(output, r"(?m)^everything killed +[1-9]")
        self.assertRegex(output, r"(?m)^resumes +[1-9]")
        self.assertRegex(output, r"(?m)^failed +none$")
        self.assert_nothing_is_left()

    def test_results_that_change_with_another_delivery_are_named_and_kept(self):
        code, output = self.chaos(f"--for 1h --seed {SEED}", *RUN, *self.output(), *self.processor("a", "'seen '"))
        self.assertEqual(1, code, output)
        self.assertRegex(output, r"(?m)^  seen/\d+ has other bytes$")
        self.assertRegex(output, r"(?m)^failed +[1-9]")
        (scratch,) = self.folder.glob(".offramp-chaos-*")
        self.assertRegex(output, rf"(?m)^kept +{scratch}, ")
        self.assert_nothing_is_left(scratch.name)

    def test_results_that_differ_undisturbed_are_not_deterministic(self):
        code, output = self.chaos("--for 1s", *SHORT, *self.output(), *self.processor("w", "os.urandom(8).hex()"))
        self.assertEqual(64, code, output)
        self.assertRegex(output, r"two undisturbed runs differ already, in \d+ files such as seen/\d+: ")

    def test_a_process_that_outlives_its_run_is_left_over(self):
        starts = "os.spawnlp(os.P_NOWAIT, 'setsid', 'setsid', 'sleep', '1000') and ''"
        code, output = self.chaos("--for 1h", *SHORT, *self.output(), *self.processor("w", starts))
        self.assertEqual(1, code, output)
        self.assertRegex(output, r"(?m)^  left over: processes \d+")
        self.assertEqual([], processes_marked("OFFRAMP_TEST_CHAOS", self.folder.name))

    @in_python
    def test_a_loop_that_resumes_has_the_same_results(self):
        (self.folder / "loop.py").write_text(textwrap.dedent(LOOP))
        loop = shlex.join([sys.executable, str(self.folder / "loop.py")])
        code, output = self.chaos(
            f"--for 1s --seed {SEED} --scratch {self.folder}",
            *("--producer", loop, "--consumers", "2", "--processor", "npy"),
        )
        self.assertEqual(0, code, output)
        self.assertRegex(output, r"(?m)^everything killed +[1-9]")
        self.assertRegex(output, r"(?m)^files compared +1600$")
        self.assert_nothing_is_left()

    def test_ctrl_c_keeps_a_difference_that_is_not_confirmed_yet(self):
        # Once results differ, the next undisturbed run does not end.
        waits = f"any(pathlib.Path({str(self.folder)!r}).glob('.*/disturbed')) and __import__('time').sleep(1000)"
        flags = (*RUN, *self.output(), *self.processor("a", f"({waits}) or 'seen '"))
        process = self.start(f"--for 1h --seed {SEED}", *flags)
        (disturbed,) = wait_for(lambda: list(self.folder.glob(".offramp-chaos-*/disturbed")), "a difference")
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=WATCHDOG_SECONDS)[0]
        self.assertEqual(130, process.returncode, output)
        self.assertRegex(output, r"(?m)^failed, unconfirmed +[1-9]")
        self.assertRegex(output, r"(?m)^  seen/\d+ has other bytes$")
        self.assertRegex(output, rf"(?m)^kept +{disturbed.parent}, ")
        self.assert_nothing_is_left(disturbed.parent.name)

    def test_ctrl_c_ends_it_with_what_held_so_far(self):
        process = self.start("--for 1h", *RUN, *self.output())
        read = []
        wait_for(lambda: read.append(process.stdout.readline()) or "undisturbed run" in read[-1], "the undisturbed run")
        wait_for(lambda: processes_marked("OFFRAMP_TEST_CHAOS", self.folder.name)[3:], "the disturbed run's programs")
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=WATCHDOG_SECONDS)[0]
        self.assertEqual(130, process.returncode, output)
        self.assertRegex(output, r"(?m)^failed +none$")
        self.assert_nothing_is_left()

    def test_a_run_that_writes_elsewhere_is_not_compared(self):
        elsewhere = self.folder / "elsewhere"
        code, output = self.chaos("--for 1s", *SHORT, *self.output(), *self.processor("w", "'seen'", elsewhere))
        self.assertEqual(64, code, output)
        self.assertIn("wrote no files to its output, so there is nothing to compare", output)
        self.assertTrue(any(elsewhere.iterdir()))

    def test_a_run_that_fails_undisturbed_is_reported(self):
        code, output = self.chaos(
            "--for 1s", *SHORT, *self.output(), *self.processor("w", "1 / 0"), "--max-failures", "1"
        )
        self.assertNotIn(code, (0, 1), output)
        self.assertRegex(output, r"(?m)^offramp: the undisturbed run failed: 8 samples were dead-lettered, ")
        (scratch,) = self.folder.glob(".offramp-chaos-*")
        self.assertIn(f"Kept: {scratch}, ", output)
        self.assert_nothing_is_left(scratch.name)

    def test_runs_that_cannot_be_compared_are_refused(self):
        for why, own, flags in (
            ("needs the flags of a run", "--for 1s", ()),
            ("--for is 'soon'", "--for soon", RUN),
            ("chaos does not accept '--batch'", "--batch 4", RUN),
            ("--overwrite: its runs write to scratch folders", "", (*RUN, "--overwrite")),
            ("--sink: the rows would go to that database", "", (*RUN, "--sink", "postgres://host/database")),
            ("--http-url: the results would be posted", "", (*RUN, "--http-url", "http://localhost/")),
            ("cannot compare the objects in s3://bucket/it", "", (*RUN, "--output", "s3://bucket/it")),
            ("runs with --when-full drop:", "", (*RUN, "--when-full", "drop")),
            ("runs with --when-full drop-oldest", "", (*RUN, "--when-full", "drop-oldest")),
            ("sends to --write-path /dev/null", "", (*RUN, "--processor", "write")),
            ("--input /dev/zero again, and it may be endless", "", ("--source", "text", "--input", "/dev/zero")),
            ("it would write to the array of your results", "", (*RUN, "--processor", "python:offramp.zarr:Writer")),
            ("on the file system of --output /dev/shm, outside", "", (*RUN, "--output", "/dev/shm")),
            ("--scratch /nowhere is not a folder", "--scratch /nowhere", RUN),
            ("--scratch is a flag of chaos, not of the run", "", (*RUN, "--scratch", "/tmp")),
        ):
            with self.subTest(why):
                code, output = self.chaos(own, *flags)
                self.assertEqual(64, code, output)
                self.assertIn(why, output)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
