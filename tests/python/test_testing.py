"""offramp.testing: a saved slab keeps its data, and a processor gives the same results and errors as in a run."""

import ctypes
import importlib.util
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import textwrap
import zlib
from unittest import mock

import offramp
from offramp import _host
from world import DTYPES, World, needs_numpy

PROGRAMS = str(pathlib.Path(os.environ["OFFRAMP_LIBRARY"]).resolve().parents[1] / "bin")


def png(pixels):
    """A PNG of uint8 [height, width, 3]."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


class Host(World):
    """What the host of Python processors reports to the consumer."""

    def refusal(self, **files):
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        reported = []
        host = _host.Host(
            ctypes.sizeof(_host.Host), explain=_host._Explain(lambda _, why: reported.append(why.decode()))
        )
        options = _host.Options(ctypes.sizeof(_host.Options), f"{self.folder}/first.py:save".encode(), only_check=1)
        path, modules = list(sys.path), set(sys.modules)
        try:
            self.assertEqual(
                offramp.BadArgument.code, _host._create(ctypes.pointer(host), ctypes.pointer(options), None)
            )
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                del sys.modules[name]
        return reported

    @needs_numpy
    def test_an_import_that_fails_is_one_line(self):
        self.assertEqual(
            ["first.py:2: import nothing_here: ModuleNotFoundError: No module named 'nothing_here'"],
            self.refusal(first="\nimport nothing_here\n"),
        )
        self.assertEqual(
            ["second.py:1: x = 1 +: SyntaxError: invalid syntax"],
            self.refusal(first="import second\n", second="x = 1 +\n"),
        )
        self.assertEqual(
            ["third.py:1: raise ImportError('two\\nlines'): ImportError: two lines"],
            self.refusal(first="import third\n", third="raise ImportError('two\\nlines')\n"),
        )
        self.assertEqual(
            ["first.py:2: importlib.import_module('nothing'): ModuleNotFoundError: No module named 'nothing'"],
            self.refusal(first="import importlib\nimportlib.import_module('nothing')\n"),
        )
        [reported] = self.refusal(first="1 / 0\n")
        self.assertIn("ZeroDivisionError", reported)
        self.assertNotIn("frozen", reported)

    def test_a_picture_is_to_be_encoded(self):
        class Picture:
            __array_interface__ = None

            def save(self, file, form):
                pass

        with self.assertRaisesRegex(TypeError, r"yielded Picture with .* Encode it: image.save\(buffer, 'PNG'\)"):
            _host._bytes_of("post.py:save", ".png", Picture())


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

        tensors = {f"of-{name}": (numpy.arange(30).reshape(3, 2, 5) % 7).astype(name) for name in DTYPES} | {
            "flat": numpy.array([1.5, -2, 3])
        }
        tensors |= {
            "turned": numpy.arange(60).reshape(3, 4, 5).transpose(0, 2, 1),
            "slices": numpy.arange(60).reshape(3, 20)[:, ::3],
        }
        save_slab(self.slab, tensors, ["a", "b/c", "d"], name="mine")
        files = process(self.slab, "npy", self.folder / "results")
        self.assertEqual({f"{key}.{name}.npy" for key in ("a", "b/c", "d") for name in tensors}, set(files))
        for row, key in enumerate(("a", "b/c", "d")):
            for name, tensor in tensors.items():
                read = numpy.load(io.BytesIO(files[f"{key}.{name}.npy"]))
                self.assertEqual((tensor.dtype, tensor.shape[1:]), (read.dtype, read.shape))
                numpy.testing.assert_array_equal(tensor[row], read)

    def test_samples_of_different_shapes_come_back(self):
        import numpy
        from offramp.testing import process, save_slab

        values = numpy.arange(60, dtype="float32").reshape(12, 5)
        expected = {
            "list": [values[:3], values[:0, :2], values[3:7, ::2]],
            "packed": [values[:5], values[5:5], values[5:]],
            "dense": numpy.arange(6, dtype="int16").reshape(3, 2),
            "deep": [numpy.full((size, 2, size), size, "int8") for size in (1, 0, 3)],
        }
        tensors = {**expected, "packed": offramp.packed(values, [5, 0, 7])}
        save_slab(self.slab, tensors, ["a", "b/c", "d"])
        post = self.written("""
            import io, numpy
            def save(slab):
                for sample, values in slab:
                    for name, array in values.items():
                        file = io.BytesIO()
                        numpy.save(file, array)
                        yield sample, f".{name}.npy", file.getvalue()
        """)
        for processor in ("npy", f"{post}:save"):
            files = process(self.slab, processor, self.folder / processor.rpartition(":")[2])
            self.assertEqual({f"{key}.{name}.npy" for key in ("a", "b/c", "d") for name in tensors}, set(files))
            for row, key in enumerate(("a", "b/c", "d")):
                for name, arrays in expected.items():
                    read = numpy.load(io.BytesIO(files[f"{key}.{name}.npy"]))
                    self.assertEqual((arrays[row].dtype, arrays[row].shape), (read.dtype, read.shape))
                    numpy.testing.assert_array_equal(arrays[row], read)
        data = self.slab.read_bytes()
        header = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])
        self.assertEqual(2, json.loads(header["__metadata__"]["offramp"])["format"])
        self.assertEqual([[27], [12, 5], [3, 2], [20]], [header[name]["shape"] for name in tensors])

    def test_a_function_yields_several_arrays_per_sample(self):
        import numpy
        from offramp.testing import process, save_slab

        boxes, scores = numpy.arange(24, dtype="float32").reshape(2, 3, 4), numpy.arange(6).reshape(2, 3)
        save_slab(self.slab, {"boxes": boxes, "scores": scores}, ["a", "b/c"])
        post = self.written("""
            def save(slab):
                for sample, values in slab:
                    yield sample, values["boxes"].sum(0)
                    yield sample, ".boxes.npy", values["boxes"]
                    yield sample, ".scores.npy", values["scores"]

            def picture(slab):
                yield slab.samples[0], ".png", slab["boxes"][0]

            def twice(slab):
                yield slab.samples[0], ".boxes.npy", slab["boxes"][0]
                yield slab.samples[0], ".boxes.npy", slab["boxes"][0]
        """)
        files = process(self.slab, f"{post}:save", self.folder / "results")
        read = {name: numpy.load(io.BytesIO(data)) for name, data in files.items()}
        expected = {
            f"{key}{ending}": values[row]
            for row, key in enumerate(("a", "b/c"))
            for ending, values in ((".npy", boxes.sum(1)), (".boxes.npy", boxes), (".scores.npy", scores))
        }
        self.assertEqual(set(expected), set(read))
        for name, values in expected.items():
            self.assertEqual(values.dtype, read[name].dtype)
            numpy.testing.assert_array_equal(values, read[name])
        for name, words in (
            ("picture", r"an array with the ending '\.png'. Give one in \.npy, such as '\.scores\.npy'"),
            ("twice", "Give each result of a sample its own ending, such as .scores.npy"),
        ):
            with self.subTest(name), self.assertRaisesRegex(offramp.Failed, words):
                process(self.slab, f"{post}:{name}", self.folder / name)

    def test_each_type_that_a_function_yields_is_read_back_as_numbers(self):
        import numpy
        from offramp.testing import process, save_slab

        post = self.written("""
            def views(slab):
                for sample in slab.samples:
                    for info in slab.tensors:
                        yield sample, slab[info.name][sample.row]

            def of_torch(slab):
                for sample in slab.samples:
                    yield sample, slab.torch(slab.tensors[0].name)[sample.row]
                    yield sample, {"list": slab.torch(slab.tensors[0].name)[sample.row]}
        """)
        for name in DTYPES:
            tensor = (numpy.arange(30).reshape(3, 2, 5) % 7).astype(name)
            files = process(save_slab(self.slab, {"x": tensor}), f"{post}:views", self.folder / name)
            read = numpy.stack([numpy.load(io.BytesIO(files[f"{row}.npy"])) for row in range(3)])
            self.assertEqual(tensor.dtype, read.dtype)
            numpy.testing.assert_array_equal(tensor, read)
        if importlib.util.find_spec("torch") is None:
            self.skipTest("skipped: no PyTorch, which makes bfloat16")
        import torch

        tensor = torch.tensor([[1.0, -2.5], [3e38, 0.1]], dtype=torch.bfloat16)
        save_slab(self.slab, {"x": tensor})
        functions = ["npy", f"{post}:of_torch"] + [f"{post}:views"] * (
            importlib.util.find_spec("ml_dtypes") is not None
        )
        for number, processor in enumerate(functions):
            with self.subTest(processor):
                files = process(self.slab, processor, self.folder / f"bfloat16-{number}")
                read = numpy.stack(
                    [numpy.load(io.BytesIO(files[name])) for name in sorted(files) if name.endswith(".npy")]
                )
                self.assertEqual(numpy.float32, read.dtype)
                numpy.testing.assert_array_equal(tensor.float().numpy(), read)

    def test_a_changed_working_folder_changes_no_path(self):
        """Relative paths in each setting that is a path."""
        import numpy
        from offramp.testing import save_slab

        self.written("""
            import os
            os.chdir("/")
            def save(slab):
                os.chdir("/usr")
                for sample, values in slab:
                    yield sample, ".txt", b"made"
        """)
        (self.folder / "pictures").mkdir()
        (self.folder / "pictures" / "a.png").write_bytes(png(numpy.zeros((2, 4, 3), "uint8")))
        save_slab(self.slab, {"logits": numpy.zeros((1, 2, 2, 4), "float32")}, ["a"])
        done = subprocess.run(
            [
                f"{PROGRAMS}/offramp-consumer",
                "retry",
                self.slab.name,
                "--processor",
                "post.py:save,cut-out,write,npy",
                "--consumer-python",
                sys.executable,
                *"--input pictures --output results --write-path written --trace-dir traces".split(),
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        made = {str(path.relative_to(self.folder)) for path in self.folder.rglob("a.*")}
        self.assertLessEqual(
            {"results/post.py-save/a.txt", "results/cut-out/a.png", "results/npy/a.logits.npy", "written/a.logits.bin"},
            made,
        )

    def test_bytes_without_a_type_are_refused(self):
        import numpy
        from offramp.testing import process, save_slab

        post = self.written("""
            import numpy
            def save(slab, type):
                for sample, values in slab:
                    yield sample, numpy.zeros(3, eval(type))
        """)
        save_slab(self.slab, {"x": numpy.zeros((1, 2))})
        for kind in ("'V2'", "[('a', 'f4'), ('b', 'V2')]", "[('a', 'V2', 3)]"):
            with self.subTest(kind), self.assertRaisesRegex(offramp.Failed, "which has bytes without a type.*astype"):
                process(self.slab, f"{post}:save", self.folder / "results", {"type": kind})
        files = process(self.slab, f"{post}:save", self.folder / "results", {"type": "[('a', 'f4'), ('b', 'u2', 2)]"})
        self.assertEqual([("a", "<f4"), ("b", "<u2", (2,))], numpy.load(io.BytesIO(files["0.npy"])).dtype.descr)

    def test_a_processor_sees_the_slab_of_a_run(self):
        import numpy
        from offramp.testing import process, save_slab

        post = self.written("""
            def see(slab, words):
                assert (slab.name, words) == ("mine", "a,b"), (slab.name, words)
                for sample, values in slab:
                    yield sample, ".txt", f"{sample.item} {sample.row} {values.sum():.0f}".encode()
        """)
        files = process(
            save_slab(self.slab, {"x": numpy.full((2, 4), 2.0)}, name="mine"),
            f"{post}:see",
            self.folder / "results",
            {"words": "a,b"},
        )
        self.assertEqual({"0.txt": b"0 0 8", "1.txt": b"1 1 8"}, files)

    def test_a_file_changed_within_a_second_is_reloaded(self):
        import numpy
        from offramp.testing import process, save_slab

        save_slab(self.slab, {"x": numpy.zeros((1, 2))})
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
            os.environ.pop(name, None)  # until the test's end
        for word in ("old", "new"):
            post = self.written(f'''
                def save(slab):
                    yield slab.samples[0], ".txt", b"{word}"
            ''')
            os.utime(post, (1_000_000_000, 1_000_000_000))
            self.assertEqual({"0.txt": word.encode()}, process(self.slab, f"{post}:save", self.folder / word))
        self.assertEqual(
            {"post.py"},
            {path.name for path in self.folder.iterdir() if "py" in path.name},
            "nothing is written beside it",
        )

    def test_errors_are_reported(self):
        import numpy
        import offramp
        from offramp.testing import process, save_slab

        ones = numpy.ones((2, 3))
        for tensors, keys, words in (
            ({}, None, "has no tensors"),
            ({"x": ones}, ["a"], "1 keys for 2 samples"),
            ({"x": ones, "y": ones[:1]}, None, "'y' has 1 samples"),
            ({"x": ones}, [1.5, 2], "a key is of type float"),
            ({"x": ones}, ["a", "a"], "the key 'a' names two samples"),
            ({"x": ones}, "ab", "keys is a single str"),
            ({"x": numpy.ma.masked_array(ones)}, None, "a masked array"),
            ({"x": [1, 2]}, None, r"'x\[0\]' is of type builtins.int. Submit a NumPy array"),
            ({"x": ones, "y": [ones]}, None, "'y' has 1 samples"),
        ):
            with self.assertRaisesRegex(offramp.BadArgument, words):
                save_slab(self.slab, tensors, keys)
        self.assertFalse(self.slab.exists())
        save_slab(self.slab, {"x": ones})
        post = self.written("""
            import offramp
            def fails(slab): raise ValueError("no pixel")
            def rejects(slab): raise offramp.Reject("no picture")
        """)
        for name, words in (
            ("fails", "ValueError: no pixel"),
            ("rejects", "no picture"),
            ("absent", "has no 'absent'"),
        ):
            with self.assertRaisesRegex(offramp.Failed, words):
                process(self.slab, f"{post}:{name}", self.folder / "results")
        with (
            mock.patch.dict(os.environ, {"OFFRAMP_BIN_DIR": "/nowhere"}),
            self.assertRaisesRegex(offramp.Error, "offramp-consumer was not found in /nowhere"),
        ):
            process(self.slab, f"{post}:fails", self.folder / "results")

    def test_compiler_errors_are_reported(self):
        import offramp
        from offramp.testing import build

        source = self.folder / "mine.c"
        source.write_text("int wrong(")
        with self.assertRaisesRegex(offramp.Error, "mine.c"):
            build(source, self.folder)
        with (
            mock.patch.dict(os.environ, {"CC": "no-compiler"}),
            self.assertRaisesRegex(offramp.Error, "no-compiler cannot be started"),
        ):
            build(source, self.folder)
