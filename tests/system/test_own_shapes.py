"""
Arrays and pictures that keep their own shapes: each output is that of the network for this item alone, after kills,
from the disk, and of several producers. Items that do not fit are skipped by name.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import unittest

import numpy
from PIL import Image

from tests.support.device import ON_GPU, setUpModule  # noqa: F401
from tests.support.exported_model import folder_of_class, networks_in
from tests.support.launched_gpus import GpusWorld
from tests.support.run_memory import endpoint
from tests.support.text_runs import TextRuns

ITEMS = 61
VOLUMES = ((1, 6, 10, 8), (1, 5, 9, 8), (1, 12, 4, 16))
SIZES = ((40, 31), (33, 47), (64, 64), (21, 90))  # width, height
NETWORKS = """
import torch


class Volumes(torch.nn.Module):
    '''Features that follow the volume's shape, and their mean, which does not.'''

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv3d(1, 2, 3, stride=2, padding=1)

    def forward(self, x):
        features = self.layer(x)
        return {"features": features, "mean": features.mean((2, 3, 4))}


class Pictures(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, x):
        return self.layer(x)


class Wide(torch.nn.Module):
    '''Larger for a shape between the least and the greatest than for either.'''

    def forward(self, x):
        if x.size(2) == 6:
            return x.repeat(1, 1, 1, 1 << 13, 1)
        return x


class Table(torch.nn.Module):
    '''A row for each number. One beyond the table breaks the GPU's context, some time after the call.'''

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(4, 3)

    def forward(self, x):
        return self.rows(x.long())


class Found(torch.nn.Module):
    '''As many rows as the greatest first number of a batch says.'''

    def forward(self, x):
        return {"rows": x.expand(-1, int(x[:, 0, 0].max() * 4), -1), "mean": x.mean(1), "score": x.sum((1, 2))}


class OfOne(torch.nn.Module):
    def forward(self, x):
        return x[:1]


class Layered(torch.nn.Module):
    '''Too deep for volumes with a side below 5.'''

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv3d(1, 2, 5)

    def forward(self, x):
        if bool((x < 0).any()):
            raise ValueError("a negative number")
        return self.layer(x)
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: needs torch")
class OwnShapes(TextRuns, unittest.TestCase):
    processors = ("--processor", "npy")

    @classmethod
    def setUpClass(cls):
        import torch

        cls.folder = folder_of_class(cls, "own-shapes")
        networks = networks_in(cls.folder, NETWORKS)
        torch.manual_seed(4)
        cls.volumes, cls.pictures = cls.folder / "volumes", cls.folder / "pictures"
        cls.model = cls.saved(networks.Volumes(), "volumes.pt", 'input-shape = "1x?x?x?"\n')
        cls.of_pictures = cls.saved(networks.Pictures(), "pictures.pt", 'mean = "0, 0, 0"\nstd = "1, 1, 1"\n')
        cls.wide = cls.saved(networks.Wide(), "wide.pt", 'input-shape = "1x?x?x?"\n')
        cls.layered = cls.saved(networks.Layered(), "layered.pt", 'input-shape = "1x?x?x?"\n')
        random = numpy.random.default_rng(7)
        cls.volumes.mkdir()
        cls.pictures.mkdir()
        cls.given, cls.wanted, cls.seen = {}, {}, {}
        network, of_pictures = torch.jit.load(str(cls.model)), torch.jit.load(str(cls.of_pictures))
        for item in range(ITEMS):
            name = f"{item:02}"
            array = random.random(VOLUMES[item // 3 % 3 if item < 40 else item % 3], numpy.float32)
            numpy.save(cls.volumes / f"{name}.npy", array)
            width, height = SIZES[item // 4 % 4 if item < 40 else item % 4]
            pixels = random.integers(0, 256, (height, width, 3), numpy.uint8)
            Image.fromarray(pixels).save(cls.pictures / f"{name}.png")
            with torch.no_grad():
                cls.wanted[name] = {key: one[0].numpy() for key, one in network(torch.from_numpy(array)[None]).items()}
                image = torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(numpy.float32) / 255)
                cls.seen[name] = {"output": of_pictures(image)[0].numpy()}

    @classmethod
    def saved(cls, network, name, notes):
        import torch

        torch.jit.script(network.eval()).save(str(cls.folder / name))
        (cls.folder / name).with_suffix(".toml").write_text(notes)
        return cls.folder / name

    def of_images(self, *flags):
        return "images", self.pictures, "--model", str(self.of_pictures), "--resize", "none", *flags

    def arrays(self, output):
        return {path.name.removesuffix(".npy"): numpy.load(path) for path in output.glob("**/*.npy")}

    def assertAre(self, wanted, output):
        found = self.arrays(output)
        self.assertEqual(found.keys(), {f"{name}.{key}" for name, outputs in wanted.items() for key in outputs})
        for name, outputs in wanted.items():
            for key, array in outputs.items():
                self.assertEqual(found[f"{name}.{key}"].shape, array.shape, name)
                numpy.testing.assert_allclose(found[f"{name}.{key}"], array, rtol=1e-4, atol=1e-5, err_msg=name)

    def bytes_of(self, output):
        return {path.name: path.read_bytes() for path in output.glob("*.npy")}

    def test_each_items_own_outputs_after_kills(self):
        for wanted, words in ((self.wanted, ("npy", self.volumes)), (self.seen, self.of_images())):
            with self.subTest(words=words):
                whole = self.ended(*words)
                self.assertAre(wanted, whole.output)
                self.assertEqual(whole.summary()["samples"]["released"], ITEMS)
                self.assertTrue(whole.summary()["conserved"])
                again = self.resumed(*words, "--samples-per-slab", "4")
                self.assertEqual(self.bytes_of(again.output), self.bytes_of(whole.output))
                self.assertEqual(again.summary()["exit"], 0)

    def test_shards_and_several_producers_give_the_same(self):
        world = self.world("npy", self.volumes, kind=GpusWorld)
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertAre(self.wanted, world.output)
        job = self.in_shards(3, *self.of_images())
        self.assertAre(self.seen, job.output)
        found = {}
        for shard in ("1/2", "2/2"):
            found.update(self.arrays(self.ended("npy", self.volumes, "--shard", shard).output))
        self.assertEqual(found.keys(), self.arrays(world.output).keys())

    def test_spilled_and_dead_batches_keep_their_shapes(self):
        world = self.world(
            "npy",
            self.volumes,
            "--samples-per-slab",
            "4",
            "--when-full",
            "spill",
            processors=("--processor", "crash-on-item"),
        )
        world.environment.update(OFFRAMP_TEST_CRASH_ITEM="30", OFFRAMP_TEST_CRASH_HOW="fail", OFFRAMP_TEST_THEN="npy")
        with world.gate() as gate:
            world.start()
            world.until(lambda: world.status().get("spilled_samples", 0) > 20, "some batches on the disk")
            gate.open()
            self.assertEqual(world.wait(), 84, world.logs())
        self.assertEqual(world.summary()["samples"]["dead_letters"], 1)
        self.assertAre({name: one for name, one in self.wanted.items() if name != "30"}, world.output)
        output = world.folder / "retried"
        code, printed = world.call(
            "dead-letters", "retry", "--all", "--processor", "npy", "--run-dir", world.run_dir, "--output", output
        )
        self.assertEqual(code, 0, printed)
        numpy.testing.assert_allclose(
            self.arrays(output)["30.features"], self.wanted["30"]["features"], rtol=1e-4, atol=1e-5
        )

    def test_another_producer_takes_over_from_a_killed_one(self):
        world = self.world("npy", self.volumes, "--samples-per-slab", "4")
        with world.gate() as gate:
            world.start()
            gate.let(3)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "the first samples")
            os.kill(int(endpoint(world.run_dir)["producer_pid"]), signal.SIGKILL)
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(world.summary()["producers"], 2)
        self.assertTrue(world.summary()["conserved"])
        self.assertAre(self.wanted, world.output)

    def test_a_file_that_changes_shape_is_skipped_and_batches_stay(self):
        for continued in ("by another producer", "--resume"):
            with self.subTest(continued):
                changing = self.folder / continued.replace(" ", "-")
                shutil.copytree(self.volumes, changing)
                world = self.world("npy", changing, "--samples-per-slab", "4")
                with world.gate() as gate:
                    world.start()
                    gate.let(3)
                    world.until(lambda: world.status().get("done_samples", 0) >= 8, "the first samples")
                    # The first is done, the others are not.
                    for name, shape in (("01", VOLUMES[1]), ("40", (6, 10, 8)), ("57", (1, 64, 64, 64))):
                        numpy.save(changing / f"{name}.npy", numpy.zeros(shape, "f4"))
                    if continued == "--resume":
                        world.kill_everything()
                    else:
                        os.kill(int(endpoint(world.run_dir)["producer_pid"]), signal.SIGKILL)
                        gate.open()
                if continued == "--resume":
                    world.start("--resume")
                self.assertEqual(world.wait(), 0, world.logs())
                self.assertTrue(world.summary()["conserved"])
                self.assertAre(
                    {name: one for name, one in self.wanted.items() if name not in ("40", "57")}, world.output
                )
                for word in ("40.npy", "57.npy", "an array <f4 [6, 10, 8], and the model takes [1, ?, ?, ?]"):
                    self.assertIn(word, world.logs())

    def test_unreadable_items_are_skipped_by_name(self):
        mixed = self.folder / "mixed"
        mixed.mkdir()
        random = numpy.random.default_rng(8)
        for item in range(9):
            numpy.save(mixed / f"{item}0.npy", random.random(VOLUMES[item // 4], numpy.float32))
        # The first files do not fit either: they decide nothing.
        numpy.save(mixed / "-rank.npy", numpy.zeros((6, 10, 8), "f4"))
        numpy.save(mixed / "-type.npy", numpy.zeros(VOLUMES[0], "i8"))
        numpy.save(mixed / "11.npy", numpy.zeros((6, 10, 8), "f4"))
        numpy.save(mixed / "12.npy", numpy.zeros((2, 6, 10, 8), "f4"))
        numpy.save(mixed / "13.npy", numpy.zeros(VOLUMES[0], "i8"))
        (mixed / "14.npy").write_bytes((mixed / "10.npy").read_bytes()[:-4])
        (mixed / "15.npy").write_bytes(b"no array")
        (mixed / "16.npy").write_bytes((mixed / "10.npy").read_bytes()[:128].replace(b"6, 10, 8)", b"4096,1024,1024)"))
        numpy.lib.format.open_memmap(mixed / "17.npy", "w+", "<f4", (1, 2048, 1024, 1024))
        world = self.world("npy", mixed, "--max-errors", "9")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertEqual({name[:2] for name in self.arrays(world.output)}, {f"{item}0" for item in range(9)})
        for words in (
            ("-rank.npy", "-type.npy"),
            ("11.npy", "an array <f4 [6, 10, 8], and the model takes [1, ?, ?, ?]"),
            ("12.npy", "an array <f4 [2, 6, 10, 8], and the model takes [1, ?, ?, ?]"),
            ("13.npy", "its elements are <i8"),
            ("14.npy", "truncated"),
            ("15.npy", "does not begin with the magic"),
            ("16.npy", ""),
            ("17.npy", "[1, 2048, 1024, 1024] is too large"),
        ):
            for word in words:
                self.assertIn(word, world.logs())

    def of_layered(self, volumes, *flags):
        return "npy", volumes, "--model", str(self.layered), *flags

    def outputs_of_layered(self, arrays):
        import torch

        network = torch.jit.load(str(self.layered))
        with torch.no_grad():
            return {name: {"output": network(torch.from_numpy(array)[None])[0].numpy()} for name, array in arrays}

    def test_items_that_the_model_refuses_are_skipped_by_name(self):
        given = [(path.stem, numpy.load(path)) for path in sorted(self.volumes.glob("*.npy"))]
        wanted = self.outputs_of_layered((name, array) for name, array in given if min(array.shape[1:]) >= 5)
        refused = {f"{name}.npy" for name, array in given if min(array.shape[1:]) < 5}
        words = self.of_layered(self.volumes, "--max-errors", "100%")
        whole = self.ended(*words)
        self.assertAre(wanted, whole.output)
        self.assertTrue(whole.summary()["conserved"])
        self.assertEqual(whole.summary()["samples"]["skipped"], len(refused))
        self.assertEqual({os.path.basename(each["origin"]) for each in whole.summary()["skipped"]}, refused)
        for skipped in whole.summary()["skipped"]:
            self.assertRegex(skipped["reason"], r"the model failed on .*, 1, 12, 4, 16\]: .*Kernel size")
        again = self.resumed(*words, "--samples-per-slab", "4")
        self.assertEqual(self.bytes_of(again.output), self.bytes_of(whole.output))
        self.assertTrue(again.summary()["conserved"])
        world = self.world(*self.of_layered(self.volumes, "--max-errors", "3", "--batch", "1"))
        self.assertEqual(world.start().wait(), 65, world.logs())
        for word in ("4 of 61 items had to be skipped, and --max-errors 3 allows 3", "06.npy: the model failed on"):
            self.assertIn(word, world.logs())
        self.assertEqual(world.summary()["failure_cause"], {"kind": "model"})
        self.assertGreater(world.summary()["samples"]["released"], 0)
        self.assertNotIn("  continue ", world.logs())
        self.assertEqual(world.start("--resume", "--max-errors", "100%").wait(), 0, world.logs())
        self.assertAre(wanted, world.output)

    def test_a_refused_item_takes_its_batch_along_until_it_is_alone(self):
        volumes = self.folder / "negative"
        volumes.mkdir()
        arrays = {str(item): numpy.full((1, 5, 6, 7), item, numpy.float32) for item in range(6)}
        arrays["4"][0, 0, 0, 0] = -1
        for name, array in arrays.items():
            numpy.save(volumes / f"{name}.npy", array)
        world = self.world(*self.of_layered(volumes, "--max-errors", "3"))
        self.assertEqual(world.start("--batch", "3").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["skipped"], 3)
        self.assertIn("a negative number", world.summary()["skipped"][0]["reason"])
        self.assertEqual(world.start("--resume", "--batch", "1").wait(), 0, world.logs())
        self.assertEqual([os.path.basename(each["origin"]) for each in world.summary()["skipped"]], ["4.npy"])
        self.assertAre(self.outputs_of_layered(item for item in arrays.items() if item[0] != "4"), world.output)
        for name in arrays:
            numpy.save(volumes / f"{name}.npy", numpy.zeros((1, 3, 3, 3), "f4"))
        world = self.world(*self.of_layered(volumes))
        self.assertEqual(world.start().wait(), 65, world.logs())
        self.assertIn("failed in its own code on input float32 [1, 1, 3, 3, 3] (0.npy): ", world.logs())

    def test_most_arrays_decide_the_number_of_dimensions(self):
        import torch

        mixed = self.folder / "most"
        mixed.mkdir()
        numpy.save(mixed / "-first.npy", numpy.zeros((40, 31), "f4"))
        random, network, wanted = numpy.random.default_rng(8), torch.jit.load(str(self.of_pictures)), {}
        for name, size in (("1", (40, 31)), ("2", (33, 47))):
            array = random.random((3, *size), numpy.float32)
            numpy.save(mixed / f"{name}.npy", array)
            with torch.no_grad():
                wanted[name] = {"output": network(torch.from_numpy(array)[None])[0].numpy()}
        world = self.ended("npy", mixed, "--model", str(self.of_pictures), "--resize", "none")
        self.assertAre(wanted, world.output)
        self.assertIn("-first.npy", world.logs())
        self.assertIn("an array <f4 [40, 31], and the model takes [?, ?, ?]", world.logs())

    def test_a_folder_that_grew_keeps_the_form_of_its_first_run(self):
        import torch

        random, network = numpy.random.default_rng(8), torch.jit.load(str(self.of_pictures))

        def floats(size):
            array = random.random((3, *size), numpy.float32)
            return array, array

        def pixels(size):
            array = random.integers(0, 256, (*size, 3), numpy.uint8)
            return array, array.transpose(2, 0, 1).astype(numpy.float32) / 255

        for form, make, other in (
            ("dimensions", floats, numpy.zeros((40, 31), "f4")),
            ("elements", pixels, numpy.zeros((3, 40, 31), "f4")),
        ):
            with self.subTest(form):
                arrays, wanted = self.folder / form, {}
                arrays.mkdir()

                def add(name, make=make, arrays=arrays, wanted=wanted):
                    array, given = make((40, 31) if len(wanted) % 2 else (33, 47))
                    numpy.save(arrays / f"{name}.npy", array)
                    with torch.no_grad():
                        wanted[name] = {"output": network(torch.from_numpy(given)[None])[0].numpy()}

                numpy.save(arrays / "-other.npy", other)
                for item in range(9):
                    add(f"{item}")
                flags = "--resize none --batch 1 --max-errors 100%".split()
                world = self.world("npy", arrays, "--model", str(self.of_pictures), *flags)
                world.break_off(slabs=3)
                for item in range(20):
                    numpy.save(arrays / f"-new-{item}.npy", other)
                add("-joined")
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertAre(wanted, world.output)
                self.assertGreater(world.summary()["samples"]["done_before"], 0)
                self.assertEqual(
                    {os.path.basename(each["origin"]) for each in world.summary()["skipped"]},
                    {"-other.npy", *(f"-new-{item}.npy" for item in range(20))},
                )
                for name in (*wanted, "-joined"):
                    (arrays / f"{name}.npy").unlink(missing_ok=True)
                self.assertEqual(world.start("--resume").wait(), 64, world.logs())
                self.assertIn("holds the work of a run on arrays of", world.logs())

    @unittest.skipUnless(ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
    def test_an_error_of_cuda_ends_the_run(self):
        given = self.folder / "numbers"
        given.mkdir()
        for item in range(30):
            numpy.save(given / f"{item:02}.npy", numpy.full((2, 2), 99 if item == 20 else item % 4, "f4"))
        table = self.saved(networks_in(self.folder, NETWORKS).Table(), "table.pt", 'input-shape = "?x2"\n')
        world = self.world("npy", given, "--model", str(table), "--batch", "2", "--max-errors", "100%")
        self.assertNotIn(world.start().wait(), (0, 65), world.logs())
        self.assertFalse(world.summary().get("skipped"))
        found = self.arrays(world.output)
        self.assertNotIn("20.output", found)
        import torch

        rows = torch.jit.load(str(table)).rows.weight.detach().numpy()
        for name, array in found.items():
            numpy.testing.assert_array_equal(array, numpy.broadcast_to(rows[int(name[:2]) % 4], (2, 2, 3)), name)
        numpy.save(given / "20.npy", numpy.zeros((2, 2), "f4"))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(len(self.arrays(world.output)), 30)

    def test_what_does_not_go_together_is_refused_when_the_run_starts(self):
        empty, broken = self.folder / "empty", self.folder / "broken"
        empty.mkdir()
        broken.mkdir()
        (broken / "one.npy").write_bytes(b"no array")
        fixed = self.saved(networks_in(self.folder, NETWORKS).Volumes(), "fixed.pt", 'input-shape = "1x6x10x8"\n')
        package = self.folder / "package.pt2"  # refused by its metadata, before it is loaded
        package.write_bytes(b"")
        package.with_suffix(".toml").write_text('image-size = "48x64"\n')
        cuts = ("--image-size", "64")
        for words, told in (
            (("npy", empty), ("no .npy file in this folder",)),
            (("npy", broken), ("no item is readable", "one.npy", "does not begin with the magic")),
            (("npy", self.volumes, "--processor", "embeddings-sqlite"), None),
            (("npy", self.volumes, "--processor", "image"), ("cannot read any output", "differ in shape")),
            (("npy", self.volumes, "--transform", "class-map"), ("--transform class-map does not fit",)),
            (("npy", self.volumes, "--batches-per-slab", "2"), ("which --batches-per-slab does not support",)),
            (("npy", self.volumes, "--measure-limits", "3"), ("--measure-limits does not go with items",)),
            (
                ("npy", self.volumes, "--model", str(fixed), "--resize", "none"),
                ("takes only arrays of [1, 6, 10, 8]", "Leave --resize none out", "write '?'"),
            ),
            (
                self.of_images("--model", str(package)),
                ("takes only pictures of 48 x 64 pixels", "package.toml", "Leave --resize none out"),
            ),
            (self.of_images(*cuts), ("--image-size 64 does not go with --resize none",)),
            (self.of_images("--processor", "mask-png"), ("mask-png' does not go with --resize none",)),
            (("npy", self.pictures, "--resize", "none"), ("no .npy file",)),
        ):
            with self.subTest(words=words):
                world = self.world(*words)
                code = world.start().wait()
                if told is None:  # the mean of each has one shape
                    self.assertEqual(code, 0, world.logs())
                    continue
                self.assertIn(code, (64, 65, 66), world.logs())
                for word in told:
                    self.assertIn(word, world.logs())

    def test_an_item_larger_than_the_memory_is_named(self):
        huge = self.folder / "huge"
        huge.mkdir()
        numpy.save(huge / "small.npy", numpy.zeros(VOLUMES[0], "f4"))
        numpy.lib.format.open_memmap(huge / "whole.npy", "w+", "<f4", (1, 1024, 1024, 1023))
        world = self.world("npy", huge, "--prefetch", "64")
        self.assertEqual(world.start().wait(), 71, world.logs())
        self.assertRegex(
            world.logs(), r"the buffers for items like whole.npy, \[1, 1024, 1024, 1023\], take \d+\.\d GiB"
        )
        self.assertIn("Leave this item out of --input, or give a smaller --prefetch", world.logs())

    def test_a_sample_larger_than_a_slab_is_named_with_the_size_to_give(self):
        words = ("npy", self.volumes, "--model", str(self.wide), "--batch", "2")
        world = self.world(*words, "--slab-bytes", "64KiB")
        self.assertEqual(world.start().wait(), 65, world.logs())
        self.assertIn("the outputs of item 0 ('00') have", world.logs())
        self.assertIn("Give --slab-bytes for the largest item, at least 15728640", world.logs())
        self.assertEqual(world.summary()["failure_cause"], {"kind": "slab-too-small", "slab_bytes": 15728640})
        command = re.search("  continue +(.*)", world.logs())[1]
        self.assertIn(" --slab-bytes 15728640 ", command)
        done = subprocess.run(
            command, shell=True, env=world.environment, capture_output=True, text=True, timeout=120, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(self.arrays(world.output)), ITEMS)

    def test_outputs_whose_shape_depends_on_values(self):
        given = numpy.random.default_rng(9).random((ITEMS, 1, 6), numpy.float32)
        given[16:24, 0, 0] = 0.1
        numpy.save(self.folder / "found.npy", given)
        network = networks_in(self.folder, NETWORKS).Found()
        found = self.saved(network, "found.pt", 'output-shapes = "?x6, 6, ()"\n')
        words = ("npy", self.folder / "found.npy", "--model", str(found))
        for batch in (8, 1):
            most = [int(given[item // batch * batch :][:batch, 0, 0].max() * 4) for item in range(ITEMS)]
            self.assertEqual(most[16:24], [0] * 8)
            wanted = {
                str(item): {"rows": numpy.repeat(array, most[item], 0), "mean": array[0], "score": array.sum()}
                for item, array in enumerate(given)
            }
            whole = self.ended(*words, "--batch", str(batch))
            self.assertAre(wanted, whole.output)
        again = self.resumed(*words, "--samples-per-slab", "3")
        self.assertEqual(self.bytes_of(again.output), self.bytes_of(self.ended(*words).output))
        half = self.arrays(self.ended(*words, "--batch", "1", "--transform", "cast").output)
        self.assertEqual({f"{item}.{name}" for item in range(ITEMS) for name in ("rows", "mean", "score")}, set(half))
        for notes, told in (
            ("", ("'rows' of the model", "[8, 0, 6], has no elements", "write '?' for it in output-shapes")),
            ('output-shapes = "?x6"\n', ("output-shapes has 1 shapes", "gives 3 outputs")),
            ('output-shapes = "?x7, 6, ()"\n', ("output-shapes does not fit the output rows",)),
            ('output-shapes = "?x6, (), ()"\n', ("output-shapes does not fit the output mean",)),
            ('output-shapes = "?x6, "\n', ("found.toml:1: output-shapes is",)),
        ):
            found.with_suffix(".toml").write_text(notes)
            world = self.world(*words)
            self.assertIn(world.start().wait(), (65, 78), world.logs())
            for word in told:
                self.assertIn(word, world.logs())

    def test_an_output_for_one_sample_only_is_reported_with_its_shape(self):
        numpy.save(self.folder / "rows.npy", numpy.ones((9, 5, 6), "f4"))
        model = self.saved(networks_in(self.folder, NETWORKS).OfOne(), "one.pt", 'input-shape = "5x6"\n')
        words = ("npy", self.folder / "rows.npy", "--model", str(model))
        world = self.world(*words, "--batch", "4")
        self.assertEqual(world.start().wait(), 65, world.logs())
        for word in ("[1, 5, 6], is not a batch of 4 samples: expected [4, ...]", "or give --batch 1"):
            self.assertIn(word, world.logs())
        self.assertEqual(len(self.arrays(self.ended(*words, "--batch", "1").output)), 9)

    def test_half_the_bytes(self):
        half = self.ended("npy", self.volumes, "--transform", "cast")
        found = self.arrays(half.output)
        for name, outputs in self.wanted.items():
            numpy.testing.assert_allclose(found[f"{name}.features"], outputs["features"], rtol=2e-3, atol=2e-3)
            self.assertEqual(found[f"{name}.features"].dtype, numpy.float16)
