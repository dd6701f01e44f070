"""Exports networks with the launch script, as a user would, and runs them on files."""

import importlib.util
import os
import pathlib
import subprocess
import sys

from tests.support.launched_run import ROOT

EXPORT_SECONDS = 1500


def networks_in(folder, text):
    """The module FOLDER/networks.py, made of `text` and imported."""
    source = pathlib.Path(folder, "networks.py")
    source.write_text(text)
    spec = importlib.util.spec_from_file_location("networks", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def export(folder, *words, environment=None):
    """Runs `offramp export` in `folder`, in this very Python. Returns the finished process."""
    settings = {**os.environ, "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"], "OFFRAMP_SKIP_PACKAGES": "1", "OFFRAMP_PYTHON": sys.executable,
                "OFFRAMP_BUILD_DIR": str(pathlib.Path(folder, "build")), **(environment or {})}
    return subprocess.run([str(ROOT / "launch/offramp"), "export", *map(str, words)], cwd=folder, env=settings, capture_output=True, text=True,
                          timeout=EXPORT_SECONDS, check=False)
