"""A processor is one file: the one that the page shows is added to a copy of the tree, built, and run beside `write`."""

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
            (tree / "consumer/processors/plugins/brightest.cpp").write_text(example())
            consumer = build_consumer(tree)
            listed = subprocess.run([consumer, "--list"], capture_output=True, text=True, check=True).stdout
            self.assertRegex(listed, r"\bbrightest\b")
            with RealRun(*COPY, "--processor", "write,brightest", "--write-path", str(tree / "written")) as run:
                run.start_producer()
                run.start_consumer(program=consumer)
                self.assertEqual([run.wait(run.producer), *run.wait_for_consumers()], [0, 0], run.logs())
                written = {path.name.partition(".")[0]: max(path.read_bytes()) for path in (tree / "written").iterdir()}
                self.assertEqual(48, len(written))
                self.assertGreater(len(set(written.values())), 1, "they differ")
                self.assertEqual({f"brightest/{key}.txt": f"{largest}\n".encode() for key, largest in written.items()}, run.files())



def example():
    page = (ROOT / "consumer/processors/new_processor.md").read_text(encoding="utf-8")
    return re.search(r"`plugins/brightest\.cpp`.*?```cpp\n(.*?)```", page, re.DOTALL)[1]


def build_consumer(tree):
    """With the compiler's results of the build under test, where there is a cache of them."""
    environment = {**os.environ, "CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
    build = tree / "build/release"
    for command in (["cmake", "--preset", "release", f"-DOFFRAMP_PYTHON={sys.executable}", "-DOFFRAMP_CUDA=OFF", "-DOFFRAMP_MODELS=OFF",
                     "-DOFFRAMP_TESTS=OFF"],
                    ["ninja", "-C", build, "offramp-consumer"]):
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return build / "bin/offramp-consumer"


if __name__ == "__main__":
    unittest.main()
