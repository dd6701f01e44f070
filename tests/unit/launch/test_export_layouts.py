"""Memory layouts of GPU exports, tested with PyTorch's fake tensors, without a GPU."""

import importlib.util
import unittest

HAS_CUDNN = False
if importlib.util.find_spec("torch"):
    import torch

    HAS_CUDNN = torch.backends.cudnn.is_available()


@unittest.skipUnless(HAS_CUDNN, "needs a PyTorch with cuDNN")
class Layouts(unittest.TestCase):
    def test_compiling_ignores_the_strides_seen_while_tracing(self):
        """Tracing assumes a contiguous result of a convolution, but cuDNN returns channels-last."""
        from exporter.compiling import traced
        from torch._guards import TracingContext, tracing
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        def pretended(shape):
            return torch.empty(shape, device="cuda").to(memory_format=torch.channels_last)

        network = torch.nn.Conv2d(3, 16, 3, bias=False).requires_grad_(False)
        with FakeTensorMode(
            shape_env=ShapeEnv(tracked_fakes=[]), allow_non_fake_inputs=True, export=True
        ) as pretending:
            pictures = pretended((4, 3, 32, 32))
            network.weight = torch.nn.Parameter(pretended((16, 3, 3, 3)), requires_grad=False)
        with tracing(TracingContext(pretending)):
            program = traced(network, (pictures,), {}, None)
        convolution = next(node for node in program.graph.nodes if "conv" in str(node.target))
        self.assertTrue(
            convolution.meta["val"].is_contiguous(), "tracing sees the real strides now: compiling may use them"
        )
        with pretending, torch.no_grad():
            found = torch.ops.aten.convolution(
                pretended((4, 3, 32, 32)), pretended((16, 3, 3, 3)), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
            )
        self.assertTrue(found.is_contiguous(memory_format=torch.channels_last), f"strides {found.stride()}")
