"""Outputs made smaller on their device: numbers that consumers restore, and JPEG files."""

import importlib.util
import io
import os
import sys
import unittest
import unittest.mock

import offramp
from loops import results
from test_torch import ON_GPU, TORCH
from world import World, needs_numpy

TORCHVISION = importlib.util.find_spec("torchvision") is not None
PIL = importlib.util.find_spec("PIL") is not None
DEVICE = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu")


def photo(height, width, channels=3, seed=0):
    """Smooth shapes with a little noise, which JPEG keeps well, on the CPU."""
    import torch

    made = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, channels, 4, 4, generator=made)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)[0]
    noise = torch.rand(channels, height, width, generator=made) / 50
    return (smooth * 0.98 + noise).mul(255).round().to(torch.uint8)


def encoded(picture, quality):
    """The file's bytes by torchvision, when no other work runs on the device."""
    import torch
    from torchvision.io import encode_jpeg

    if picture.device.type == "cpu":
        return encode_jpeg(picture, quality).numpy().tobytes()
    picture = picture.expand(3, -1, -1).contiguous()
    torch.cuda.synchronize()
    made = encode_jpeg(picture, quality)
    torch.cuda.synchronize()
    return made.cpu().numpy().tobytes()


@unittest.skipUnless(TORCH and TORCHVISION, "skipped: no PyTorch, or no torchvision")
@needs_numpy
class Jpeg(World):
    def files(self, pictures, *arguments, **options):
        made = offramp.reduce.jpeg(pictures, *arguments, **options)
        self.assertTrue(all(each.dim() == 1 and each.device.type == DEVICE for each in made))
        return [each.cpu().numpy().tobytes() for each in made]

    def opened(self, data):
        import numpy
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            self.assertEqual("JPEG", image.format)
            return numpy.asarray(image.convert("RGB")).astype(int)

    def test_files_are_those_of_torchvision(self):
        import torch

        batch = torch.stack([photo(40, 72, seed=seed) for seed in range(3)]).to(DEVICE)
        self.assertEqual([encoded(each, 90) for each in batch], self.files(batch))
        self.assertEqual([encoded(each, 30) for each in batch], self.files(batch, quality=30))
        self.assertLess(len(self.files(batch, 30)[0]), len(self.files(batch, 90)[0]))
        sizes = [photo(8, 8).to(DEVICE), photo(1, 33).to(DEVICE), photo(65, 17, 1).to(DEVICE)]
        self.assertEqual([encoded(each, 90) for each in sizes], self.files(sizes))
        turned = batch.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # channels-last
        self.assertEqual(self.files(batch), self.files(turned))
        self.assertEqual([], self.files(batch[:0]))
        self.assertEqual([], self.files([]))

    @unittest.skipUnless(PIL, "skipped: no Pillow")
    def test_the_loops_files_are_the_results(self):
        import torch

        batches = [[photo(48, 64, seed=seed), photo(30 + seed, 90, 1, seed)] for seed in range(4)]
        with offramp.Egress(output=self.folder / "out", processor="image", consumers=2) as egress:
            for number, batch in enumerate(batches):
                pictures = offramp.reduce.jpeg([each.to(DEVICE) for each in batch], quality=95)
                egress.submit({"picture": pictures}, [f"{number}/colour", f"{number}/gray"])
        found = results(self.folder / "out")
        names = [f"{number}/{kind}.jpg" for number in range(4) for kind in ("colour", "gray")]
        self.assertEqual(names, sorted(found))
        for name, picture in zip(names, [each for batch in batches for each in batch]):
            self.assertEqual(encoded(picture.to(DEVICE), 95), found[name], name)
            pixels = torch.from_numpy(self.opened(found[name])).permute(2, 0, 1)
            self.assertEqual((3, *picture.shape[1:]), tuple(pixels.shape))
            self.assertLess((pixels - picture.int()).abs().float().mean(), 3, name)

    def test_bytes_of_another_format_end_the_run(self):
        import torch

        data = torch.frombuffer(bytearray(b"\x89PNG\r\n\x1a\n, not a JPEG"), dtype=torch.uint8).to(DEVICE)
        with self.assertRaisesRegex(offramp.Error, "of the item 'photo' holds 20 bytes that are not a complete JPEG"):
            with offramp.Egress(output=self.folder / "out", processor="image", consumers=1) as egress:
                egress.submit({"picture": [data]}, ["photo"])
        self.assertEqual({}, results(self.folder / "out"))

    def test_other_pictures_are_refused(self):
        import torch

        good = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
        for pictures, text in (
            (good.float(), r"'pictures' has elements of type float32. Give uint8.*clamp"),
            (good[0], r"'pictures' has the shape \(3, 8, 8\). Give a uint8 tensor of shape \(samples, 3"),
            ([good], r"'pictures\[0\]' has the shape \(2, 3, 8, 8\)"),
            (good[:, :2], "has 2 channels, and JPEG stores 1 or 3$"),
            (good.permute(0, 2, 3, 1), r"has 8 channels.*give pictures.permute\(0, 3, 1, 2\)"),
            ([good[0], good[0].permute(1, 2, 0)], r"give pictures\[1\].permute\(2, 0, 1\)"),
            (good[..., :0], "has pictures of 8 x 0 pixels. Give sides of 1 to 65,500 pixels"),
            (torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(1, 1, 1, 65_501), "1 x 65501 pixels"),
            (
                [good[0], good[0].to("meta")],
                r"'pictures\[1\]' is on the device 'meta'. Give a tensor on the CPU or a CUDA device",
            ),
            (good.to_sparse(), "is sparse"),
            ([good[0].numpy()], r"'pictures\[0\]' is of type numpy.ndarray. Give a uint8 tensor"),
            ({"picture": good}, "'pictures' is of type builtins.dict"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.reduce.jpeg(pictures)
        for quality in (0, 101, 90.5, True, None):
            with self.subTest(quality), self.assertRaisesRegex(offramp.BadArgument, "quality is .* 1 to 100"):
                offramp.reduce.jpeg(good, quality)

    def test_without_torchvision_the_error_names_the_package(self):
        import torch

        pictures = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
        with unittest.mock.patch.dict(sys.modules, {"torchvision": None}):
            with self.assertRaisesRegex(
                offramp.LibraryNotFound, "needs the torchvision for your PyTorch: .* pip install torchvision"
            ):
                offramp.reduce.jpeg(pictures)


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
class Numbers(World):
    def consumed(self, outputs, samples):
        """The outputs as a consumer restores them: by sample, and from the slab where samples have one shape."""
        by_sample, whole = [], {}
        with offramp.Egress(self.run_dir, samples_per_slab=samples) as egress:
            egress.submit(outputs)
            for slab in offramp.Consumer(self.run_dir):
                for _, values in slab:
                    by_sample.append({name: offramp.reduce.restore(values, name) for name in outputs})
                for name in outputs:
                    if None not in [extent for info in slab.tensors for extent in info.shape]:
                        whole[name] = offramp.reduce.restore(slab, name)
                break
            del values, slab
            egress.close()
        return by_sample, whole

    def assert_restored(self, wanted, outputs, check):
        """Calls `check` with a name, an index of `wanted`, and what was restored for it."""
        samples = len(next(iter(wanted.values())))
        by_sample, whole = self.consumed(outputs, samples)
        self.assertEqual(samples, len(by_sample))
        for name in wanted:
            for row in range(samples):
                check(name, row, by_sample[row][name])
            check(name, slice(None), whole[name])

    def values(self, *shape, dtype="float32"):
        import torch

        made = torch.Generator().manual_seed(1)
        values = torch.randn(*shape, generator=made) * torch.logspace(-3, 3, shape[0]).reshape(
            -1, *[1] * (len(shape) - 1)
        )
        return values.to(getattr(torch, dtype)).to(DEVICE)

    def test_classes_and_best_scores_are_those_of_torch(self):
        import torch

        for classes, kind in ((21, torch.uint8), (256, torch.uint8), (257, torch.int16), (40_000, torch.int32)):
            scores = self.values(2, classes, 3, dtype="float16")
            made = offramp.reduce.argmax(scores)
            self.assertEqual((kind, (2, 3), DEVICE), (made.dtype, tuple(made.shape), made.device.type))
            self.assertTrue((scores.argmax(1) == made.int()).all())
            best = offramp.reduce.topk(scores.transpose(1, 2), 4, dim=-1)
            values, indices = scores.transpose(1, 2).topk(4)
            self.assertEqual((torch.float16, kind), (best["values"].dtype, best["indices"].dtype))
            self.assertTrue((best["values"] == values).all() and (best["indices"].int() == indices).all())

    def test_int8_is_restored_within_half_of_the_scale(self):
        import numpy

        for dtype in ("float32", "float16", "bfloat16", "float64"):
            values = self.values(5, 3, 7, 9, dtype=dtype) / 100
            values[3] = 0
            given = {
                "sample": offramp.reduce.int8(values),
                "channel": offramp.reduce.int8(values, dim=1),
                "last": offramp.reduce.int8(values[..., 0, 0], dim=-1),
                "fixed": offramp.reduce.int8(values, scale=0.01),
                "number": offramp.reduce.int8(values[:, 0, 0, 0]),
            }
            wanted = dict.fromkeys(given, values.cpu().double().numpy())
            wanted |= {"last": wanted["last"][..., 0, 0], "number": wanted["number"][:, 0, 0, 0]}
            wanted["fixed"] = wanted["fixed"].clip(-1.27, 1.27)
            scales = {name: parts["scale"].cpu().double().numpy() for name, parts in given.items()}
            shapes = {name: scale.shape for name, scale in scales.items()}
            self.assertEqual(((5, 1, 1, 1), (5, 3, 1, 1), (5, 3), (5, 1, 1, 1), (5,)), tuple(shapes.values()))
            numpy.testing.assert_allclose(scales["sample"], abs(wanted["sample"]).max((1, 2, 3), keepdims=True) / 127)
            numpy.testing.assert_allclose(scales["channel"], abs(wanted["channel"]).max((2, 3), keepdims=True) / 127)

            def check(name, at, found):
                expected, scale = wanted[name][at], scales[name][at]
                self.assertEqual(("float32", expected.shape), (found.dtype, found.shape))
                self.assertTrue((abs(expected - found) <= scale / 2 + 1e-6 * abs(expected)).all(), (dtype, name))

            self.run_dir = self.folder / dtype
            self.assert_restored(wanted, given, check)

    def test_fp8_is_restored_within_a_sixteenth(self):
        import numpy

        for dtype in ("float32", "bfloat16"):
            values = self.values(4, 3, 50, dtype=dtype)
            values[:, 0] *= 1e-3
            values[2] = 0
            given = {"sample": offramp.reduce.fp8(values), "channel": offramp.reduce.fp8(values, dim=1)}
            wanted = dict.fromkeys(given, values.cpu().double().numpy())
            scales = {name: parts["scale"].cpu().double().numpy() for name, parts in given.items()}
            self.assertEqual(
                ("torch.uint8", (4, 3, 50)), (str(given["sample"]["fp8"].dtype), given["sample"]["fp8"].shape)
            )

            def check(name, at, found):
                expected, scale = wanted[name][at], scales[name][at]
                bound = numpy.maximum(abs(expected) / 16, scale / 1024) + 1e-6 * abs(expected)
                self.assertEqual("float32", found.dtype)
                self.assertTrue((abs(expected - found) <= bound).all(), (dtype, name))

            self.run_dir = self.folder / dtype
            self.assert_restored(wanted, given, check)

    def test_each_byte_of_fp8_has_the_value_that_torch_gives_it(self):
        import numpy
        import torch

        every = torch.arange(256, dtype=torch.uint8)
        found = offramp.reduce.restore({"x.fp8": every.numpy(), "x.scale": numpy.float32(1)}, "x")
        numpy.testing.assert_array_equal(every.view(torch.float8_e4m3fn).float().numpy(), found)

    def test_numbers_that_are_not_finite_spoil_their_scale_only(self):
        import numpy
        import torch

        for bad in (float("nan"), float("inf"), -float("inf")):
            values = torch.ones(3, 2, 4, device=DEVICE)
            values[1, 0, 2] = bad
            for make in (offramp.reduce.int8, offramp.reduce.fp8):
                for dim, spoilt in ((None, [1]), (1, [(1, 0)])):
                    parts = {f"x.{name}": part.cpu().numpy() for name, part in make(values, dim=dim).items()}
                    wanted = numpy.ones((3, 2, 4), "float32")
                    for place in spoilt:
                        wanted[place] = numpy.nan
                    numpy.testing.assert_array_equal(wanted, offramp.reduce.restore(parts, "x"))
            fixed = {f"x.{name}": part.cpu().numpy() for name, part in offramp.reduce.int8(values, scale=1).items()}
            wanted[1, 0] = [1, 1, 0 if bad != bad else 127 if bad > 0 else -127, 1]
            numpy.testing.assert_array_equal(wanted, offramp.reduce.restore(fixed, "x"))

    def test_bits_are_exact(self):
        import numpy
        import torch

        masks = {f"{width}": self.values(3, 2, width) > 0 for width in (1, 7, 8, 9, 64)}
        masks["classes"] = (self.values(3, 2, 12) > 0).int() * 3
        given = {name: offramp.reduce.bitpack(mask) for name, mask in masks.items() if name not in ("1", "7")}
        self.assertEqual((3, 2, 8), tuple(given["64"]["bits"].shape))
        wanted = {name: masks[name].bool().cpu().numpy() for name in given}
        self.assert_restored(
            wanted, given, lambda name, at, found: numpy.testing.assert_array_equal(wanted[name][at], found)
        )
        for name in ("1", "7"):
            parts = {f"x.{part}": each.cpu().numpy() for part, each in offramp.reduce.bitpack(masks[name]).items()}
            self.assertEqual((3, 2, 1), parts["x.bits"].shape)
            numpy.testing.assert_array_equal(masks[name].cpu().numpy(), offramp.reduce.restore(parts, "x"))
        self.assertEqual(torch.uint8, given["9"]["bits"].dtype)

    def test_crops_are_restored_at_their_place(self):
        import numpy
        import torch

        values = self.values(4, 3, 10, 20)
        boxes = torch.tensor([[2.0, 3.0, 7.0, 9.0], [-5, 0.5, 4.2, 99], [30, 2, 40, 4], [0, 0, 20, 10]], device=DEVICE)
        made = offramp.reduce.crop(values, boxes)
        self.assertEqual([(3, 6, 5), (3, 10, 5), (3, 2, 0), (3, 10, 20)], [tuple(each.shape) for each in made["crop"]])
        self.assertEqual([2, 3, 7, 9, 20, 10], made["box"][0].tolist())
        by_sample, _ = self.consumed({"map": made}, 4)
        for row, (left, top, right, bottom) in enumerate(((2, 3, 7, 9), (0, 0, 5, 10), (0, 0, 0, 0), (0, 0, 20, 10))):
            wanted = numpy.zeros((3, 10, 20), "float32")
            wanted[:, top:bottom, left:right] = values[row, :, top:bottom, left:right].cpu().numpy()
            numpy.testing.assert_array_equal(wanted, by_sample[row]["map"])

    def test_wrong_arguments_are_refused(self):
        import torch

        values = torch.zeros(2, 3, 4)
        for call, text in (
            (lambda: offramp.reduce.argmax(values.numpy()), "'scores' is of type numpy.ndarray. Give a torch.Tensor"),
            (lambda: offramp.reduce.argmax(values, 0), "dim is 0. Give 1 to 2; dimension 0 counts the samples"),
            (lambda: offramp.reduce.argmax(values, -3), "dim is -3. Give 1 to 2"),
            (lambda: offramp.reduce.topk(values, 4), "k is 4. Give 1 to 3, the scores"),
            (lambda: offramp.reduce.topk(values[:, 0, 0], 1), r"'scores' has the shape \(2,\). Give at least 2 dim"),
            (lambda: offramp.reduce.int8(values.int()), "'values' has elements of type int32. Give floats"),
            (lambda: offramp.reduce.int8(values, scale=0), "scale is 0. Give a number from 1e-37 to 2e\\+36"),
            (lambda: offramp.reduce.int8(values, scale=1e39), r"scale is 1e\+39. Give a number"),
            (lambda: offramp.reduce.int8(values.int(), scale=1), "'values' has elements of type int32. Give floats"),
            (lambda: offramp.reduce.argmax(values > 0), "'scores' has elements of type bool"),
            (
                lambda: offramp.reduce.argmax(values[:, :0]),
                r"'scores' of shape \(2, 0, 4\) has no scores in dimension 1",
            ),
            (lambda: offramp.reduce.crop(values, None), r"boxes do not have the shape \(2, 4\)"),
            (lambda: offramp.reduce.crop(values, [["a"] * 4] * 2), r"boxes do not have the shape \(2, 4\)"),
            (lambda: offramp.reduce.int8(values, scale=1, dim=1), "scale and dim were given"),
            (lambda: offramp.reduce.fp8(values.to_sparse()), "is sparse"),
            (lambda: offramp.reduce.bitpack(values), "'masks' has elements of type float32. Give bool"),
            (lambda: offramp.reduce.crop(values, [[0, 0, 1, 1]]), r"boxes do not have the shape \(2, 4\)"),
            (lambda: offramp.reduce.crop(values, torch.full((2, 4), float("nan"))), "not finite. Give pixels"),
            (lambda: offramp.reduce.restore({"y": values}, "x"), "nothing of offramp.reduce .* as 'x'. There is y"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.Error, text):
                call()
        run = {"x": offramp.reduce.crop(values, [[0, 0, 1, 1], [0, 0, 2, 2]])}
        with self.assertRaisesRegex(offramp.BadArgument, "the crops 'x' differ in shape. Restore each sample's"):
            with offramp.Egress(self.run_dir) as egress:
                egress.submit(run)
                for slab in offramp.Consumer(self.run_dir):
                    offramp.reduce.restore(slab, "x")

    def test_batches_without_samples_stay_empty(self):
        import torch

        values = torch.zeros(0, 3, 4, device=DEVICE)
        for parts in (
            offramp.reduce.int8(values),
            offramp.reduce.fp8(values, dim=1),
            offramp.reduce.bitpack(values > 0),
            offramp.reduce.crop(values, torch.zeros(0, 4)),
            offramp.reduce.topk(values, 2),
        ):
            self.assertEqual({0}, {len(part) for part in parts.values()})


@unittest.skipUnless(TORCH and TORCHVISION and ON_GPU, "skipped: no GPU (OFFRAMP_TEST_DEVICE=cuda)")
class OnAGpu(World):
    def test_pictures_that_are_computed_later_are_encoded(self):
        """On each kind of stream, also where torchvision copies a picture first, and in memory used before."""
        import torch

        forms = (
            lambda batch: batch,
            lambda batch: list(batch),
            lambda batch: batch.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
            lambda batch: batch[:, :1],
        )
        batches = [torch.stack([photo(96, 128, seed=8 * turn + row) for row in range(8)]) for turn in range(4)]
        for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            for form in forms:
                wanted = [[encoded(each, 90) for each in form(batch.cuda())] for batch in batches]
                found = []
                with torch.cuda.stream(stream):
                    for batch in batches:
                        source = batch.cuda()
                        torch.cuda._sleep(20_000_000)
                        late = torch.zeros_like(source).add_(source)
                        files = offramp.reduce.jpeg(form(late))
                        found.append([each.clone() for each in files])  # on this stream
                        del late, files
                torch.cuda.synchronize()
                self.assertEqual(wanted, [[each.cpu().numpy().tobytes() for each in files] for files in found])

    def test_two_devices_and_a_captured_graph_are_refused(self):
        import torch

        pictures = torch.zeros(1, 3, 8, 8, dtype=torch.uint8, device="cuda")
        offramp.reduce.jpeg(pictures)
        with self.assertRaisesRegex(offramp.BadArgument, r"'pictures\[1\]' is on the device 'cpu', .*'cuda:0'. Give"):
            offramp.reduce.jpeg([pictures[0], pictures[0].cpu()])
        with self.assertRaisesRegex(offramp.BadArgument, "CUDA graph is being captured"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                offramp.reduce.jpeg(pictures)
