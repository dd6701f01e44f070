"""Builds the examples with the installed package, outside the tree, runs them and compares their results."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from tests.boundary.check_built import check_library_needs, check_symbols
from tests.support.real_run import LeavesNothing
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ["OFFRAMP_BUILD"])
PACKAGE = str(ROOT / "launch" / "python")
# The site-packages with LibTorch and the CUDA Toolkit; empty: skips those examples.
SITE = os.environ.get("OFFRAMP_SITE", "")
TORCH, CUDA = (
    pathlib.Path(SITE, part) if SITE and pathlib.Path(SITE, part, "include").exists() else None
    for part in ("torch", "nvidia/cu13")
)
# A Python with NumPy, for the examples in Python.
PYTHON = os.environ.get("OFFRAMP_TEST_PYTHON", sys.executable)
ON_GPU = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu") != "cpu"
MOST_LINES = 25
TOO_LATE = "there is no file 'endpoint'"
EXPECTED = sorted(f"batch-{batch}/row-{row} {batch * 1000}" for batch in range(10) for row in range(8))


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def install(prefix):
    run("cmake", "--install", str(BUILD), "--component", "library", "--prefix", str(prefix))


def configure(source, build, prefix, *definitions):
    """Configures with Ninja, which the set-up installs; CMake's default is make, which a machine may lack."""
    run("cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), f"-DCMAKE_PREFIX_PATH={prefix}", *definitions)


def too_long(folder):
    """The programs of this folder with more than MOST_LINES lines."""
    programs = [path for path in sorted(folder.iterdir()) if path.suffix in (".c", ".cpp", ".cu", ".py")]
    if not programs:
        raise AssertionError(f"no programs in {folder}")
    return [path.name for path in programs if len(path.read_text().splitlines()) > MOST_LINES]


class Package(LeavesNothing):
    @classmethod
    def setUpClass(cls):
        cls.world = tempfile.TemporaryDirectory(prefix="offramp-package-")
        folder = pathlib.Path(cls.world.name)
        cls.prefix, cls.programs = folder / "prefix", folder / "build"
        install(cls.prefix)
        shutil.copytree(HERE / "project", folder / "source")
        configure(folder / "source", cls.programs, cls.prefix, f"-DTORCH={TORCH or ''}", f"-DCUDA={CUDA or ''}")
        run("cmake", "--build", str(cls.programs))

    @classmethod
    def tearDownClass(cls):
        cls.world.cleanup()

    def start(self, program, run_dir):
        if program.endswith(".py"):
            library = next(self.prefix.rglob("libofframp.so"))
            command, options = (
                [PYTHON, str(HERE / "project" / program)],
                {"env": {**os.environ, "OFFRAMP_LIBRARY": str(library), "PYTHONPATH": PACKAGE}},
            )
        else:
            command, options = [str(self.programs / program)], {}
        process = subprocess.Popen(
            [*command, str(run_dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        self.addCleanup(put_away, process)
        return process

    def assert_each_sample_is_done_once(self, loop, *consumers):
        with tempfile.TemporaryDirectory() as name:
            run_dir = pathlib.Path(name, "run")
            producing = self.start(loop, run_dir)
            # A consumer waits 10 s for its run, but loading LibTorch from a cold disk may take longer.
            wait_for(lambda: (run_dir / "live/endpoint").exists() or producing.poll() is not None, "the loop's run")
            started = [self.start(consumer, run_dir) for consumer in consumers]
            outputs = [process.communicate(timeout=WATCHDOG_SECONDS) for process in started]
            self.assertEqual(
                ("80 samples done\n", "", 0), (*producing.communicate(timeout=WATCHDOG_SECONDS), producing.returncode)
            )
            self.assertEqual(EXPECTED, sorted(line for printed, _ in outputs for line in printed.splitlines()))
            # A run of ten batches may end before the second of two consumers connects: that one does nothing and
            # reports why.
            late = [process for process, (printed, why) in zip(started, outputs) if not printed and TOO_LATE in why]
            self.assertEqual(
                [0] * (len(started) - len(late)),
                [process.returncode for process in started if process not in late],
                [why for _, why in outputs],
            )
            self.assertLess(len(late), len(started))

    def test_a_loop_and_consumers_of_both_languages_do_each_sample_once(self):
        for consumers in (["consumer"], ["consumer_in_c"], ["consumer", "consumer_in_c"]):
            with self.subTest(consumers):
                self.assert_each_sample_is_done_once("loop", *consumers)

    @unittest.skipUnless(
        subprocess.run([PYTHON, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0, "skipped: no NumPy"
    )
    def test_loops_and_consumers_in_python_do_the_same(self):
        for loop, *consumers in (
            ["loop.py", "consumer.py"],
            ["loop.py", "consumer"],
            ["loop", "consumer.py", "consumer.py"],
        ):
            with self.subTest((loop, *consumers)):
                self.assert_each_sample_is_done_once(loop, *consumers)

    @unittest.skipUnless(TORCH, "skipped: no LibTorch")
    def test_a_loop_in_libtorch_does_the_same(self):
        self.assert_each_sample_is_done_once("torch_loop", "consumer", "consumer_in_c")

    @unittest.skipUnless(CUDA and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
    def test_a_loop_in_cuda_does_the_same(self):
        self.assert_each_sample_is_done_once("cuda_loop", "consumer", "consumer_in_c")

    def test_the_examples_are_short(self):
        self.assertEqual([], too_long(HERE / "project"))

    def test_an_example_that_is_too_long_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            with self.assertRaises(AssertionError):
                too_long(pathlib.Path(name))
            pathlib.Path(name, "short.cpp").write_text("\n" * MOST_LINES)
            pathlib.Path(name, "long.c").write_text("\n" * (MOST_LINES + 1))
            self.assertEqual(["long.c"], too_long(pathlib.Path(name)))

    def test_installed_and_built_library_need_and_export_the_same(self):
        golden = ROOT / "tests" / "boundary" / "exported_symbols.txt"
        library, header = (next(self.prefix.rglob(name)) for name in ("libofframp.so", "offramp.h"))
        self.assertEqual([], [*check_library_needs(library), *check_symbols(library, golden, header)])
        # The same check of offramp-consumer finds its libraries.
        self.assertTrue(any("libpng" in problem for problem in check_library_needs(BUILD / "bin" / "offramp-consumer")))

    def test_a_package_that_needs_the_tree_builds_nothing(self):
        """
        The examples need only the package, in any folder: a header that includes a file of the tree breaks the build.
        """
        with tempfile.TemporaryDirectory() as name:
            prefix, build = pathlib.Path(name, "elsewhere"), pathlib.Path(name, "build")
            shutil.copytree(self.prefix, prefix, symlinks=True)
            configure(HERE / "project", build, prefix)
            run("cmake", "--build", str(build), "--target", "consumer")
            header = next(prefix.rglob("offramp/consumer.hpp"))
            header.write_text(header.read_text() + '#include "common/base/error.hpp"\n')
            later = time.time() + 60  # later than the build, even with a coarse file system clock
            os.utime(header, (later, later))
            with self.assertRaisesRegex(AssertionError, "common/base/error.hpp: No such file"):
                run("cmake", "--build", str(build), "--target", "consumer")

    @unittest.skipUnless(shutil.which("pkg-config"), "skipped: no pkg-config")
    def test_pkg_config_knows_it(self):
        folder = next(self.prefix.rglob("offramp.pc")).parent
        flags = run(
            "pkg-config", "--cflags", "--libs", "offramp", env={**os.environ, "PKG_CONFIG_PATH": str(folder)}
        ).split()
        program = pathlib.Path(self.world.name, "by-pkg-config")
        run("cc", str(HERE / "project" / "consumer.c"), "-o", str(program), *flags)
        done = subprocess.run(
            [str(program), ""],
            capture_output=True,
            text=True,
            env={**os.environ, "LD_LIBRARY_PATH": str(folder.parent)},
        )
        self.assertEqual(64, done.returncode)
        self.assertIn("no run directory was given", done.stderr)
