"""
Make outputs smaller on their device, before they are copied to shared memory.

    egress.submit({"picture": offramp.reduce.jpeg(pictures, quality=90)}, keys)
"""

from __future__ import annotations

from typing import Any

from offramp import _validate
from offramp._errors import BadArgument, LibraryNotFound
from offramp._torch import is_torch, require_dense, torch_of_the_caller

__all__ = ["jpeg"]

_LONGEST_SIDE = 65_500  # libjpeg's limit
_LEAST_ON_CUDA = (0, 22)  # older versions read a picture's bytes on a stream that does not wait for the encoder
_EXAMPLE = "a uint8 tensor of shape (samples, 3, height, width), or a list of tensors of shape (3, height, width)"


def jpeg(pictures: Any, quality: int = 90) -> list[Any]:
    """
    Encodes pictures as JPEG on their device. Returns one uint8 tensor of shape (bytes,) per picture, for
    Egress.submit(). The processor `image` writes them to KEY.jpg unchanged.

    `pictures`: a uint8 torch.Tensor of shape (samples, channels, height, width), or a list of tensors of shape
    (channels, height, width), which may differ in size. Channels: 3 (red, green, blue) or 1 (gray). `quality`: 1 to
    100.

    torchvision.io.encode_jpeg does the work. On the CPU, libjpeg encodes one picture after another and halves the
    resolution of colours. On CUDA, nvJPEG keeps their resolution, and a gray picture becomes a file of three equal
    channels.

    On CUDA, torchvision encodes on a stream of its own, which does not wait for PyTorch's current stream. So this
    function waits until the current stream is idle, encodes, and then waits until the device is idle: the results are
    complete on every stream. Call it in the thread that submits; work that other threads put on the same stream
    meanwhile may write to memory that the encoder uses.

    Errors: BadArgument for pictures that JPEG cannot store. LibraryNotFound without torchvision.
    """
    quality = _validate.whole("quality", quality, 100, "1 to 100", least=1)
    each = _each_of(pictures)
    if not each:
        return []
    device = each[0].device
    encode_jpeg = _encoder(device)
    if device.type == "cpu":
        return [encode_jpeg(picture, quality) for picture in each]
    cuda = torch_of_the_caller().cuda
    if cuda.is_current_stream_capturing():
        raise BadArgument("a CUDA graph is being captured, so its pictures do not exist yet. Encode after a replay")
    each = [picture.expand(3, -1, -1).contiguous() for picture in each]  # torchvision would not wait for its own copies
    cuda.current_stream(device).synchronize()
    made: list[Any] = encode_jpeg(each, quality)
    cuda.synchronize(device)
    return made


def _each_of(pictures: Any) -> list[Any]:
    if isinstance(pictures, (list, tuple)):
        for index, picture in enumerate(pictures):
            _require_picture(f"pictures[{index}]", picture, 3)
            if picture.device != pictures[0].device:
                raise BadArgument(
                    f"'pictures[{index}]' is on the device '{picture.device}', 'pictures[0]' on '{pictures[0].device}'. Give pictures of one device"
                )
        return list(pictures)
    _require_picture("pictures", pictures, 4)
    return list(pictures)


def _require_picture(name: str, given: Any, dims: int) -> None:
    if not is_torch(given):
        raise BadArgument(f"'{name}' is of type {type(given).__module__}.{type(given).__qualname__}. Give {_EXAMPLE}")
    require_dense(name, given)
    if str(given.dtype) != "torch.uint8":
        raise BadArgument(
            f"'{name}' has elements of type {str(given.dtype).rpartition('.')[2]}. Give uint8; for values from 0 to 1: "
            "pictures.clamp(0, 1).mul(255).round().to(torch.uint8)"
        )
    shape = tuple(given.shape)
    if len(shape) != dims:
        raise BadArgument(f"'{name}' has the shape {shape}. Give {_EXAMPLE}")
    if shape[-3] not in (1, 3):
        order = "(0, 3, 1, 2)" if dims == 4 else "(2, 0, 1)"
        raise BadArgument(
            f"'{name}' of shape {shape} has {shape[-3]} channels, and JPEG stores 1 or 3"
            + (f". If they are the last dimension, give {name}.permute{order}" if shape[-1] in (1, 3) else "")
        )
    if not 1 <= min(shape[-2:]) <= max(shape[-2:]) <= _LONGEST_SIDE:
        raise BadArgument(
            f"'{name}' of shape {shape} has pictures of {shape[-2]} x {shape[-1]} pixels. Give sides of 1 to {_LONGEST_SIDE:,} pixels"
        )
    if given.device.type not in ("cpu", "cuda"):
        raise BadArgument(f"'{name}' is on the device '{given.device}'. Give a tensor on the CPU or a CUDA device")


def _encoder(device: Any) -> Any:
    try:
        import torchvision  # type: ignore[import-untyped]
        from torchvision.io import encode_jpeg  # type: ignore[import-untyped]
    except ImportError as problem:
        raise LibraryNotFound(
            f"offramp.reduce.jpeg needs torchvision: {problem}. Install the version for your PyTorch: pip install torchvision"
        ) from problem
    version = tuple(map(int, torchvision.__version__.split("+")[0].split(".")[:2]))
    if device.type == "cuda" and version < _LEAST_ON_CUDA:
        raise LibraryNotFound(
            f"torchvision {torchvision.__version__} may damage JPEG files that it encodes on CUDA. Install 0.22 or later"
        )
    return encode_jpeg
