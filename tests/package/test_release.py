"""One version everywhere."""

import pathlib
import re
import sys
import tempfile
import unittest

from environments import run
from installed import BUILD, ROOT, SONAME, VERSION, clean_environment, soname_of

PROGRAMS = ("offramp-consumer", "offramp-producer")


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


if __name__ == "__main__":
    unittest.main()
