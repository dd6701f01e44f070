"""
Tests the wheel outside the tree, in clean environments of the oldest and the newest installed Python since 3.9.
OFFRAMP_TEST_PYTHONS=all: of all installed Pythons.
"""

import concurrent.futures
import email
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from environments import EVERY, MINORS, OWN, Environments, Unavailable, selected_minors, python_of, run, site_of, unpack
from installed import (
    BUILD,
    ROOT,
    SONAME,
    VERSION,
    Installed,
    clean_environment,
    contract_of_processors,
    tests_of_the_package,
)

WORKERS = 2
MOST_BYTES = 15_000_000
TORCH = importlib.util.find_spec("torch") is not None
TOOLS = ("scikit_build_core", "auditwheel")
MISSING = [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]
# System libraries that auditwheel allows a wheel to need.
OF_THE_SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|z))\.so\b.*")


@unittest.skipIf(
    MISSING, f"skipped: {sys.executable} has no {' and no '.join(MISSING)} (launch/requirements-package.txt)"
)
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        world = tempfile.TemporaryDirectory(prefix="offramp-wheel-test-", dir="/tmp")
        cls.addClassCleanup(world.cleanup)
        cls.world = pathlib.Path(world.name)
        run(sys.executable, ROOT / "launch" / "packager", ROOT, BUILD, cls.world / "packages", "wheel")
        [cls.wheel] = (cls.world / "packages").glob("*.whl")
        cls.environments = Environments(cls.world, cls.wheel)
        workers = concurrent.futures.ThreadPoolExecutor(WORKERS)
        cls.addClassCleanup(workers.shutdown, cancel_futures=True)
        cls.suites = {minor: workers.submit(cls.run_suites, minor) for minor in selected_minors()}
        if TORCH:
            cls.with_torch = workers.submit(cls.run_with_torch)

    @classmethod
    def run_suites(cls, minor):
        """Runs in parallel with the other tests, which mostly wait."""
        python = cls.environments.of(minor) / "bin" / "python"
        consumer = site_of(python.parents[1]) / "offramp" / "programs" / "bin" / "offramp-consumer"
        return contract_of_processors(consumer, python), tests_of_the_package(
            python, "test_egress", "test_arrays", *["test_consumer"] * EVERY
        )

    @classmethod
    def run_with_torch(cls):
        """Uses this Python, which has PyTorch, with the installed wheel first in its path."""
        site = site_of(cls.environments.of(OWN))
        found = run(
            sys.executable,
            "-c",
            "import offramp; print(offramp.__file__)",
            env={**clean_environment(), "PYTHONPATH": str(site)},
            cwd=cls.world,
        )
        return pathlib.Path(found.strip()).parents[1], tests_of_the_package(
            sys.executable, "test_torch", "test_holding", before=[site]
        )

    def installed(self, minor, with_numpy=True):
        try:
            folder = self.environments.of(minor, with_numpy)
        except Unavailable as problem:
            self.skipTest(f"skipped: {problem}")
        work = tempfile.TemporaryDirectory(prefix="work-", dir=folder)
        self.addCleanup(work.cleanup)
        return Installed(self, work.name, folder / "bin" / "python", [folder / "bin" / "offramp"])

    def test_wheel_is_complete_with_metadata(self):
        self.assertEqual(f"offramp-{VERSION}-py3-none-manylinux_2_34_x86_64.whl", self.wheel.name)
        self.assertLessEqual(self.wheel.stat().st_size, MOST_BYTES)
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            metadata = email.message_from_bytes(archive.read(f"offramp-{VERSION}.dist-info/METADATA"))
            archive.extractall(self.world / "opened")
        self.assertEqual(
            (VERSION, ">=3.9", ["numpy", 'rich>=13; extra == "top"', 'obstore<1,>=0.8; extra == "stores"']),
            (metadata["Version"], metadata["Requires-Python"], metadata.get_all("Requires-Dist")),
        )
        bundled = {name.rpartition("/")[2] for name in names if name.startswith("offramp.libs/")}
        for name in names:
            if ".so" in name or name.endswith("offramp-consumer"):
                needed = set(
                    re.findall(
                        r"\(NEEDED\).*\[(.+)\]", run("readelf", "--wide", "--dynamic", self.world / "opened" / name)
                    )
                )
                self.assertEqual(
                    [], sorted(library for library in needed - bundled if not OF_THE_SYSTEM.fullmatch(library)), name
                )
        self.assertEqual([], [name for name in names if "__pycache__" in name or name.endswith("CMakeLists.txt")])
        licenses = {pathlib.Path(name).stem for name in names if name.startswith("offramp/programs/share/licenses/")}
        self.assertTrue({"libzmq5", "libsqlite3-0"} <= licenses if shutil.which("dpkg") else True, licenses)

    def test_a_library_that_needs_newer_symbols_is_refused(self):
        """Not every symbol of a newer C++ library has an equivalent older version."""
        with self.assertRaisesRegex(AssertionError, "needs .* of GLIBCXX_3.4.30, which systems with glibc 2.34 lack"):
            compiler = shutil.which("c++")
            if compiler is None:
                self.skipTest("skipped: no C++ compiler")
            library = self.world / "newer.so"
            run(
                compiler,
                *"-std=c++20 -shared -fPIC -D_GLIBCXX_ASSERTIONS -x c++ - -o".split(),
                library,
                input="#include <vector>\nint at(std::vector<int>& v, int i) { return v[i]; }\n",
            )
            if "GLIBCXX_3.4.30" not in run("readelf", "--wide", "--version-info", library):
                self.skipTest("skipped: this compiler's output needs no such symbol")
            run(
                sys.executable,
                "-c",
                "import pathlib, sys; from packager import older_symbols; older_symbols.require_older_symbols(pathlib.Path(sys.argv[1]))",
                library,
                env={**os.environ, "PYTHONPATH": str(ROOT / "launch")},
            )

    def test_an_old_c_library_is_reported_in_one_line(self):
        """A copy of the library needs a version that no glibc provides."""
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.world / "old")
        library = self.world / "old" / "offramp" / SONAME
        data = library.read_bytes()
        self.assertIn(b"GLIBC_2.34\0", data)
        library.write_bytes(data.replace(b"GLIBC_2.34\0", b"GLIBC_2.94\0"))
        done = subprocess.run(
            [sys.executable, "-c", "import offramp; offramp.library_version()"],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.world / "old")},
            cwd=self.world,
        )
        self.assertEqual(1, done.returncode)
        self.assertRegex(
            done.stderr.splitlines()[-1],
            r"LibraryNotFound: .*needs glibc 2\.34 or later.*GLIBC_2\.94.*Use Debian 12, Ubuntu 22\.04",
        )

    def test_without_numpy_the_demo_names_the_remedy(self):
        bare = self.installed(OWN, with_numpy=False)
        self.assertRegex(
            bare.call("demo", code=71),
            r"\Aofframp: the demo needs NumPy, and \S+ has none: \S+ -m pip install numpy\n\Z",
        )
        self.assertRegex(bare.call("doctor", code=71), r"PROBLEM  NumPy .*\n +fix: \S+ -m pip install numpy")
        self.assertIn("OK       consumers", bare.call("doctor", code=71))

    def test_missing_commands_are_reported_in_one_line(self):
        installed = self.installed(OWN, with_numpy=False)
        for words in (
            ("setup",),
            ("test",),
            ("bench", "W1"),
            ("ladder",),
            ("export", "x.py:make"),
            ("query", "words"),
            ("package",),
        ):
            self.assertRegex(
                installed.call(*words, code=64),
                rf"\Aofframp: {words[0]} .*needs the sources of Offramp.*`launch/offramp {words[0]}`.*\n\Z",
            )
        self.assertRegex(
            installed.call("run", "--model", "net.pt2", "--input", "x", code=64),
            r"\Aofframp: run with a model .*LibTorch.*`launch/offramp run`.*\n\Z",
        )
        self.assertIn("'rnu' is not a command; did you mean 'run'?", installed.call("rnu", code=64))
        self.assertIn("no live run\n    offramp run starts one", installed.call("status", code=69))
        for command in (
            "demo",
            "consume",
            "scale",
            "reload",
            "status",
            "top",
            "trace",
            "stop",
            "dead-letters",
            "new-processor",
            "clean",
            "doctor",
        ):
            self.assertTrue(installed.call(command, "--help").startswith(f"usage: offramp {command}"))
            self.assertRegex(installed.call("help"), rf"(?m)^  {command}\b")

    def test_a_live_run_is_shown_scaled_and_stopped(self):
        installed = self.installed(OWN)
        run_dir = installed.folder / "live"
        loop = installed.start(
            """
            import sys, numpy, offramp
            egress = offramp.Egress(run_dir=sys.argv[1])
            egress.submit({"values": numpy.zeros((4, 5), numpy.float32)})
            sys.stdin.read()
            egress.drain()
            egress.close()
        """,
            run_dir,
        )
        installed.require_a_run_can_be_scaled_and_stopped(run_dir, loop)

    def test_a_function_runs_in_another_python_than_the_command(self):
        """The other Python has its own packages, which the function imports."""
        other = next((minor for minor in reversed(selected_minors()) if minor != OWN), None)
        if other is None:
            self.skipTest(f"skipped: 3.{OWN} is the only Python since 3.9")
        there = self.installed(other)
        self.installed(OWN).require_consumers_of_all_kinds(other, "--consumer-python", there.python)

    def test_dead_letters_are_listed_and_retried(self):
        self.installed(OWN).require_dead_letters_can_be_retried()

    def test_a_loop_with_consumers_of_the_egress_or_the_command(self):
        self.installed(OWN).require_a_loop_with_consumers(OWN)

    def test_a_processor_template_passes_its_test(self):
        self.installed(OWN).require_processor_templates()

    @unittest.skipUnless(TORCH, f"skipped: {sys.executable} has no PyTorch")
    def test_pytorch_tensors_work_with_the_wheel(self):
        installed = self.installed(OWN)
        where, tests = self.with_torch.result()
        self.assertEqual(site_of(installed.folder.parent), where)
        installed.require_success(tests, least=25)

    def test_the_demo_and_a_refused_demo(self):
        installed = self.installed(OWN)
        installed.require_the_demo(
            site_of(installed.folder.parent) / "offramp" / "programs" / "share" / "launch" / "numpy_demo"
        )
        installed.require_a_refused_demo_leaves_nothing()

    def test_unpack_equals_pip_install(self):
        folder = self.world / "unpacked"
        run(python_of(OWN), "-m", "venv", "--without-pip", folder)
        unpack(self.wheel, folder)
        whole = site_of(self.environments.of(OWN))
        found = {path.relative_to(site_of(folder)): os.access(path, os.X_OK) for path in site_of(folder).rglob("*")}
        self.assertTrue(found)
        self.assertEqual(found, {name: os.access(whole / name, os.X_OK) for name in found})
        for name in found:
            if (whole / name).is_file() and name.name != "RECORD":
                self.assertEqual((whole / name).read_bytes(), (site_of(folder) / name).read_bytes(), name)
        self.assertEqual(f"offramp {VERSION}\n", run(folder / "bin" / "offramp", "version"))

    def test_contract_suite_runs_the_given_consumer(self):
        """A consumer that exits with 0 and does nothing fails the suite."""
        done = contract_of_processors(shutil.which("true"), sys.executable, "HolesAreSkipped/*")
        self.assertEqual((1, []), (done.returncode, re.findall(r"OK \].*", done.stdout)))


def of_python(minor):
    def test(self):
        if python_of(minor) and minor not in selected_minors():
            self.skipTest(
                "skipped: only the oldest and the newest Python are tested; OFFRAMP_TEST_PYTHONS=all includes this one"
            )
        installed = self.installed(minor)
        installed.require_one_version()
        installed.require_consumers_of_all_kinds(minor)
        installed.require_a_custom_consumer()
        contract, tests = self.suites[minor].result()
        installed.require_the_contract_of_processors(contract)
        installed.require_success(tests, least=25)

    return test


for each in MINORS:
    setattr(Wheel, f"test_in_python_3_{each:02}", of_python(each))

if __name__ == "__main__":
    unittest.main()
