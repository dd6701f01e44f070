"""Outputs made smaller on their device: JPEG files, from the loop to the folder of results."""

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
            with self.assertRaisesRegex(offramp.LibraryNotFound, "needs torchvision: .* pip install torchvision"):
                offramp.reduce.jpeg(pictures)


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


if __name__ == "__main__":
    unittest.main()
