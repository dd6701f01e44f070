"""
`offramp tune` with real runs: its result when interrupted, an untouched user output, and a run that does not start.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from tests.support.compiled import build_folder
from tests.support.launched_run import ROOT
from tests.support.real_run import BIN, left_behind
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

LAUNCHER = [sys.executable, "-E", "-s", "-B", str(ROOT / "launch" / "offramp_launch"), "tune"]
WORK = ("--model", "copy", "--copy-bytes", "64KiB", "--device", "cpu", "--batch", "4", "--processor", "checksum")


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-tune-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tmp").mkdir()

    def assert_nothing_is_left(self, process):
        """
        The command waits for its trials' programs, so nothing is left when it ends. In /dev/shm another run's sweep may
        still be at work.
        """
        self.assertEqual(
            [],
            left_behind(
                lambda: [name for name in os.listdir("/dev/shm") if name.startswith(f"offramp-tune-{process.pid}-")]
            ),
        )
        self.assertEqual([], list((self.folder / "tmp").iterdir()))
        self.assertEqual([], list(self.folder.rglob(".offramp-tune-*")))

    def start(self, *flags, **environment):
        process = subprocess.Popen(
            [*LAUNCHER, *WORK, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={
                **os.environ,
                "OFFRAMP_BIN_DIR": BIN,
                "OFFRAMP_BUILD_DIR": build_folder(self.folder),
                "OFFRAMP_TEST_RUNS": str(self.folder / "runs"),
                "TMPDIR": str(self.folder / "tmp"),
                **environment,
            },
        )
        self.addCleanup(put_away, process)
        return process

    def test_the_best_so_far_is_reported_and_nothing_is_left(self):
        output = self.folder / "results"
        output.mkdir()
        (output / "mine").write_text("kept")
        process = self.start("--output", str(output), "--json", "--seconds", "60", "--consumers", "1..2")
        self.assertRegex(
            process.stderr.readline(),
            r"^\[tune\] batch 4, decode-workers \d+, slabs \d+: [\d.]+ samples/s with [12] consumers, held back by ",
        )
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, process.returncode, printed)
        self.assert_nothing_is_left(process)
        result = json.loads(printed)
        first = result["tried"][0]
        self.assertEqual(
            (4, first["slabs"], first["rate"]), tuple(result["best"][name] for name in ("batch", "slabs", "rate"))
        )
        self.assertGreater(first["rate"], 0)
        self.assertEqual(["--batch", "4"], result["flags"][:2])
        self.assertEqual(
            ["run", *WORK[:6], *WORK[8:]], [word for word in result["command"] if word in ("run", *WORK[:6], *WORK[8:])]
        )
        self.assertEqual(
            ["build", "mine", "results", "tmp"],
            sorted({each.name for each in self.folder.iterdir()} - {"runs"} | {each.name for each in output.iterdir()}),
        )

    def test_a_run_that_does_not_begin_is_reported_with_its_reason(self):
        process = self.start("--slabs", "4096", "--copy-bytes", "1024GiB", "--seconds", "60")
        _, printed = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertIn("no trial ran: ", printed)
        self.assertGreater(process.returncode, 63, printed)
        self.assert_nothing_is_left(process)

    def trial_of(self, process):
        """(process of the current trial, its run directory), once slabs were released."""
        found = []

        def is_under_way():
            found[:] = [(int(pid), words) for pid, words in commands_below(process.pid) if "run-of-a-command" in words]
            statuses = [status_in(words[words.index("--run-dir") + 1]) for _, words in found]
            return bool(statuses and statuses[0].get("released_samples"))

        wait_for(is_under_way, "a trial's first slab")
        pid, words = found[0]
        return pid, pathlib.Path(words[words.index("--run-dir") + 1])

    def test_a_dead_trial_does_not_count_and_leaves_nothing(self):
        process = self.start("--seconds", "60", "--consumers", "1")
        trial, _ = self.trial_of(process)
        os.kill(trial, signal.SIGKILL)
        printed, errors = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertIn("did not run: ", printed)
        self.assertIn("no trial ran: ", errors)
        self.assertEqual(128 + signal.SIGKILL, process.returncode)
        self.assert_nothing_is_left(process)

    def test_trials_write_nowhere_else(self):
        (self.folder / "settings.toml").write_text(
            f'log-file = "{self.folder}/log"\nwhen-full = "spill"\nspill-dir = "{self.folder}/spilled"\n'
        )
        (self.folder / "spilled").mkdir()
        process = self.start(
            "--config",
            str(self.folder / "settings.toml"),
            *"--consumers 1 --seconds 60 --slabs 2 --run-id mine".split(),
            OFFRAMP_OUTPUT=str(self.folder / "results"),
        )
        _, run_dir = self.trial_of(process)
        self.assertNotEqual("mine", status_in(run_dir)["run_id"])
        self.assertIn("[tune] batch 4, ", process.stdout.readline())
        self.assertFalse(run_dir.exists(), "it is removed with its trial")
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, process.returncode, printed + errors)
        self.assert_nothing_is_left(process)
        self.assertEqual(
            (False, False, []),
            (
                (self.folder / "log").exists(),
                (self.folder / "results").exists(),
                list((self.folder / "spilled").iterdir()),
            ),
        )

    def test_a_signal_during_the_end_of_a_trial_is_handled_after_it(self):
        process = self.start("--seconds", "60", "--consumers", "1")
        trial, _ = self.trial_of(process)
        os.kill(trial, signal.SIGSTOP)  # it does not answer and is killed
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WATCHDOG_SECONDS)
        self.assertIn("the time limit passed before any trial was measured", errors)
        self.assert_nothing_is_left(process)


def status_in(run_dir):
    try:
        return json.loads((pathlib.Path(run_dir) / "status.json").read_text())
    except (OSError, ValueError):
        return {}


def commands_below(pid):
    """[(pid, command line)] of the children."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append((entry.name, (entry / "cmdline").read_text().split("\0")))
        except (OSError, ValueError):
            continue
    return found
