"""Exports networks with the launch script, as a user would, and runs them on files."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.support.device import DEVICE
from tests.support.launched_run import ROOT, LaunchedRun
from tests.support.real_run import LeavesNothing

EXPORT_SECONDS = 1500
# Shared by all exports of a test: facts about a Python, and PyTorch's compiled modules.
BUILD = tempfile.TemporaryDirectory(prefix="offramp-exports-")
# PyTorch compiles and loads a test program per set of vector instructions, half of a small network's export time.
# Without them it writes plain C++, which is just as valid for tests. So is unoptimized code around the kernels.
PLAIN = {"TORCHINDUCTOR_VEC_ISA_OK": "0", "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0"}


def networks_in(folder, text):
    """Writes `text` to FOLDER/networks.py and imports the module."""
    source = pathlib.Path(folder, "networks.py")
    source.write_text(text)
    spec = importlib.util.spec_from_file_location("networks", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folder_of_class(tests, name):
    """A folder for all tests of a class, removed after the last one."""
    kept = tempfile.TemporaryDirectory(prefix=f"offramp-{name}-")
    tests.addClassCleanup(kept.cleanup)
    return pathlib.Path(kept.name)


class ModelRuns(LeavesNothing):
    """Runs of networks that are saved in one folder, over the images in its folder `images`."""

    source = ""  # of the module `networks`
    flags = ()  # of each run

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = folder_of_class(cls, "models")
        cls.networks = networks_in(cls.folder, cls.source)
        cls.images = cls.folder / "images"
        cls.images.mkdir()

    @classmethod
    def saved(cls, network, name, notes=""):
        """Saves TorchScript as `name`, and its notes beside it. Returns the name."""
        import torch

        torch.jit.script(network.eval()).save(str(cls.folder / name))
        (cls.folder / name).with_suffix(".toml").write_text(notes)
        return name

    def launched(self, model, *flags, images=None):
        """A run that has not started."""
        named = ("--model", str(self.folder / model), "--input", str(images or self.images), "--device", DEVICE)
        return LaunchedRun(*named, *self.flags, *flags)

    def run_of(self, model, *flags, **more):
        """(exit code, all output, {file: bytes}) of a run."""
        with self.launched(model, *flags, **more) as run:
            files = ("--write-path", str(run.output)) if "write" in flags else ()
            return run.start(*files).wait(), run.logs(), run.files()


def exported(folder, *words):
    """Exports a package into `folder`; `words` as for export(), without --output."""
    package = pathlib.Path(folder, "exported.pt2")
    done = export(folder, *words, "--output", package.name)
    assert done.returncode == 0, done.stdout + done.stderr
    return package


def export(folder, *words, environment=PLAIN):
    """Runs `offramp export` in `folder`, in this very Python. Returns the finished process."""
    settings = {
        **os.environ,
        "OFFRAMP_BIN_DIR": os.environ["OFFRAMP_TEST_BIN"],
        "OFFRAMP_SKIP_PACKAGES": "1",
        "OFFRAMP_PYTHON": sys.executable,
        "OFFRAMP_BUILD_DIR": BUILD.name,
        **environment,
    }
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [str(ROOT / "launch/offramp"), "export", *map(str, words)],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=EXPORT_SECONDS,
        check=False,
    )
