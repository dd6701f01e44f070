"""
Files of `new-processor` in each language: their test passes and can fail, a run accepts them unchanged, and nothing is
overwritten.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test_hosts import Hosted, in_python

from tests.support.launched_run import ROOT
from tests.support.real_run import BIN
from tests.support.waiting import WATCHDOG_SECONDS, put_away

PACKAGE = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "launch" / "python"),
    "OFFRAMP_LIBRARY": str(BIN.parent / "lib" / "libofframp.so"),
    "OFFRAMP_BIN_DIR": str(BIN),
}
LOOP = """
    import sys, numpy, offramp

    with offramp.Egress(sys.argv[1]) as egress:
        for number in range(10):
            egress.submit(numpy.full((4, 3, 5), number, "float32"), [f"{number}-{row}" for row in range(4)])
"""
MEANS = {f"{number}-{row}": 3.0 * number for number in range(10) for row in range(4)}


class Started(Hosted):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="offramp-started-")))

    def new(self, *words):
        return subprocess.run(
            [str(ROOT / "launch" / "offramp"), "new-processor", *words],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=60,
        )

    def written_in(self, language, ending):
        done = self.new("mine", "--lang", language)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual({f"mine{ending}", "test_mine.py"}, {path.name for path in self.folder.iterdir()})
        return self.folder / f"mine{ending}"

    def ran(self, **environment):
        return subprocess.run(
            [sys.executable, "-m", "unittest", "test_mine"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**PACKAGE, **environment},
            timeout=WATCHDOG_SECONDS,
        )

    def assert_its_test_passes_and_can_fail(self, source, was, wrong, **environment):
        done = self.ran(**environment)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("Ran 1 test", done.stderr)
        text = source.read_text()
        self.assertIn(was, text)
        source.write_text(text.replace(was, wrong))
        self.assertIn("FAILED (failures=1)", self.ran(**environment).stderr)
        source.write_text(text)

    def assert_a_run_takes_it(self, processor):
        run = self.run_of()
        loop = subprocess.Popen([sys.executable, "-c", textwrap.dedent(LOOP), str(run.run_dir)], env=PACKAGE)
        self.addCleanup(put_away, loop)
        done = run.command(
            "consume",
            "--processor",
            processor,
            *"--processor-option factor=3 --consumers 2 --consumer-python".split(),
            sys.executable,
            "--output",
            str(run.output),
        )
        self.assertEqual((0, 0), (done.returncode, loop.wait(WATCHDOG_SECONDS)), done.stdout + done.stderr)
        files = run.files()
        records = [json.loads(line) for line in files.pop("records.jsonl").splitlines()]
        self.assertEqual(MEANS, {record["key"]: record["mean"] for record in records})
        self.assertEqual(len(MEANS), len(records))
        self.assertEqual(len(MEANS), len(files), "and a file each")

    @in_python
    def test_in_python(self):
        source = self.written_in("python", ".py")
        self.assert_its_test_passes_and_can_fail(source, "values.mean()", "values.max()")
        self.assert_a_run_takes_it(f"{source}:mine")

    @in_python
    @unittest.skipUnless(shutil.which("cc"), "skipped: no C compiler")
    def test_in_c_with_the_headers_of_the_checkout(self):
        source = self.written_in("c", ".c")
        self.assert_its_test_passes_and_can_fail(source, "sum += values[at]", "sum -= values[at]")
        self.assert_a_run_takes_it(self.built(source))

    @in_python
    @unittest.skipUnless(
        shutil.which("c++") and shutil.which("pkg-config"), "skipped: no C++ compiler, or no pkg-config"
    )
    def test_in_cpp_with_the_installed_headers(self):
        prefix = self.enterContext(tempfile.TemporaryDirectory(prefix="offramp-prefix-"))
        subprocess.run(
            ["cmake", "--install", str(BIN.parent), "--component", "library", "--prefix", prefix],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        installed = {"PKG_CONFIG_PATH": str(next(pathlib.Path(prefix).rglob("offramp.pc")).parent)}
        source = self.written_in("c++", ".cpp")
        self.assert_its_test_passes_and_can_fail(source, "factor * sum", "factor - sum", **installed)
        self.assert_a_run_takes_it(self.built(source, **installed))
        header = next(pathlib.Path(prefix).rglob("offramp_processor.h"))
        header.write_text('#error "those of the package"\n')
        self.assertIn("those of the package", self.ran(**installed).stderr)

    def built(self, source, **environment):
        program = "import sys, offramp.testing; print(offramp.testing.build(*sys.argv[1:]))"
        return subprocess.run(
            [sys.executable, "-c", program, str(source), str(self.folder)],
            env={**PACKAGE, **environment},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()

    def test_nothing_is_overwritten_and_bad_names_are_refused(self):
        for name in ("mine.py", "test_mine.py"):
            (self.folder / name).write_text("mine")
            done = self.new("mine")
            self.assertEqual((73, True), (done.returncode, f"'{name}' exists already" in done.stderr), done.stderr)
            self.assertEqual([(name, "mine")], [(path.name, path.read_text()) for path in self.folder.iterdir()])
            (self.folder / name).unlink()
        (self.folder / "mine.py").symlink_to("nowhere")
        self.assertEqual(73, self.new("mine").returncode)
        (self.folder / "mine.py").unlink()
        for words, code, why in (
            (("a-b",), 64, "'a-b' cannot name"),
            (("class",), 64, "'class' cannot name"),
            (("json",), 64, "hide the module"),
            (("mine.py",), 64, "without an ending"),
            ((), 64, "needs a name"),
            (("a", "b"), 64, "does not accept 'b'"),
            (("mine", "--lang", "rust"), 64, "Known: python, c, c++"),
            (("nowhere/mine",), 73, "No such file or directory"),
        ):
            done = self.new(*words)
            self.assertEqual((code, True), (done.returncode, why in done.stderr), done.stderr)
        self.assertEqual([], list(self.folder.iterdir()))
