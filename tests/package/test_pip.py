"""
Builds the sources with pip, installs them and runs the command. The first time it compiles for minutes; the build is
kept.
"""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

from environments import OWN, link_numpy, run, site_of, unpack
from installed import BUILD, ROOT, Installed, clean_environment

MISSING = [tool for tool in ("pip", "scikit_build_core") if importlib.util.find_spec(tool) is None]


@unittest.skipIf(
    MISSING, f"skipped: {sys.executable} has no {' and no '.join(MISSING)} (launch/requirements-package.txt)"
)
class Pip(unittest.TestCase):
    def test_pip_compiles_the_sources_and_the_command_runs(self):
        world = tempfile.TemporaryDirectory(prefix="offramp-pip-test-", dir="/tmp")
        self.addCleanup(world.cleanup)
        folder, work = pathlib.Path(world.name, "venv"), pathlib.Path(world.name, "work")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        work.mkdir()
        python = folder / "bin" / "python"
        kept = BUILD / "tests" / "package" / "pip"
        options = ("--no-deps", "--no-index", "--no-build-isolation", "--config-settings", f"build-dir={kept}")
        run(
            *(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", world.name, ROOT),
            env=clean_environment(),
            timeout=1200,
        )
        unpack(next(pathlib.Path(world.name).glob("*.whl")), folder)
        link_numpy(OWN, site_of(folder))
        installed = Installed(self, work, python, [folder / "bin" / "offramp"])
        installed.require_one_version()
        installed.require_a_loop_with_consumers(OWN)
