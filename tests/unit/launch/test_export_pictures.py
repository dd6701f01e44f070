"""The input pictures in an export's metadata: from torchvision's transforms or the user's flags."""

import importlib.util
import pathlib
import tempfile
import types
import unittest

HAS_TORCHVISION = all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))


@unittest.skipUnless(HAS_TORCHVISION, "needs PyTorch and torchvision")
class Pictures(unittest.TestCase):
    def plan(self, *flags, defaults):
        from exporter import arguments, compiling
        from exporter.networks import Network

        wish = arguments.parse(["module:function", "--device", "cpu", *flags])
        return compiling.plan(wish, Network("network", None, False, defaults))

    def defaults_of(self, name):
        from exporter.networks import torchvision_defaults
        from torchvision import models

        return torchvision_defaults(models.get_model_weights(name))

    def metadata_of(self, plan):
        from exporter import metadata
        from exporter.networks import Network

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "network.toml")
            metadata.write(
                path,
                types.SimpleNamespace(model="network", weights=None, colour_order="rgb", scores=None),
                plan,
                Network("network", None, False, None),
                ["out"],
                False,
            )
            return path.read_text()

    def test_a_classifier_crops_the_middle(self):
        # resnet18's preset uses torchvision's default for the shorter side; resnet50's sets its own.
        for name, shorter in (("resnet18", 256), ("resnet50", 232)):
            plan = self.plan(defaults=self.defaults_of(name))
            self.assertEqual((plan.sample, plan.resize_size), ((3, 224, 224), shorter), name)
            self.assertIn(
                f'image-size = 224\nresize-size = {shorter}\ninterpolation = "bilinear"\nmean = ',
                self.metadata_of(plan),
            )

    def test_some_models_resize_bicubically(self):
        defaults = self.defaults_of("efficientnet_b0")
        self.assertIn('interpolation = "bicubic"\n', self.metadata_of(self.plan(defaults=defaults)))
        self.assertEqual(self.plan("--interpolation", "bilinear", defaults=defaults).interpolation, "bilinear")

    def test_segmentation_uses_the_whole_picture(self):
        plan = self.plan(defaults=self.defaults_of("deeplabv3_resnet50"))
        self.assertEqual((plan.sample, plan.resize_size), ((3, 520, 520), 0))
        self.assertNotIn("resize-size", self.metadata_of(plan))

    def test_presets_without_one_side_give_nothing(self):
        for name in ("r3d_18", "fasterrcnn_resnet50_fpn"):
            defaults = self.defaults_of(name)
            self.assertEqual(defaults.resize_size, 0, name)
            self.assertIsInstance(defaults.image_size, int, name)

    def test_another_size_keeps_the_crop_share(self):
        defaults = self.defaults_of("resnet18")
        self.assertEqual(self.plan("--image-size", "112", defaults=defaults).resize_size, 128)
        self.assertEqual(self.plan("--image-size", "8000", defaults=defaults).resize_size, 8192)
        for squeezed in ("96x112", "16"):
            self.assertEqual(self.plan("--image-size", squeezed, defaults=defaults).resize_size, 0, squeezed)

    def test_flags_override_the_preset(self):
        defaults = self.defaults_of("resnet18")
        self.assertEqual(self.plan("--resize-size", "300", defaults=defaults).resize_size, 300)
        self.assertEqual(self.plan("--resize-size", "none", defaults=defaults).resize_size, 0)

    def test_refuses_sizes_that_do_not_fit(self):
        from offramp_launch.exit_code import LaunchError

        defaults = self.defaults_of("resnet18")
        for flags in (
            ("--resize-size", "200"),
            ("--resize-size", "300", "--image-size", "96x112"),
            ("--resize-size", "300", "--image-size", "16"),
        ):
            with self.assertRaises(LaunchError) as refused:
                self.plan(*flags, defaults=defaults)
            self.assertIn("Give a square --image-size of 32 to", refused.exception.fix)
        for flags, problem in (
            (("--input", "a=float32:3", "--resize-size", "none"), "--resize-size cannot be combined with --input"),
            (
                ("--input-shape", "4x4", "--resize-size", "256"),
                "--resize-size is for networks that take pictures, but module:function takes numbers",
            ),
            (
                ("--input-shape", "4x4", "--interpolation", "bicubic"),
                "--interpolation is for networks that take pictures",
            ),
            (("--resize-size", "20"), "'20' is neither a number from 32 to 8192 nor 'none'"),
        ):
            with self.assertRaisesRegex(LaunchError, problem):
                self.plan(*flags, defaults=defaults)
