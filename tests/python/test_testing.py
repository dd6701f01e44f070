"""offramp.testing: a slab as a file holds what was put into it, and a processor over it leaves or says what it would in a run."""

import io
import os
import pathlib
import textwrap
import unittest
from unittest import mock

from world import World, needs_numpy

PROGRAMS = str(pathlib.Path(os.environ["OFFRAMP_LIBRARY"]).resolve().parents[1] / "bin")
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool")


@needs_numpy
class Testing(World):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, {"OFFRAMP_BIN_DIR": PROGRAMS}))
        self.slab = self.folder / "slab.safetensors"

    def written(self, text):
        path = self.folder / "post.py"
        path.write_text(textwrap.dedent(text))
        return path

    def test_each_type_and_shape_comes_back(self):
        import numpy
        from offramp.testing import process, save_slab

        tensors = {f"of-{name}": (numpy.arange(30).reshape(3, 2, 5) % 7).astype(name) for name in DTYPES} | {"flat": numpy.array([1.5, -2, 3])}
        tensors |= {"turned": numpy.arange(60).reshape(3, 4, 5).transpose(0, 2, 1), "slices": numpy.arange(60).reshape(3, 20)[:, ::3]}
        save_slab(self.slab, tensors, ["a", "b/c", "d"], name="mine")
        files = process(self.slab, "npy", self.folder / "results")
        self.assertEqual({f"{key}.{name}.npy" for key in ("a", "b/c", "d") for name in tensors}, set(files))
        for row, key in enumerate(("a", "b/c", "d")):
            for name, tensor in tensors.items():
                read = numpy.load(io.BytesIO(files[f"{key}.{name}.npy"]))
                self.assertEqual((tensor.dtype, tensor.shape[1:]), (read.dtype, read.shape))
                numpy.testing.assert_array_equal(tensor[row], read)

    def test_a_processor_sees_the_slab_of_a_run(self):
        import numpy
        from offramp.testing import process, save_slab

        post = self.written("""
            def see(slab, words):
                assert (slab.name, words) == ("mine", "a,b"), (slab.name, words)
                for sample, values in slab:
                    yield sample, ".txt", f"{sample.item} {sample.row} {values.sum():.0f}".encode()
        """)
        files = process(save_slab(self.slab, {"x": numpy.full((2, 4), 2.0)}, name="mine"), f"{post}:see", self.folder / "results", {"words": "a,b"})
        self.assertEqual({"0.txt": b"0 0 8", "1.txt": b"1 1 8"}, files)

    def test_a_file_that_was_changed_within_the_second_counts_as_it_is(self):
        import numpy
        from offramp.testing import process, save_slab

        save_slab(self.slab, {"x": numpy.zeros((1, 2))})
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)     # until the test's end
        for word in ("old", "new"):
            post = self.written(f'''
                def save(slab):
                    yield slab.samples[0], ".txt", b"{word}"
            ''')
            os.utime(post, (1_000_000_000, 1_000_000_000))
            self.assertEqual({"0.txt": word.encode()}, process(self.slab, f"{post}:save", self.folder / word))
        self.assertEqual({"post.py"}, {path.name for path in self.folder.iterdir() if "py" in path.name}, "nothing is kept beside it")

    def test_what_is_wrong_is_said(self):
        import numpy
        import offramp
        from offramp.testing import process, save_slab

        ones = numpy.ones((2, 3))
        for tensors, keys, words in (({}, None, "without tensors"), ({"x": ones}, ["a"], "1 keys for 2 samples"), ({"x": ones, "y": ones[:1]}, None, "'y' has 1 samples"),
                                     ({"x": ones}, [1, 2], "a key of type int"), ({"x": ones}, ["a", "a"], "the key 'a' names two samples"),
                                     ({"x": ones}, "ab", "keys are one text"),
                                     ({"x": numpy.ma.masked_array(ones)}, None, "a masked array"), ({"x": [1, 2]}, None, "Submit a NumPy array")):
            with self.assertRaisesRegex((offramp.BadArgument, TypeError), words):
                save_slab(self.slab, tensors, keys)
        self.assertFalse(self.slab.exists())
        save_slab(self.slab, {"x": ones})
        post = self.written("""
            import offramp
            def fails(slab): raise ValueError("no pixel")
            def rejects(slab): raise offramp.Reject("no picture")
        """)
        for name, words in (("fails", "ValueError: no pixel"), ("rejects", "no picture"), ("absent", "has no 'absent'")):
            with self.assertRaisesRegex(offramp.Failed, words):
                process(self.slab, f"{post}:{name}", self.folder / "results")
        with mock.patch.dict(os.environ, {"OFFRAMP_BIN_DIR": "/nowhere"}), self.assertRaisesRegex(offramp.Error, "no program offramp-consumer in /nowhere"):
            process(self.slab, f"{post}:fails", self.folder / "results")

    def test_a_source_that_does_not_compile_is_said_in_the_compilers_words(self):
        import offramp
        from offramp.testing import build

        source = self.folder / "mine.c"
        source.write_text("int wrong(")
        with self.assertRaisesRegex(offramp.Error, "mine.c"):
            build(source, self.folder)
        with mock.patch.dict(os.environ, {"CC": "no-compiler"}), self.assertRaisesRegex(offramp.Error, "no-compiler cannot be started"):
            build(source, self.folder)


if __name__ == "__main__":
    unittest.main()
