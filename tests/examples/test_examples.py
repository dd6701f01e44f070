"""The examples are built from the installed package, outside the tree, run, and their results compared."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.support.real_run import left_behind, shared_memory

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["OFFRAMP_BUILD"])
# Of a Python whose packages have LibTorch and the CUDA Toolkit; empty: those examples are left out.
SITE = os.environ.get("OFFRAMP_SITE", "")
TORCH, CUDA = (pathlib.Path(SITE, part) if SITE and pathlib.Path(SITE, part, "include").exists() else None for part in ("torch", "nvidia/cu13"))
ON_GPU = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu") != "cpu"
MOST_LINES = 25
EXPECTED = sorted(f"batch-{batch}/row-{row} {batch * 1000}" for batch in range(10) for row in range(8))
# What the library may need: of CUDA, LibTorch, curl, pq, sqlite and png it knows nothing.
NEEDED = {"libzmq.so.5", "librt.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
EXPORTED = {"offramp_code_name", "offramp_version",
            *(f"offramp_egress_{verb}" for verb in ("open", "submit", "drain", "get_figures", "close")),
            *(f"offramp_consumer_{verb}" for verb in ("open", "run", "progress", "still_current", "stop", "close"))}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def needed_by(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", str(library))))


def exported_by(library):
    return {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--defined-only", str(library)).splitlines() if " A " not in line}


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = tempfile.TemporaryDirectory(prefix="offramp-package-")
        folder = pathlib.Path(cls.world.name)
        cls.prefix, cls.programs = folder / "prefix", folder / "build"
        run("cmake", "--install", str(BUILD), "--component", "library", "--prefix", str(cls.prefix))
        shutil.copytree(HERE / "project", folder / "source")
        run("cmake", "-S", str(folder / "source"), "-B", str(cls.programs), f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DTORCH={TORCH or ''}", f"-DCUDA={CUDA or ''}")
        run("cmake", "--build", str(cls.programs))

    @classmethod
    def tearDownClass(cls):
        cls.world.cleanup()

    def setUp(self):
        self.before = shared_memory()

    def tearDown(self):
        self.assertEqual(left_behind(lambda: shared_memory() - self.before), set(), "something was left in /dev/shm")

    def assert_each_sample_is_done_once(self, loop, *consumers):
        with tempfile.TemporaryDirectory() as name:
            run_dir = str(pathlib.Path(name, "run"))
            started = [subprocess.Popen([str(self.programs / consumer), run_dir], stdout=subprocess.PIPE, text=True) for consumer in consumers]
            self.assertEqual("80 samples done\n", run(str(self.programs / loop), run_dir))
            said = [line for process in started for line in process.communicate(timeout=60)[0].splitlines()]
            self.assertEqual([0] * len(started), [process.returncode for process in started])
            self.assertEqual(EXPECTED, sorted(said))

    def test_a_loop_and_consumers_of_both_languages_do_each_sample_once(self):
        for consumers in (["consumer"], ["consumer_in_c"], ["consumer", "consumer_in_c"]):
            with self.subTest(consumers):
                self.assert_each_sample_is_done_once("loop", *consumers)

    @unittest.skipUnless(TORCH, "skipped: no LibTorch")
    def test_a_loop_in_libtorch_does_the_same(self):
        self.assert_each_sample_is_done_once("torch_loop", "consumer", "consumer_in_c")

    @unittest.skipUnless(CUDA and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
    def test_a_loop_in_cuda_does_the_same(self):
        self.assert_each_sample_is_done_once("cuda_loop", "consumer", "consumer_in_c")

    def test_the_examples_are_short(self):
        for path in sorted((HERE / "project").iterdir()):
            if path.suffix in (".c", ".cpp"):
                self.assertLessEqual(len(path.read_text().splitlines()), MOST_LINES, path.name)

    def test_the_library_needs_and_exports_what_its_page_says(self):
        library = self.prefix / "lib" / "libofframp.so.1"
        library = library if library.exists() else next(self.prefix.rglob("libofframp.so.1"))
        self.assertEqual(set(), needed_by(library) - NEEDED)
        self.assertEqual(EXPORTED, exported_by(library))
        # The same look at a program of ours finds what it links.
        self.assertIn("libcurl.so.4", needed_by(BUILD / "bin" / "offramp-consumer"))

    @unittest.skipUnless(shutil.which("pkg-config"), "skipped: no pkg-config")
    def test_pkg_config_knows_it(self):
        folder = next(self.prefix.rglob("offramp.pc")).parent
        flags = run("pkg-config", "--cflags", "--libs", "offramp", env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).split()
        program = pathlib.Path(self.world.name, "by-pkg-config")
        run("cc", str(HERE / "project" / "consumer.c"), "-o", str(program), *flags)
        done = subprocess.run([str(program), ""], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(folder.parent)})
        self.assertEqual(64, done.returncode)
        self.assertIn("no run directory was given", done.stderr)


if __name__ == "__main__":
    unittest.main()
