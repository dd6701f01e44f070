"""The package's types: mypy accepts its modules and a user's program, and finds errors in a wrong one."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "launch" / "python"
STRICT = sorted(path.stem for path in (PACKAGE / "offramp").glob("*.py") if path.stem != "__init__")
PROGRAM = """
    import numpy
    import offramp
    from offramp import testing

    with offramp.Egress("run", {"x": ("float32", (2, 3))}, device="cpu") as egress:
        egress.submit({"x": numpy.zeros((2, 3), "float32")}, ["a", "b"])
        egress.drain(timeout=1.0)
        done: int = egress.stats().samples_completed

    def reject(slab: offramp.Slab) -> None:
        raise offramp.Reject("nothing of it")

    mapped: offramp.Stats = offramp.map([(numpy.arange(2), numpy.zeros((2, 3)))], numpy.sin, "npy", output="results")
    with offramp.tap(object(), "npy", output="features", keys=["a", 2], select=0) as tapped:
        folder: str = tapped.run_dir

    for slab in offramp.Consumer("run"):
        for sample, values in slab:
            key: str = sample.key
            if isinstance(values, numpy.ndarray):
                print(key, values.mean(), slab["x"].shape)
        info: offramp.TensorInfo = slab.tensors[0]
        name: str = info.dtype.name
    whole: bool = offramp.Consumer("run").run(reject)
    files: dict[str, bytes] = testing.process("slab.safetensors", "post.py:save", "results")
"""
WRONG = {
    "offramp.Consumer(5)": "arg-type",
    "offramp.Egress('run').submit()": "call-arg",
    "offramp.Egress('run').stats().gone": "attr-defined",
    "offramp.Egress('run').submit(0, [1.5])": "list-item",
    "offramp.map([], 5)": "arg-type",
    "text: str = offramp.Consumer('run').run(reject)": "assignment",
}


@unittest.skipUnless(
    importlib.util.find_spec("mypy") and importlib.util.find_spec("numpy"), "skipped: no mypy, or no NumPy"
)
class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="offramp-types-")))

    def mypy(self, *arguments):
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "mypy",
                "--cache-dir",
                str(self.folder / "cache"),
                "--python-version",
                "3.10",
                *arguments,
            ],
            cwd=self.folder,
            env={**os.environ, "MYPYPATH": str(PACKAGE)},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(text)
        return self.mypy("--strict", "--follow-imports=silent", str(path))

    def test_the_modules(self):
        modules = [argument for name in STRICT for argument in ("-m", f"offramp.{name}")]
        done = self.mypy("--strict", "--follow-imports=silent", "--ignore-missing-imports", *modules)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_a_program_and_its_mistakes(self):
        done = self.program(textwrap.dedent(PROGRAM))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        for line, kind in WRONG.items():
            found = self.program(textwrap.dedent(PROGRAM) + line + "\n").stdout
            self.assertEqual((1, True), (found.count("error:"), f"[{kind}]" in found), found)

    def test_the_package_is_marked_as_typed(self):
        self.assertTrue((PACKAGE / "offramp" / "py.typed").exists())
