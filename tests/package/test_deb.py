"""Unpacks the Debian packages into a folder and runs them from there with a Python that has NumPy."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from environments import run
from installed import BUILD, ROOT, SERIES, VERSION, Installed

TOOLS = ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]


@unittest.skipIf(MISSING, f"skipped: missing tools: {', '.join(MISSING)}")
class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        world = tempfile.TemporaryDirectory(prefix="offramp-deb-test-", dir="/tmp")
        cls.addClassCleanup(world.cleanup)
        cls.world, cls.root = pathlib.Path(world.name), pathlib.Path(world.name, "root")
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", cls.world)
        cls.packages = sorted(cls.world.glob("*.deb"))
        for package in cls.packages:
            run("dpkg-deb", "-x", package, cls.root)

    def installed(self):
        work = tempfile.TemporaryDirectory(prefix="work-", dir=self.world)
        self.addCleanup(work.cleanup)
        # like Debian's Python
        found = {
            "PYTHONPATH": str(self.root / "usr/lib/python3/dist-packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return Installed(
            self, work.name, sys.executable, [sys.executable, "-EsB", self.root / "usr" / "bin" / "offramp"], found
        )

    def field(self, package, name):
        return run("dpkg-deb", "-f", package, name).strip()

    def test_packages_have_one_version_and_their_dependencies(self):
        self.assertEqual(
            [f"offramp-dev_{VERSION}_amd64.deb", f"offramp_{VERSION}_amd64.deb"],
            [package.name for package in self.packages],
        )
        development, runtime = self.packages
        self.assertEqual([VERSION, VERSION], [self.field(package, "Version") for package in self.packages])
        self.assertEqual(f"offramp (= {VERSION})", self.field(development, "Depends"))
        needed = self.field(runtime, "Depends")
        self.assertRegex(needed, r"python3 \(>= 3\.9\).*libzmq5")
        self.assertNotRegex(needed, r"libpq5|libcurl|libtiff|torch|cuda|nvidia")
        self.assertRegex(self.field(runtime, "Recommends"), r"python3-numpy.*libpq5.*libcurl4.*libtiff6")
        config = next(self.root.rglob("offrampConfigVersion.cmake")).read_text()
        self.assertIn(f'set(PACKAGE_VERSION "{VERSION}")', config)
        self.assertIn(f"Version: {VERSION}\n", next(self.root.rglob("offramp.pc")).read_text())

    def test_packages_do_not_refer_to_the_tree(self):
        for path in self.root.rglob("*"):
            if path.is_symlink():
                self.assertFalse(os.path.isabs(os.readlink(path)), path)
                self.assertTrue(path.exists(), f"{path} leads nowhere")
            elif path.is_file():
                self.assertNotRegex(path.read_bytes(), re.escape(os.fsencode(ROOT)) + b"/", path)

    def test_the_command_and_the_package_run_from_there(self):
        installed = self.installed()
        installed.require_one_version()
        installed.require_consumers_of_all_kinds(sys.version_info[1])
        installed.require_a_custom_consumer()
        installed.require_a_loop_with_consumers(sys.version_info[1])
        installed.require_a_refused_demo_leaves_nothing()
        installed.require_the_demo(next(self.root.rglob("numpy_demo")))

    def test_a_program_is_built_with_the_development_package(self):
        """Built outside the source tree: find_package() finds the unpacked package."""
        source = self.world / "project"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(own C)\nfind_package(offramp {SERIES} REQUIRED)\n"
            "add_executable(own own.c)\ntarget_link_libraries(own offramp::offramp)\n"
        )
        (source / "own.c").write_text(
            "#include <offramp.h>\n#include <stdio.h>\nint main(void) { return puts(offramp_version()) < 0; }\n"
        )
        run("cmake", "-G", "Ninja", "-S", source, "-B", self.world / "built", f"-DCMAKE_PREFIX_PATH={self.root}/usr")
        run("cmake", "--build", self.world / "built")
        self.assertEqual(f"{VERSION}\n", run(self.world / "built" / "own"))

    def test_an_older_standard_is_refused_with_the_reason(self):
        command = ["c++", "-fsyntax-only", "-x", "c++", f"-I{self.root}/usr/include", "-"]
        for header, standard, reason in (
            ("offramp/egress.hpp", 17, "Offramp's C++ headers need C++20"),
            ("offramp/consumer.hpp", 17, "Offramp's C++ headers need C++20"),
            ("offramp/consumer.hpp", 20, ""),
            ("offramp.h", 11, ""),
        ):
            done = subprocess.run(
                [*command, f"-std=c++{standard}"],
                input=f"#include <{header}>\n",
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(not reason, done.returncode == 0, done.stderr)
            self.assertIn(reason, done.stderr)

    @unittest.skipUnless(shutil.which("lintian"), "skipped: no lintian here")
    def test_lintian_finds_no_error(self):
        done = subprocess.run(
            ["lintian", "--fail-on", "error", *self.packages], capture_output=True, text=True, check=False
        )
        self.assertEqual([], re.findall(r"^E: .*", done.stdout, re.MULTILINE))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
