"""The documented processor: added to a copy of the tree, built, and run beside `write`."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.support.launched_run import ROOT
from tests.support.real_run import RealRun

PARTS = ("CMakeLists.txt", "CMakePresets.json", "common", "producer", "consumer", "tests", "launch")
COPY = ("--device", "cpu", "--model", "copy", "--copy-bytes", "4KiB", "--batch", "8", "--batches", "6")
BUILD_SECONDS = 1200


class NewProcessor(unittest.TestCase):
    def test_the_page_s_example_works_as_it_stands(self):
        with tempfile.TemporaryDirectory(prefix="offramp-new-processor-") as folder:
            tree = pathlib.Path(folder)
            for part in PARTS:
                (shutil.copytree if (ROOT / part).is_dir() else shutil.copy2)(ROOT / part, tree / part)
            for suffix, language in ((".cpp", "cpp"), (".toml", "toml")):
                (tree / "consumer/processors/plugins/brightest").with_suffix(suffix).write_text(
                    example(suffix, language)
                )
            producer, consumer = build(tree)
            self.assertRegex(output_of(consumer, "--list"), r"\bbrightest\b")
            for program in (producer, consumer):
                self.knows_its_setting(program, tree)
            self.makes_results(producer, consumer, tree)

    def knows_its_setting(self, program, tree):
        self.assertRegex(
            output_of(program, "--help"),
            r"--brightest-base WORD\s+Processor `brightest`: numbers are written in this base\s+10, 16; default 10",
        )
        self.assertEqual("10", settings(program)["brightest-base"])
        self.assertEqual("16", settings(program, "--brightest-base", "16")["brightest-base"])
        (tree / "run.toml").write_text('brightest-base = "16"\n')
        self.assertEqual("16", settings(program, "--config", str(tree / "run.toml"))["brightest-base"])
        self.assertEqual(
            "10", settings(program, "--config", str(tree / "run.toml"), OFFRAMP_BRIGHTEST_BASE="10")["brightest-base"]
        )
        refused = subprocess.run(
            [program, "--brightest-base", "8", "--print-config"], capture_output=True, text=True, check=False
        )
        self.assertEqual(64, refused.returncode)
        self.assertRegex(refused.stderr, r"--brightest-base '8' is unknown\. .*Accepted: 10, 16")

    def makes_results(self, producer, consumer, tree):
        """In the database that only the producer knows."""
        with RealRun(*COPY, "--processor", "write,brightest", "--write-path", str(tree / "written")) as run:
            run.start_producer("--brightest-base", "16", program=producer)
            run.start_consumer(program=consumer)
            self.assertEqual([run.wait(run.producer), *run.wait_for_consumers()], [0, 0], run.logs())
            written = {path.name.partition(".")[0]: max(path.read_bytes()) for path in (tree / "written").iterdir()}
            self.assertEqual(48, len(written))
            self.assertGreater(len(set(written.values())), 1, "they differ")
            self.assertEqual(
                {f"brightest/{key}.txt": f"{largest:x}\n".encode() for key, largest in written.items()}, run.files()
            )
            self.assertEqual(64, run.wait(run.start_producer("--resume", program=producer)), run.logs())
            self.assertIn("--brightest-base was 16 and is 10", run.logs())


def output_of(program, *flags, **environment):
    return subprocess.run(
        [program, *flags], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    ).stdout


def settings(program, *flags, **environment):
    return json.loads(output_of(program, *flags, "--print-config", **environment))


def example(suffix, language):
    page = (ROOT / "launch/guide/processors.md").read_text(encoding="utf-8")
    return re.search(rf"`plugins/brightest\{suffix}`.*?```{language}\n(.*?)```", page, re.DOTALL)[1]


def build(tree):
    """Builds producer and consumer, with ccache's results of the build under test if available."""
    environment = {**os.environ, "CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
    folder = tree / "build/release"
    for command in (
        [
            "cmake",
            "--preset",
            "release",
            f"-DOFFRAMP_PYTHON={sys.executable}",
            "-DOFFRAMP_CUDA=OFF",
            "-DOFFRAMP_MODELS=OFF",
            "-DOFFRAMP_TESTS=OFF",
        ],
        ["ninja", "-C", folder, "offramp-producer", "offramp-consumer"],
    ):
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder / "bin/offramp-producer", folder / "bin/offramp-consumer"
