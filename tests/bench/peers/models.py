"""
The peers' models, in PyTorch, as fast as eager PyTorch goes: batch normalisation folded, channels-last, autotuned, and
the small logits widened to float32 before they are enlarged, as ours are. The short one is replayed as a CUDA graph, as
ours is. Weights are random, because only speed matters.
"""

import torch

TOKENS, WIDTH, EMBEDDING = 128, 256, 1024
RUNS_BEFORE_CAPTURE = 3  # the first calls, in which libraries choose kernels and reserve workspaces, cannot be captured


class Model:
    """A function of an input tensor on the device, the shape of that input, and what it computes in."""

    def __init__(self, run, input_shape):
        self.run = run
        self.input_shape = input_shape


def make_model(options, device):
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    return {"deeplabv3": make_deeplab, "copy": make_copy, "encoder": make_encoder}[options.model](
        options, device, dtype
    )


def make_copy(options, device, dtype):
    output = torch.randint(256, (options.batch, options.copy_bytes // options.batch), device=device, dtype=torch.uint8)
    return Model(lambda _: output, None)


def make_deeplab(options, device, dtype):
    from torchvision.models.segmentation import deeplabv3_resnet50

    network = deeplabv3_resnet50(weights=None, weights_backbone=None).eval()
    fold_normalisation(network)
    network = network.to(device=device, dtype=dtype, memory_format=torch.channels_last)
    side = options.image_size

    def run(images):
        small = network.classifier(network.backbone(images.to(dtype=dtype, memory_format=torch.channels_last))["out"])
        small = small.float().contiguous()
        return torch.nn.functional.interpolate(small, size=(side, side), mode="bilinear", align_corners=False)

    return Model(run, (options.batch, 3, side, side))


def fold_normalisation(module):
    """Fold each batch normalisation into its convolution: the same results with one pass less over memory."""
    previous_name, previous = None, None
    for name, child in list(module.named_children()):
        if isinstance(child, torch.nn.BatchNorm2d) and isinstance(previous, torch.nn.Conv2d):
            setattr(module, previous_name, torch.nn.utils.fusion.fuse_conv_bn_eval(previous, child))
            setattr(module, name, torch.nn.Identity())
        else:
            fold_normalisation(child)
        previous_name, previous = name, child


def make_encoder(options, device, dtype):
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, 8, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    encoder = torch.nn.TransformerEncoder(layer, 4, norm=torch.nn.LayerNorm(WIDTH), enable_nested_tensor=False)
    encoder = encoder.eval().to(device=device, dtype=dtype)
    project = torch.nn.Linear(WIDTH, EMBEDDING).to(device=device, dtype=dtype)
    position = torch.rand(TOKENS, WIDTH, device=device, dtype=dtype) / 10

    def run(tokens):
        return project(encoder(tokens.to(dtype) + position).mean(1)).float()

    shape = (options.batch, TOKENS, WIDTH)
    return Model(Replay(run, shape, device).run if device.type == "cuda" else run, shape)


class Replay:
    """
    A function of one float32 tensor on the device, captured once as a CUDA graph. The graph has its own memory: the
    input is copied in and the output copied out, so that an output can be kept while the next is computed.
    """

    def __init__(self, run, shape, device):
        self._input = torch.randn(shape, device=device)
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(RUNS_BEFORE_CAPTURE):
                run(self._input)
        torch.cuda.current_stream().wait_stream(beside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._output = run(self._input)

    def run(self, given):
        self._input.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._output.clone()
