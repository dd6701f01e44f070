"""offramp.ray.Writer without Ray, as an actor calls it: refused, failed and changed batches, keys, refusals."""

import asyncio
import importlib.util
import os
import pathlib
import re
import unittest

import offramp
from loops import results
from offramp._ray_writer import Writer, merge
from world import World, needs_numpy

# The sample "late" waits while the test has a gate for it.
POST = """
import os, pathlib, time

def save(slab):
    for sample, values in slab:
        while sample.key == "late" and os.path.exists(f"{os.environ['GATES']}/late"):
            time.sleep(0.01)
        if values.min() < 0:
            raise ValueError(f"{sample.key} is wrong")
        yield sample, ".bin", values.tobytes()
"""
LAUNCHER = pathlib.Path(__file__).resolve().parents[2] / "launch/offramp"
PROCESSOR = "post.py:save"


@needs_numpy
class Writers(World):
    def setUp(self):
        super().setUp()
        (self.folder / "post.py").write_text(POST)
        self.output = self.folder / "out"
        self.processor = f"{self.folder}/{PROCESSOR}"
        os.environ["GATES"] = str(self.folder)
        self.addCleanup(os.environ.pop, "GATES")

    def writer(self, **options):
        writer = Writer(self.output, self.processor, consumers=1, **{"samples_per_slab": 2, **options})
        self.addCleanup(writer._egress.close)
        return writer

    @staticmethod
    def batch(keys, value=1.0):
        import numpy

        return {"key": keys, "values": numpy.full((len(keys), 3), value, "float32")}

    def files(self):
        return {name.rpartition("/")[2] for name in results(self.output) if name.endswith(".bin")}

    def test_batches_after_a_refused_one_are_written(self):
        writer = self.writer(max_key_bytes=16)

        async def run():
            await writer(self.batch(["a", "b"]))
            for _ in range(2):
                with self.assertRaisesRegex(offramp.BadArgument, "key"):
                    await writer(self.batch(["c", "d" * 64]))
                await writer(self.batch(["e", "f"]))

        asyncio.run(run())
        self.assertEqual({f"{key}.bin" for key in "abef"}, self.files())

    def test_a_key_twice_in_a_batch_is_refused_and_again_in_a_later_one_is_not(self):
        writer = self.writer()

        async def run():
            with self.assertRaisesRegex(offramp.BadArgument, "'a' names two samples"):
                await writer(self.batch(["a", "a"]))
            for _ in range(2):
                await writer(self.batch(["a", "b"]))

        asyncio.run(run())
        self.assertEqual({"a.bin", "b.bin"}, self.files())

    def test_each_failed_batch_has_its_own_reason(self):
        writer = self.writer()

        async def run():
            for key in ("first", "second"):
                with self.assertRaisesRegex(
                    offramp.ConsumersFailed, f"key '{key}' has no results.*ValueError: {key} is.*node: {LAUNCHER} dead"
                ):
                    await writer(self.batch([key], -1.0))

        asyncio.run(run())

    def test_a_column_of_keys_is_returned_unchanged(self):
        import numpy

        numbers = numpy.arange(3)
        done = asyncio.run(self.writer()(self.batch(numbers)))
        self.assertIs(numbers, done["key"])
        self.assertEqual({"0.bin", "1.bin", "2.bin"}, self.files())

    @unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch")
    def test_a_missing_column_of_keys_is_named(self):
        with self.assertRaisesRegex(offramp.BadArgument, "keys='nam' is no column of the batch, which has key, values"):
            asyncio.run(self.writer(keys="nam")(self.batch(["a"])))

    def test_only_the_changed_batch_fails(self):
        import torch

        changed = torch.ones(2, 3)
        writer = self.writer(model=lambda batch: changed if "a" in batch["key"] else torch.ones(2, 3), slabs=1)
        (self.folder / "late").touch()

        async def run():
            before = asyncio.ensure_future(writer(self.batch(["late", "before"])))
            await asyncio.sleep(0)  # it is submitted, and will have the only slab
            first = asyncio.ensure_future(writer(self.batch(["a", "b"])))
            await asyncio.sleep(0)
            changed.add_(1)
            second = asyncio.ensure_future(writer(self.batch(["c", "d"])))
            await asyncio.sleep(0)
            (self.folder / "late").unlink()
            return await asyncio.gather(before, first, second, return_exceptions=True)

        before, first, second = asyncio.run(run())
        self.assertEqual({"key": ["late", "before"]}, before)
        self.assertIsInstance(first, offramp.TensorChanged)
        self.assertEqual({"key": ["c", "d"]}, second)


class Refusals(World):
    def test_refusals(self):
        output = self.folder / "out"
        for options in ({"resume": True}, {"when_full": "drop"}):
            with self.assertRaisesRegex(offramp.BadArgument, f"{next(iter(options))} is given"):
                Writer(output, "npy", **options)
        with self.assertRaisesRegex(offramp.BadArgument, "object store"):
            Writer("s3://bucket/out", "npy")

    def test_a_driver_refuses_what_its_actors_would(self):
        output = self.folder / "out"
        for processor, options, message in (
            (None, {}, "output is given without a processor"),
            ("post.py:save", {}, f"'post.py:save' needs a file that does not exist: {os.getcwd()}/post.py"),
            ("npy", {"resume": True}, "resume is given, which a writer of Ray does not take"),
            ("npy", {"keys": 7}, "keys is 7. Give the name of a column"),
            ("npy", {"model": "Model"}, "model is 'Model'. Give a function"),
            ("npy", {"metadata": {}}, "metadata is {}. Give a function"),
            ("npy", {"consumers": 65}, "consumers is 65. Give 1 to 64"),
            ("npy", {"settings": "fast"}, "settings is of type str. Give a mapping"),
            ("npy", {"slab": 4}, "slab is not an argument of offramp.ray.Writer"),
            ("npy", {"slabs": "four"}, "slabs is 'four'. Give a whole number"),
            ("npy", {"device": "gpu"}, "the device 'gpu' is not supported"),
        ):
            for check in (Writer.arguments, Writer):
                with self.subTest(message, check=check):
                    with self.assertRaisesRegex(offramp.BadArgument, re.escape(message)):
                        check(output, processor, **options)
        self.assertFalse(output.exists())
        output.mkdir()
        (output / ".offramp-shards").mkdir()
        (output / ".offramp-shards" / "job.json").write_text('{"ranks": 2}')
        with self.assertRaisesRegex(offramp.BadArgument, "has other work: .*ranks was 2 and is 0"):
            Writer.arguments(output, "npy")
        given = {"keys": "name", "model": len, "consumers": 2, "slabs": 4}
        self.assertEqual(
            {"output": f"{self.folder}/new", "processor": "npy", **given},
            Writer.arguments(os.path.relpath(self.folder / "new"), "npy", **given),
        )

    def test_merge_creates_nothing_in_another_folder(self):
        output = self.folder / "out"
        for _ in range(2):
            with self.assertRaisesRegex(offramp.BadArgument, "no writer of Ray"):
                merge(output, "npy")
            self.assertEqual([], sorted(output.rglob("*")))
            output.mkdir(exist_ok=True)


if __name__ == "__main__":
    unittest.main()
