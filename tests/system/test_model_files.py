"""
Models from files: any outputs, with PyTorch's types, shapes and values; files that are not models are refused by name.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

import numpy
from PIL import Image

from tests.support.device import DEVICE, ON_GPU, setUpModule  # noqa: F401
from tests.support.exported_model import PLAIN, ModelRuns, export, networks_in
from tests.support.launched_run import find_packages_of_launch

HEIGHT, WIDTH = 24, 40
IMAGES = 7
# BGR, with a separate mean and deviation per channel in that order.
MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.4, 0.25)

NETWORKS = """
import typing

import torch


class Several(torch.nn.Module):
    '''Outputs of several types and ranks.'''

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x):
        y = self.layer(x)
        return {"scores": y, "half": y.mean((2, 3)).half(), "classes": (y.argmax(1).to(torch.uint8), y.flatten(1).argmax(1)),
                "bright": x.mean((1, 2, 3)) > 0}


class InARow(torch.nn.Module):
    '''The same without names.'''

    def __init__(self):
        super().__init__()
        self.several = several()

    def forward(self, x):
        return tuple(self.several(x).values())


class Vector(torch.nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layer = torch.nn.Linear(3, width)

    def forward(self, x):
        return self.layer(x.mean((2, 3)))


class Two(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class Answer(typing.NamedTuple):
    part: torch.Tensor
    best: typing.Any


class Named(torch.nn.Module):
    '''Fields for names; the part keeps the strides of what it is cut from.'''

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, x):
        y = self.layer(x)
        return Answer(torch.softmax(y, 1)[:, 1:2], torch.max(y, 1))


class OfNothing(torch.nn.Module):
    def forward(self, x):
        return x.mean()


class Growing(torch.nn.Module):
    '''As many rows of its picture as are bright: another shape for another picture.'''

    def forward(self, x):
        return x[:, :, : int((x.mean((0, 1, 3)) > -0.2).sum()) + 1, :]


def several():
    torch.manual_seed(3)
    return Several()


class Detector(torch.nn.Module):
    def forward(self, pictures):
        return [{"boxes": pictures.new_zeros(3, 4)} for _ in pictures]


def detector():
    return Detector()


def vector(width=6):
    torch.manual_seed(4)
    return Vector(width)


def named():
    torch.manual_seed(5)
    return Named()


def from_a_pickle():
    return torch.load("vector.pth", weights_only=False)


def two():
    return Two()


def of_nothing():
    return OfNothing()


class Branching(torch.nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            return x
        return -x


def branching():
    return Branching()


def no_network():
    return 7


def dying():
    import os
    import signal
    os.kill(os.getpid(), signal.SIGKILL)
"""
# A compiler that finds libstdc++'s archive, but not libstdc++.so.
STATIC_COMPILER = """#!/bin/sh
for word; do [ "$word" = -shared ] && exec g++ "$@" -static-libstdc++; done
exec g++ "$@"
"""
DTYPES = {"half": numpy.float16, "classes.0": numpy.uint8, "classes.1": numpy.int64, "bright": numpy.bool_}


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class ModelFiles(ModelRuns):
    source = NETWORKS
    flags = ("--consumers", "1")

    @classmethod
    def setUpClass(cls):
        import torch

        super().setUpClass()
        random = numpy.random.default_rng(5)
        for index in range(IMAGES):
            Image.fromarray(random.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=numpy.uint8)).save(
                cls.images / f"{index}.png"
            )
        pixels = numpy.stack([numpy.array(Image.open(path)) for path in sorted(cls.images.iterdir())])
        bgr = torch.from_numpy(pixels[..., ::-1].copy()).float() / 255
        cls.input = ((bgr - torch.tensor(MEAN)) / torch.tensor(STD)).permute(0, 3, 1, 2).contiguous()

        printed = export(
            cls.folder,
            *"networks.py:several --batch any --image-size".split(),
            f"{HEIGHT}x{WIDTH}",
            "--device",
            DEVICE,
            *"--colour-order bgr --mean 0.1,0.2,0.3 --std 0.5,0.4,0.25 --output several.pt2".split(),
        )
        assert printed.returncode == 0, printed.stdout + printed.stderr
        cls.printed = printed.stdout

    def refused(self, code, *words, model, flags=()):
        found, printed, _ = self.run_of(model, "--processor", "none", *flags)
        self.assertEqual(found, code, printed)
        for word in words:
            self.assertIn(word, printed)

    def check_outputs(self, files, wanted):
        self.assertEqual(len(files), IMAGES * len(wanted), sorted(files))
        for name, tensor in wanted.items():
            for row in range(IMAGES):
                found = numpy.frombuffer(files[f"{row}.{name}.bin"], DTYPES.get(name, numpy.float32)).reshape(
                    tensor.shape[1:]
                )
                if found.dtype.kind == "f":
                    numpy.testing.assert_allclose(
                        found, tensor[row], rtol=2e-3 if found.dtype == numpy.float16 else 1e-4, atol=1e-4
                    )
                else:
                    numpy.testing.assert_array_equal(found, tensor[row])

    def wanted_of_several(self):
        import torch

        with torch.inference_mode():
            answer = self.networks.several()(self.input)
        (classes, place), rest = answer.pop("classes"), answer
        return {name: tensor.numpy() for name, tensor in {**rest, "classes.0": classes, "classes.1": place}.items()}

    def test_a_package_of_many_outputs(self):
        for batch in ("2", "5"):
            code, printed, files = self.run_of("several.pt2", "--processor", "write", "--batch", batch)
            self.assertEqual(code, 0, printed)
            self.check_outputs(files, self.wanted_of_several())
        self.assertIn("scores float32 [5, 5, 24, 40]", printed)

    def test_random_weights_are_reported(self):
        (self.folder / "random.pt2").write_bytes((self.folder / "several.pt2").read_bytes())
        notes = (self.folder / "several.toml").read_text()
        for text, warns in ((notes, False), (notes + "random-weights = true\n", True)):
            (self.folder / "random.toml").write_text(text)
            code, printed, _ = self.run_of("random.pt2", "--processor", "none")
            self.assertEqual(code, 0, printed)
            self.assertEqual(
                "the weights are random: the outputs mean nothing. Export the model with --weights FILE" in printed,
                warns,
                printed,
            )

    def test_torchscript_reports_once_that_it_is_deprecated(self):
        import torch

        torch.jit.trace(self.networks.InARow().eval(), self.input[:2]).save(str(self.folder / "old.pt"))
        (self.folder / "old.toml").write_text((self.folder / "several.toml").read_text())
        code, printed, files = self.run_of("old.pt", "--processor", "write", "--batch", "3")
        self.assertEqual(code, 0, printed)
        self.assertEqual(printed.split("--- producer.log")[1].count("TorchScript is deprecated"), 1, printed)
        self.check_outputs(files, self.wanted_of_several())

    def test_masks_need_an_output_of_classes(self):
        import torch

        torch.jit.trace(self.networks.vector().eval(), self.input[:2]).save(str(self.folder / "vector.pt"))
        code, printed, _ = self.run_of("vector.pt", "--processor", "mask-png", "--batch", "2", "--image-size", "32")
        self.assertEqual(code, 64, printed)
        self.assertIn("--processor mask-png cannot read any output of the model", printed)
        self.assertIn("output float32 [2, 6]", printed)
        self.assertIn("expected class ids", printed)

    def test_a_model_that_became_another_is_not_continued(self):
        notes = self.folder / "again.toml"
        (self.folder / "again.pt2").write_bytes((self.folder / "several.pt2").read_bytes())
        notes.write_text((self.folder / "several.toml").read_text())
        with self.launched("again.pt2", *"--batch 2 --processor mask-png".split()) as run:
            self.assertEqual(run.start("--limit", "2").wait(), 0, run.logs())
            notes.write_text(notes.read_text().replace("0.1, 0.2", "0.1, 0.25"))
            self.assertEqual(run.start("--limit", "2", "--resume").wait(), 64, run.logs())
            self.assertIn("model's notes", run.logs())

    def test_no_model_at_all(self):
        (self.folder / "text.pt2").write_text("no model")
        self.refused(65, "text.pt2' is not a model", "offramp export", model="text.pt2")
        with zipfile.ZipFile(self.folder / "zip.pt2", "w") as package:
            package.writestr("something", "else")
        self.refused(65, "zip.pt2' holds no compiled model", model="zip.pt2")
        (self.folder / "text.pt").write_text("no model")
        self.refused(65, "text.pt' is not TorchScript", model="text.pt")
        self.refused(66, "none.pt2' does not exist", model="none.pt2")

    def test_weights_alone_are_no_model(self):
        import torch

        torch.save(self.networks.several().state_dict(), self.folder / "weights.pt")
        self.refused(
            65,
            "weights.pt' is not TorchScript",
            "For weights alone, run ./launch/offramp export FILE.py:FUNCTION --weights ",
            model="weights.pt",
        )

    def test_an_exported_program_must_be_compiled(self):
        import torch

        program = torch.export.export(self.networks.vector().eval(), (self.input[:2],))
        torch.export.save(program, self.folder / "program.pt2")
        self.refused(
            65,
            "program.pt2' holds no compiled model",
            "Compile what torch.export.save wrote: ./launch/offramp export ",
            "program.pt2 --output compiled.pt2",
            model="program.pt2",
        )
        # The advice of the message works, with the batch and the size of the program.
        done = export(
            self.folder,
            "program.pt2",
            "--device",
            DEVICE,
            *"--colour-order bgr --mean 0.1,0.2,0.3 --std 0.5,0.4,0.25 --output compiled.pt2".split(),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        code, printed, files = self.run_of("compiled.pt2", "--processor", "write")
        self.assertEqual(code, 0, printed)
        self.check_outputs(files, {"output": self.networks.vector()(self.input).detach().numpy()})

    def test_named_fields_are_names_and_strides_of_one_element_do_not_count(self):
        import torch

        done = export(
            self.folder,
            *"networks.py:named --batch 1 --image-size".split(),
            f"{HEIGHT}x{WIDTH}",
            "--device",
            DEVICE,
            *"--colour-order bgr --mean 0.1,0.2,0.3 --std 0.5,0.4,0.25 --output named.pt2".split(),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('outputs = "part,best.values,best.indices"', (self.folder / "named.toml").read_text())
        code, printed, files = self.run_of("named.pt2", "--processor", "write")
        self.assertEqual(code, 0, printed)
        with torch.inference_mode():
            part, best = self.networks.named()(self.input)
        wanted = {"part": part.contiguous(), "best.values": best.values}
        self.assertEqual(len(files), 3 * IMAGES, sorted(files))
        self.check_outputs(
            {name: content for name, content in files.items() if "indices" not in name},
            {name: tensor.numpy() for name, tensor in wanted.items()},
        )

    def rewritten(self, name, change):
        """A copy of the package whose files have the bytes that change(path, bytes) returns."""
        with (
            zipfile.ZipFile(self.folder / "several.pt2") as old,
            zipfile.ZipFile(self.folder / name, "w", zipfile.ZIP_STORED) as new,
        ):
            for path in old.namelist():
                new.writestr(path, change(path, old.read(path)))
        return name

    def with_metadata(self, name, **values):
        return self.rewritten(
            name, lambda path, was: json.dumps({**json.loads(was), **values}) if path.endswith("metadata.json") else was
        )

    @unittest.skipIf(ON_GPU, "needs a run on the CPU, for which a GPU is another device")
    def test_a_package_for_another_device(self):
        gpu = self.with_metadata("gpu.pt2", AOTI_DEVICE_KEY="cuda", AOTI_COMPUTE_CAPABILITY="90")
        self.refused(83, "gpu.pt2' was compiled for cuda, and this run is on cpu", "--device cpu", model=gpu)
        arm = self.with_metadata("arm.pt2", AOTI_MACHINE="aarch64")
        self.refused(83, "compiled for a processor of type aarch64", model=arm)

    @unittest.skipUnless(ON_GPU, "skipped: no GPU whose architecture could be another")
    def test_a_package_for_another_gpu(self):
        import torch

        major, minor = torch.cuda.get_device_capability()
        here = f"and this run is on one of {major}.{minor}"
        for made, shown in (
            (10 * (major - 1), f"{major - 1}.0"),
            (10 * (major + 1), f"{major + 1}.0"),
            (10 * major + minor + 1, f"{major}.{minor + 1}"),
        ):
            other = self.with_metadata("other.pt2", AOTI_COMPUTE_CAPABILITY=str(made))
            self.refused(83, f"other.pt2' was compiled for a GPU of compute capability {shown}", here, model=other)
        cpu = self.with_metadata("cpu.pt2", AOTI_DEVICE_KEY="cpu")
        self.refused(83, "cpu.pt2' was compiled for cpu, and this run is on cuda", "--device cuda", model=cpu)

    def test_a_package_of_another_libtorch(self):
        code = self.folder / "other.cpp"
        code.write_text(
            'extern "C" int aoti_torch_of_the_future(); extern "C" int offramp_test() { return aoti_torch_of_the_future(); }\n'
        )
        subprocess.run(["g++", "-shared", "-fPIC", "-o", str(self.folder / "other.so"), str(code)], check=True)
        library = (self.folder / "other.so").read_bytes()
        future = self.rewritten(
            "future.pt2",
            lambda path, was: (
                library
                if path.endswith(".so")
                else json.dumps({**json.loads(was), "torch": "9.9"})
                if path.endswith("metadata.json")
                else was
            ),
        )
        self.refused(
            83,
            "future.pt2', made by PyTorch 9.9, does not load with LibTorch",
            "aoti_torch_of_the_future",
            model=future,
        )

    def test_inputs_that_do_not_fit_name_the_fix(self):
        self.refused(
            64, "expected: 24, but got: 32", "Use --image-size 24", model="several.pt2", flags=("--image-size", "32")
        )
        fixed = self.folder / "fixed.toml"
        (self.folder / "fixed.pt2").write_bytes((self.folder / "several.pt2").read_bytes())
        fixed.write_text((self.folder / "several.toml").read_text() + "batch = 3\n")
        self.refused(
            64,
            "--batch 2 does not go with --model",
            "batches of 3 only",
            "Use --batch 3",
            model="fixed.pt2",
            flags=("--batch", "2"),
        )
        fixed.write_text((self.folder / "several.toml").read_text().replace("scores,", ""))
        self.refused(78, "names 4 outputs", "gives 5", model="fixed.pt2")
        self.refused(
            64, "--precision bf16 does not go with --model", model="several.pt2", flags=("--precision", "bf16")
        )
        fixed.write_text("crop = 20\n")
        self.refused(78, "fixed.toml:1: 'crop' is not a key of a model", model="fixed.pt2")

    def test_a_batch_size_that_the_code_refuses_is_named_with_valid_ones(self):
        import torch

        batch = torch.export.Dim("batch", min=2, max=64)
        device = "cuda" if ON_GPU else "cpu"
        program = torch.export.export(
            self.networks.vector().eval().to(device), (self.input[:4].to(device),), dynamic_shapes=({0: batch},)
        )
        torch._inductor.aoti_compile_and_package(program, package_path=str(self.folder / "pairs.pt2"))
        lines = (self.folder / "several.toml").read_text().splitlines(keepends=True)
        (self.folder / "pairs.toml").write_text("".join(line for line in lines if not line.startswith("outputs")))
        self.refused(
            64,
            "--batch 1 does not go with --model",
            "which takes 2 or more rows per call",
            "Use --batch 2 or more",
            model="pairs.pt2",
            flags=("--batch", "1"),
        )

    def test_networks_that_do_not_fit(self):
        import torch

        torch.jit.script(self.networks.two()).save(str(self.folder / "two.pt"))
        self.refused(78, "takes 2 inputs", "has no tables [[input]]", model="two.pt")
        torch.jit.script(self.networks.of_nothing()).save(str(self.folder / "nothing.pt"))
        self.refused(
            65, "the output 'output'", "[], is not a batch of 4 samples", model="nothing.pt", flags=("--batch", "4")
        )
        torch.jit.script(self.networks.Growing()).save(str(self.folder / "growing.pt"))
        self.refused(
            65,
            "where the first batch's was output float32",
            "same shape for every input",
            model="growing.pt",
            flags=("--image-size", "32", "--batch", "4"),
        )


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: no PyTorch in this Python")
class Export(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="offramp-export-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        (self.folder / "networks.py").write_text(NETWORKS)

    def refused(self, code, *words, of, flags=(), environment=PLAIN):
        done = export(self.folder, of, "--device", "cpu", *flags, environment=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*.pt2")], [])
        self.assertEqual([path.name for path in self.folder.glob(".*")], [])
        return done.stderr

    def test_invalid_names_of_networks(self):
        self.refused(64, "'networks.py' does not name a network", "FILE.py:FUNCTION", of="networks.py")
        self.refused(66, "the file 'nowhere.py' does not exist", of="nowhere.py:several")
        self.refused(66, "cannot be imported", of="nowhere:several")
        self.refused(64, "has no function 'severall'", of="networks.py:severall")
        self.refused(65, "returned int", "torch.nn.Module", of="networks.py:no_network")
        self.refused(
            64, "unexpected keyword argument 'depth'", of="networks.py:vector", flags=("--argument", "depth=2")
        )
        self.refused(65, "cannot be exported", of="networks.py:two")
        self.refused(65, "is a detector", "instances.py PICTURES RESULTS", of="networks.py:detector")
        self.refused(65, "is not a batch of 4 samples: expected [4, ...]", "--batch 1", of="networks.py:of_nothing")

    def test_other_channels_than_rgb_are_refused_with_the_flag(self):
        (self.folder / "four.py").write_text("import torch\ndef net(): return torch.nn.Conv2d(4, 2, 1)\n")
        printed = self.refused(65, "Pass --input-shape 4x224x224", of="four.py:net")
        self.assertIn("to have 4 channels, but got 3 channels", printed)
        printed = self.refused(65, "fails on an input", of="four.py:net", flags=("--input-shape", "5x8x8"))
        self.assertNotIn("Pass --input-shape", printed)

    def test_a_file_without_a_function_is_refused(self):
        # The refusal comes before the search for a Python with PyTorch.
        environment = {**PLAIN, "OFFRAMP_PYTHON": "/no/such/python"}
        for name, code, *words in (
            ("net.onnx", 64, "is ONNX", "onnxruntime", "offramp.Egress"),
            ("net.pt2", 66, "net.pt2: the file does not exist", "torch.export.save"),
            ("net.pt", 64, "run --model net.pt", "torch.load('net.pt', weights_only=False)", "--weights net.pt"),
            ("net.pth", 64, "torch.load('net.pth', weights_only=False)", "--weights net.pth"),
            ("net.safetensors", 64, "holds weights without a network", "--weights net.safetensors"),
            ("resnet50", 64, "'resnet50' does not name a network"),
            ("sentence:nowhere", 66, "the folder 'nowhere' does not exist"),
            ("nowhere.py:make", 66, "the file 'nowhere.py' does not exist"),
        ):
            with self.subTest(name):
                self.refused(code, *words, of=name, environment=environment)

    def test_a_file_that_is_not_a_program_is_refused(self):
        program = self.folder.with_suffix(".pt2")
        self.addCleanup(program.unlink)
        program.write_text("no program")
        self.refused(65, "is not a program that torch.export.save", f"run --model {program}", of=str(program))

    def test_a_network_that_was_pickled(self):
        import torch

        networks = networks_in(self.folder, NETWORKS)
        with mock.patch.dict(sys.modules, {"networks": networks}):  # the pickle refers to this module name
            torch.save(networks.vector(), self.folder / "vector.pth")
        done = export(
            self.folder,
            *"networks.py:from_a_pickle --device cpu --batch 2 --image-size 32 --output compiled.pt2".split(),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_fields_at_any_depth(self):
        import torch

        find_packages_of_launch(self)
        from exporter.compiling import flattened, has_named_fields, with_named_fields

        answer = networks_in(self.folder, NETWORKS).Answer
        rows = torch.arange(6.0).reshape(2, 3)
        for given, names in (
            (answer(rows, torch.max(rows, 1)), "part best.values best.indices"),
            (torch.topk(rows, 2), "values indices"),
            ({"a": [answer(rows, None)], "b": (rows, rows)}, "a.0.part b.0 b.1"),
            ([torch.max(rows, 1), rows], "0.values 0.indices 1"),
        ):
            self.assertTrue(has_named_fields(given))
            self.assertEqual(flattened(with_named_fields(given))[1], tuple(names.split()))
        for given in (rows, (rows, rows), {"a": [rows]}, []):
            self.assertFalse(has_named_fields(given))

    def test_a_failure_ends_with_the_line_of_the_user(self):
        printed = self.refused(
            65, "cannot be exported", "torch.where or torch.cond", "TorchScript", of="networks.py:branching"
        )
        where = next(number for number, line in enumerate(NETWORKS.splitlines(), start=1) if "if x.mean() > 0" in line)
        self.assertEqual(f"    networks.py:{where}: if x.mean() > 0:", printed.splitlines()[-1])
        self.assertNotIn("torch.ops.aten", printed, "no graphs")

    def test_an_error_of_the_users_code_ends_with_its_line(self):
        for name, code, reason, last, text in (
            (
                "raises",
                65,
                "failed: RuntimeError: no such backbone",
                "6: raise RuntimeError('no such backbone')",
                """
import json
import torch
def raises():
    # of which the command knows nothing
    raise RuntimeError('no such backbone')
""",
            ),
            (
                "without_message",
                65,
                "failed: AssertionError",
                "2: def without_message(depth=0): assert depth",
                "\ndef without_message(depth=0): assert depth",
            ),
            (
                "of_the_library",
                64,
                "failed: JSONDecodeError",
                "3: def of_the_library(): json.loads('{')",
                "\nimport json\ndef of_the_library(): json.loads('{')",
            ),
            (
                "arguments",
                64,
                "failed: ValueError: depth",
                "2: def arguments(): raise ValueError('depth')",
                "\ndef arguments(): raise ValueError('depth')",
            ),
            (
                "ends",
                65,
                "failed: SystemExit: 0",
                "2: def ends(): raise SystemExit(0)",
                "\ndef ends(): raise SystemExit(0)",
            ),
            ("on_import", 65, "cannot be imported: NameError", "2: torhc.nn.Module", "\ntorhc.nn.Module"),
            (
                "wants",
                66,
                "cannot be imported: ModuleNotFoundError",
                "2: import no_such_package",
                "\nimport no_such_package",
            ),
            ("language", 66, "cannot be imported: SyntaxError", "2: def language(:", "\ndef language(:\n"),
            (
                "later",
                65,
                "the network failed: ",
                "8: def state_dict(self, *_, **__): raise LookupError('gone')",
                """
import torch
class Later(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
    def forward(self, x): return self.layer(x.mean((2, 3)))
    def state_dict(self, *_, **__): raise LookupError('gone')
def later(): return Later()
""",
            ),
        ):
            with self.subTest(name):
                (self.folder / "mine.py").write_text(text)
                (self.folder / "some.pth").unlink(missing_ok=True)
                flags = ()
                if name == "later":
                    import torch

                    torch.save({"layer.weight": torch.zeros(4, 3)}, self.folder / "some.pth")
                    flags = ("--weights", "some.pth")
                printed = self.refused(code, reason, of=f"mine.py:{name}", flags=flags)
                self.assertEqual(f"    mine.py:{last}", printed.splitlines()[-1])
                self.assertNotIn("Traceback", printed)

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "skipped: no torchvision")
    def test_an_unknown_torchvision_model(self):
        self.refused(
            64,
            "torchvision has no model 'deeplabv3_resnet5'",
            "Did you mean deeplabv3_resnet50?",
            of="torchvision:deeplabv3_resnet5",
        )

    def test_weights_that_do_not_fit(self):
        import torch

        self.refused(66, "does not exist", of="networks.py:vector", flags=("--weights", "none.pth"))
        (self.folder / "text.pth").write_text("no weights")
        self.refused(65, "cannot be read", of="networks.py:vector", flags=("--weights", "text.pth"))
        torch.save({"layer.weight": torch.zeros(7, 3), "other": torch.zeros(1)}, self.folder / "some.pth")
        self.refused(
            65,
            "1 missing (layer.bias)",
            "1 unexpected (other)",
            "1 of the wrong shape (layer.weight)",
            of="networks.py:vector",
            flags=("--weights", "some.pth"),
        )

    def test_a_difference_beyond_the_tolerance_writes_nothing(self):
        self.refused(
            65,
            "differs from the network by",
            "nothing was written",
            of="networks.py:vector",
            flags=("--tolerance", "-1"),
        )

    def test_flags(self):
        self.refused(64, "'0' is not a number from 1 to 65536", of="networks.py:vector", flags=("--batch", "0"))
        self.refused(64, "tf32 needs a GPU", of="networks.py:vector", flags=("--precision", "tf32"))
        self.refused(64, "does not end in .pt2", of="networks.py:vector", flags=("--output", "net.onnx"))
        self.refused(73, "nowhere does not exist", of="networks.py:vector", flags=("--output", "nowhere/net.pt2"))

    def test_a_folder_in_the_way(self):
        (self.folder / "vector.toml").mkdir()
        self.refused(73, "vector.toml cannot be made: it is a folder", of="networks.py:vector")
        self.assertEqual(list((self.folder / "vector.toml").iterdir()), [])

    def test_an_export_that_is_killed_reports_it(self):
        self.refused(137, "export was killed by SIGKILL", of="networks.py:dying")

    def test_without_a_compiler(self):
        self.refused(
            71,
            "'no-such-compiler' was not found",
            "apt-get install g++",
            of="networks.py:vector",
            environment={"CXX": "no-such-compiler"},
        )

    def test_half_precision_weights_and_a_compiler_without_shared_libraries(self):
        import torch

        torch.manual_seed(9)
        torch.save(
            {"model": {"module.layer.weight": torch.randn(4, 3), "module.layer.bias": torch.randn(4)}},
            self.folder / "w.pth",
        )
        compiler = self.folder / "static" / "g++"  # PyTorch identifies the compiler by this name
        compiler.parent.mkdir()
        compiler.write_text(STATIC_COMPILER)
        compiler.chmod(0o755)
        done = export(
            self.folder,
            *"networks.py:vector --device cpu --argument width=4 --weights w.pth --precision bf16 --batch 2".split(),
            *"--image-size 16".split(),
            environment={**PLAIN, "CXX": str(compiler)},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.folder / "vector.pt2") as package:
            libraries = [package.read(path) for path in package.namelist() if path.endswith(".so")]
        self.assertTrue(
            libraries and all(b"libstdc++.so" not in library for library in libraries),
            "the compiler must link the archive",
        )
        share = float(re.search(r"([0-9.e-]+) of the largest value", done.stdout)[1])
        self.assertLess(share, 5e-2)
        self.assertIn('outputs = "output"', (self.folder / "vector.toml").read_text())
        self.assertNotIn("random", (self.folder / "vector.toml").read_text())
        self.assertTrue((self.folder / "vector.pt2").exists())
