"""offramp.ray.Writer with the real package, on the CPU: a killed actor and failed samples."""

import importlib.util
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

from loops import results
from world import ROOT, World

# A Python with Ray: this one, unless the variable names another.
PYTHON = os.environ.get("OFFRAMP_TEST_RAY_PYTHON") or (sys.executable if importlib.util.find_spec("ray") else None)
SAMPLES = 12
RAY_SECONDS = 600  # Ray's start, actors that import everything, and a merge, on a slow host
POST = """
import os, time

def save(slab):
    for sample, values in slab:
        while os.path.exists(f"{os.environ['FOLDER']}/gate-{sample.key}"):
            time.sleep(0.01)
        if sample.key == os.environ["WRONG"]:
            raise ValueError("no good")
        yield sample, ".bin", values.tobytes()
        yield sample, {"sum": float(values.sum())}
"""
# Arguments: the output, the processor.
DRIVER = """
import os, pathlib, signal, sys, time
import numpy, ray, ray.data, offramp.ray

output, processor = sys.argv[1:]

class Model:
    def __call__(self, batch):
        folder, number = pathlib.Path(os.environ["FOLDER"]), int(batch["id"][0])
        if number == 10 and (folder / "gate-8").exists():  # 6 is done, 8 is in flight
            while not list(pathlib.Path(output).rglob("6.bin")):
                time.sleep(0.01)
            os.rename(folder / "gate-8", folder / "died")
            os.kill(os.getpid(), signal.SIGKILL)
        return {"values": numpy.repeat(batch["id"][:, None], 3, axis=1).astype("float32")}

ray.init(num_cpus=2, object_store_memory=80 << 20, include_dashboard=False)
writer = offramp.ray.Writer.arguments(output, processor, keys="id", model=Model, samples_per_slab=2, slabs=4)
numbers = ray.data.range(12, override_num_blocks=2)
done = numbers.map_batches(offramp.ray.Writer, fn_constructor_kwargs=writer, batch_size=2, concurrency=1)
print(sorted(row["id"] for row in done.iter_rows()))
offramp.ray.merge(output, processor)
"""


@unittest.skipUnless(PYTHON, "skipped: no Ray in this Python, and OFFRAMP_TEST_RAY_PYTHON names none")
class Ray(World):
    def setUp(self):
        super().setUp()
        (self.folder / "post.py").write_text(POST)
        self.output = self.folder / "out"
        self.driver = ["-c", DRIVER, self.output, f"{self.folder}/post.py:save,embeddings-sqlite"]

    def drive(self, *program, wrong=""):
        """The exit code and output of a program."""
        sockets = tempfile.mkdtemp(prefix="oray-", dir="/tmp")  # short, because sockets are in it
        self.addCleanup(shutil.rmtree, sockets, ignore_errors=True)
        ray = {"RAY_TMPDIR": sockets, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        done = subprocess.run(
            [PYTHON, *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=RAY_SECONDS,
            env={**os.environ, **ray, "FOLDER": str(self.folder), "WRONG": wrong},
        )
        return done.returncode, done.stdout

    def test_a_killed_actors_batches_are_written_by_the_next(self):
        (self.folder / "gate-8").touch()
        code, printed = self.drive(*self.driver)
        self.assertEqual(0, code, printed)
        self.assertTrue((self.folder / "died").exists(), printed)
        keys = [str(number) for number in range(SAMPLES)]
        self.assertIn(str(list(range(SAMPLES))), printed)
        found = results(self.output)
        for key in keys:
            self.assertEqual(12, len(found[f"post.py-save/{key}.bin"]))
        records = [json.loads(line) for line in found["post.py-save/records.jsonl"].splitlines()]
        self.assertEqual(set(keys), {record["key"] for record in records})
        with sqlite3.connect(self.output / "embeddings-sqlite" / "embeddings.sqlite") as table:
            rows = table.execute("SELECT key FROM embeddings").fetchall()
        table.close()
        self.assertEqual(sorted(keys), sorted(key for (key,) in rows))

    def test_a_batch_without_results_fails_with_the_reason(self):
        code, printed = self.drive(*self.driver, wrong="3")
        self.assertEqual(1, code, printed)
        self.assertRegex(
            printed, r"the batch with the key '2' has no results, since .*ValueError: no good \(post.py:9\)"
        )

    def test_the_example_writes_a_mask_per_picture(self):
        if subprocess.run([PYTHON, "-c", "import PIL, torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("Ray's Python has no Pillow and PyTorch")
        pictures = self.folder / "pictures"
        pictures.mkdir()
        for number in range(3):
            header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + 48, 0, 0, 54, 40, 4, 4, 1, 24, 0, 48, 0, 0, 0, 0)
            (pictures / f"{number}.bmp").write_bytes(header + bytes([200, 200, 80 * number]) * 16)
        code, printed = self.drive(ROOT / "tests/examples/ray_writer.py", pictures, self.output)
        self.assertEqual(0, code, printed)
        self.assertIn(f"3 masks are in {self.output}", printed)
        self.assertEqual(3, sum(name.endswith(".png") for name in results(self.output)))


if __name__ == "__main__":
    unittest.main()
