"""One version everywhere, packages with the same bytes each time, and the error of a build without its requirements."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from environments import run
from installed import BUILD, ROOT, SONAME, VERSION, clean_environment, soname_of
from test_deb import MISSING as MISSING_FOR_DEB
from test_wheel import MISSING as MISSING_FOR_WHEEL

PROGRAMS = ("offramp-consumer", "offramp-producer")
OPTIONS = ("-DOFFRAMP_CUDA=OFF", "-DOFFRAMP_MODELS=OFF", "-DOFFRAMP_TESTS=OFF")


class Release(unittest.TestCase):
    def setUp(self):
        world = tempfile.TemporaryDirectory(prefix="offramp-release-test-", dir="/tmp")
        self.addCleanup(world.cleanup)
        self.world = pathlib.Path(world.name)

    def test_a_checkout_has_one_version(self):
        python = {**clean_environment(), "PYTHONPATH": str(ROOT / "launch" / "python")}
        python["OFFRAMP_LIBRARY"] = str(BUILD / "lib" / SONAME)
        asked = "import offramp; print(offramp.__version__, offramp.library_version())"
        self.assertEqual(f"{VERSION} {VERSION}\n", run(sys.executable, "-c", asked, env=python, cwd=self.world))
        self.assertEqual(SONAME, soname_of(BUILD / "lib" / "libofframp.so"))
        for program in (name for name in PROGRAMS if (BUILD / "bin" / name).exists()):
            self.assertEqual(f"{program} {VERSION}\n", run(BUILD / "bin" / program, "--version"))
        self.assertRegex(run(ROOT / "launch" / "offramp", "--version"), rf"\Aofframp {re.escape(VERSION)}\b")
        self.assertIn(f"\n## {VERSION} ", (ROOT / "CHANGELOG.md").read_text())

    @unittest.skipIf(MISSING_FOR_WHEEL or MISSING_FOR_DEB, f"skipped: missing: {MISSING_FOR_WHEEL + MISSING_FOR_DEB}")
    def test_packages_have_the_same_bytes_each_time(self):
        made = []
        for name in ("first", "second"):
            run(sys.executable, ROOT / "launch" / "packager", ROOT, BUILD, self.world / name, "wheel", "sdist", "deb")
            run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.world / name)
            made.append((self.world / name / "SHA256SUMS").read_text())
        self.assertEqual(made[0], made[1])
        self.assertEqual(
            [".deb", ".deb", ".gz", ".whl"],
            sorted(pathlib.Path(line.split()[1]).suffix for line in made[0].splitlines()),
        )

    def missing_packages(self, **environment):
        """The packages that CMake's error tells the user to install."""
        command = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(self.world / "build"), *OPTIONS]
        done = subprocess.run(
            command, env={**clean_environment(), **environment}, capture_output=True, text=True, check=False
        )
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        return re.search(r"apt-get install -y --no-install-recommends (.+)", done.stderr)[1].split()

    def test_missing_libraries_are_named(self):
        missing = self.missing_packages(PKG_CONFIG_LIBDIR="/nowhere")
        self.assertIn("libzmq3-dev", missing)
        self.assertNotIn("g++", missing)

    def test_a_missing_compiler_is_named(self):
        for tool in ("cmake", "ninja"):
            (self.world / tool).symlink_to(shutil.which(tool))
        missing = self.missing_packages(PATH=str(self.world), CXX="")
        self.assertEqual("g++", missing[0])
        listed = (ROOT / "launch" / "packages-debian.txt").read_text().split()
        self.assertEqual([], [package for package in missing if package not in listed])
