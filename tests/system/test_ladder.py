"""A small ladder with the real programs: all promised files exist. No time is asserted."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.support.compiled import build_folder
from tests.support.launched_run import ROOT
from tests.support.real_run import left_behind

WATCHDOG_SECONDS = 540  # thirteen runs, each of which loads the model
KEYS = ("sequential", "workers", "pool", "async-pageable", "async", "streams", "compute-alone")
DEVICE_TIMES = ("step", "compute", "idle")


class LadderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-system-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.output = cls.folder / "ladder"
        environment = {
            **os.environ,
            "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"],
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_BUILD_DIR": build_folder(cls.folder),
        }
        cls.done = subprocess.run(
            [
                str(ROOT / "launch/offramp"),
                *"ladder --device cpu --output".split(),
                str(cls.output),
                *"--batches 4 --warmup 1 --json".split(),
                str(cls.folder / "figures.json"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        if cls.done.returncode == 0:
            cls.figures = json.loads((cls.folder / "figures.json").read_text())

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr + self.done.stdout)

    def test_every_rung_is_measured_with_equal_results(self):
        self.assertEqual(list(KEYS), list(self.figures["rungs"]))
        self.assertIs(True, self.figures["results"]["equal"])
        for key, verdict in self.figures["results"]["rungs"].items():
            self.assertEqual({"rows": 6, "word": "equal"}, verdict, key)

    def test_every_figure_is_there(self):
        for key, figures in self.figures["rungs"].items():
            for name in (
                "batches_per_second",
                "gpu_idle_share",
                "producer_cpu_ms_per_batch",
                "first_batch_seconds",
                "share_of_compute_alone",
            ):
                self.assertIsNotNone(figures[name], f"{key}: {name}")
            times = [
                *DEVICE_TIMES,
                *(("d2h", "process") if key != "compute-alone" else ()),
                *(("map", "unmap") if key == "workers" else ()),
            ]
            for name in times:
                self.assertIsNotNone(figures["per_batch_ms"][name], f"{key}: {name}")
            self.assertEqual(4, figures["batches"], key)
            self.assertTrue(0 <= figures["gpu_idle_share"] < 1, key)
            if key != "compute-alone":
                self.assertGreater(figures["copy_gigabytes_per_second"], 0, key)
        for name, limit in self.figures["limits"].items():
            self.assertGreater(limit, 0, name)

    def test_the_trace_holds_every_rung(self):
        events = json.loads((self.output / "trace.json").read_text())["traceEvents"]
        groups = {event["pid"] // 1000 for event in events if event["ph"] == "X"}
        self.assertEqual(set(range(1, len(KEYS) + 1)), groups)
        names = {event["name"] for event in events}
        self.assertLessEqual({"get_batch", "stage_batch", "compute", "d2h", "process_output", "map", "unmap"}, names)

    def test_nothing_is_left_in_shared_memory(self):
        runs = [json.loads(file.read_text())["run_id"] for file in self.output.glob("*/**/summary.json")]
        self.assertEqual(2 * len(KEYS) - 1, len(runs))
        self.assertEqual(
            [], left_behind(lambda: [name for name in os.listdir("/dev/shm") if any(run in name for run in runs)])
        )
