"""
Make outputs smaller on their device, before they are copied to shared memory. A function that needs more than one
tensor returns a mapping, whose parts become tensors of the slab; restore() makes NumPy arrays of them.

    egress.submit({"logits": offramp.reduce.int8(logits)}, keys)         # "logits.int8" and "logits.scale"
    logits = offramp.reduce.restore(values, "logits")                    # in a consumer

The functions are PyTorch's own operations on the current stream: they do not wait for the device, but for jpeg() and
crop(). The first dimension counts the samples. Thread: any. Errors: BadArgument.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Mapping

from offramp import _validate
from offramp._errors import BadArgument, LibraryNotFound, NoSuchTensor
from offramp._packages import needs
from offramp._slab import Slab
from offramp._torch import is_torch, require_dense, torch_of_the_caller

__all__ = ["argmax", "bitpack", "crop", "fp8", "int8", "jpeg", "restore", "topk"]

_LONGEST_SIDE = 65_500  # libjpeg's limit
_LEAST_ON_CUDA = (0, 22)  # older versions read a picture's bytes on a stream that does not wait for the encoder
_EXAMPLE = "a uint8 tensor of shape (samples, 3, height, width), or a list of tensors of shape (3, height, width)"
_LEAST_SCALE, _LARGEST_SCALE = 1e-37, 2e36  # float32 holds them, and 127 times as much
_LARGEST_FP8 = 448.0  # of float8_e4m3fn


def argmax(scores: Any, dim: int = 1) -> Any:
    """
    The index of the largest score along `dim`, without that dimension: uint8 for up to 256 scores, else int16 or int32.
    float32 logits of 21 classes become 1/84. Equal scores: any of their indices, as in torch.argmax.
    """
    torch = _require("scores", scores, 2)
    dim = _dim_of(scores, dim)
    _require_scores(scores, dim)
    return scores.argmax(dim).to(_index_type(torch, scores.shape[dim]))


def topk(scores: Any, k: int, dim: int = 1) -> dict[str, Any]:
    """
    The `k` largest scores along `dim`, in decreasing order: {"values": in their own type, "indices": uint8, int16 or
    int32}, both with the extent k in `dim`. The other scores are lost.
    """
    torch = _require("scores", scores, 2)
    dim = _dim_of(scores, dim)
    _require_scores(scores, dim)
    extent = scores.shape[dim]
    values, indices = scores.topk(_validate.whole("k", k, extent, f"1 to {extent}, the scores", least=1), dim)
    return {"values": values, "indices": indices.to(_index_type(torch, extent))}


def int8(values: Any, scale: float | None = None, dim: int | None = None) -> dict[str, Any]:
    """
    Floats as {"int8": whole multiples of a scale, -127 to 127, "scale": float32}. A quarter of float32. The scale of
    each sample is its largest absolute value / 127; with `dim` (a channel), that of each index of the dimension in the
    sample. Shape of the scale: that of `values`, with extents of 1.

    Error of a restored value: at most half the scale, beside the rounding of float32. Where a sample (or channel) has a
    NaN, an infinity or a float64 beyond float32, all of it is restored as NaN.

    `scale`: one for all values, such as one that you measured before. Values beyond 127 times the scale are restored as
    127 times the scale, and NaN as 0.
    """
    torch = _require("values", values, 1)
    if scale is None:
        scales = _scales(values, 127.0, dim)
    elif dim is not None:
        raise BadArgument("scale and dim were given. Give a scale for all values, or a dim with a scale for each index")
    elif not _LEAST_SCALE <= _validate.number("scale", scale) <= _LARGEST_SCALE:
        raise BadArgument(f"scale is {scale}. Give a number from {_LEAST_SCALE} to {_LARGEST_SCALE}")
    else:
        _require_floats(values)
        shape = (len(values),) + (1,) * (values.dim() - 1)
        scales = torch.full(shape, float(scale), dtype=torch.float32, device=values.device)
    return {"int8": _multiples(values, scales).round_().clamp_(-127, 127).to(torch.int8), "scale": scales}


def fp8(values: Any, dim: int | None = None) -> dict[str, Any]:
    """
    Floats as {"fp8": the bytes of float8_e4m3fn, as uint8, "scale": float32}. A quarter of float32. Scales are those of
    int8(), with 448 in place of 127, and so are NaN and infinities.

    Error of a restored value: at most 1/16 of it, or 1/1024 of the scale if that is more. So small values keep more
    digits than with int8(), and large ones fewer.
    """
    torch = _require("values", values, 1)
    scales = _scales(values, _LARGEST_FP8, dim)
    within = _multiples(values, scales).clamp_(-_LARGEST_FP8, _LARGEST_FP8)
    return {"fp8": within.to(torch.float8_e4m3fn).view(torch.uint8), "scale": scales}


def bitpack(masks: Any) -> dict[str, Any]:
    """
    Masks (bool, or whole numbers of which 0 is false) as bits: {"bits": uint8, 8 along the last dimension in a byte,
    the first in its highest bit, "width": int32, the last extent, for each sample}. An eighth of bool. Exact.
    """
    torch, width = _require("masks", masks, 2), masks.shape[-1]
    if masks.is_floating_point() or masks.is_complex():
        raise BadArgument(f"'masks' has elements of type {_type(masks)}. Give bool, for example scores > 0.5")
    bits = torch.nn.functional.pad(masks.ne(0).to(torch.uint8), (0, -width % 8)).unflatten(-1, (-(-width // 8), 8))
    places = torch.arange(7, -1, -1, dtype=torch.uint8, device=masks.device)
    return {
        "bits": (bits << places).sum(-1, dtype=torch.uint8),
        "width": torch.full(masks.shape[:1], width, dtype=torch.int32, device=masks.device),
    }


def crop(values: Any, boxes: Any) -> dict[str, Any]:
    """
    The part of each sample in its box: {"crop": a list of tensors of shape (..., height, width), "box": int32}. Each
    sample's box row is left, top, right, bottom, and the width and height of `values`. Restored values are exact, and 0
    outside the box.

    `values`: of shape (samples, ..., height, width). `boxes`: of shape (samples, 4), left, top, right, bottom in
    pixels, right and bottom excluded; fractions are rounded outwards, and boxes end where the picture does. Shapes must
    be known on the CPU, so boxes on a CUDA device are waited for. The crops are views of `values`.
    """
    torch = _require("values", values, 3)
    height, width = values.shape[-2:]
    rows = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if (
        not isinstance(rows, (list, tuple))
        or len(rows) != len(values)
        or not all(isinstance(row, (list, tuple)) and len(row) == 4 for row in rows)
        or not all(isinstance(number, Real) for row in rows for number in row)
    ):
        raise BadArgument(
            f"boxes do not have the shape ({len(values)}, 4). Give left, top, right, bottom of each sample"
        )
    if not all(math.isfinite(number) for row in rows for number in row):
        raise BadArgument("boxes have a number that is not finite. Give pixels")
    crops, taken = [], []
    for sample, (left, top, right, bottom) in zip(values, rows):
        left, top = (min(max(0, math.floor(low)), high) for low, high in ((left, width), (top, height)))
        right = min(max(left, math.ceil(right)), width)
        bottom = min(max(top, math.ceil(bottom)), height)
        crops.append(sample[..., top:bottom, left:right])
        taken.append([left, top, right, bottom, width, height])
    return {"crop": crops, "box": torch.tensor(taken, dtype=torch.int32, device=values.device).reshape(-1, 6)}


def restore(values: Slab | Mapping[str, Any], name: str) -> Any:
    """
    The numbers that were submitted under `name` through int8(), fp8(), bitpack() or crop(), as a NumPy array of its own
    memory: float32, float32, bool, or the type of `values` there. The function's docstring states the error.

    `values`: what `for sample, values in slab` yields, for one sample, or the slab, for all its rows. Crops differ in
    shape, so they are restored by sample. Errors: NoSuchTensor if nothing of the kind was submitted under the name.
    """
    import numpy

    names = [info.name for info in values.tensors] if isinstance(values, Slab) else list(values)
    parts = {each[len(name) + 1 :] for each in names if each.startswith(f"{name}.")}
    if parts >= {"int8", "scale"}:
        return _scaled(values[f"{name}.int8"].astype("float32"), values[f"{name}.scale"])
    if parts >= {"fp8", "scale"}:
        return _scaled(_floats_of_fp8()[values[f"{name}.fp8"]], values[f"{name}.scale"])
    if parts >= {"bits", "width"}:
        width = int(numpy.ravel(values[f"{name}.width"])[0])
        return numpy.unpackbits(values[f"{name}.bits"], axis=-1, count=width).astype(bool)
    if parts >= {"crop", "box"}:
        if isinstance(values, Slab):
            raise BadArgument(f"the crops '{name}' differ in shape. Restore each sample's: for sample, values in slab")
        part, (left, top, right, bottom, width, height) = values[f"{name}.crop"], values[f"{name}.box"].tolist()
        whole = numpy.zeros((*part.shape[:-2], height, width), part.dtype)
        whole[..., top:bottom, left:right] = part
        return whole
    raise NoSuchTensor(f"nothing of offramp.reduce was submitted as '{name}'. There is {', '.join(names)}")


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
    with needs("offramp.reduce.jpeg", "the torchvision for your PyTorch", "torchvision"):
        import torchvision
        from torchvision.io import encode_jpeg
    version = tuple(map(int, torchvision.__version__.split("+")[0].split(".")[:2]))
    if device.type == "cuda" and version < _LEAST_ON_CUDA:
        raise LibraryNotFound(
            f"torchvision {torchvision.__version__} may damage JPEG files that it encodes on CUDA. Install 0.22 or later"
        )
    return encode_jpeg


def _require(name: str, given: Any, dims: int) -> Any:
    """Returns PyTorch."""
    if not is_torch(given):
        raise BadArgument(
            f"'{name}' is of type {type(given).__module__}.{type(given).__qualname__}. Give a torch.Tensor of shape (samples, ...)"
        )
    require_dense(name, given)
    if given.dim() < dims:
        raise BadArgument(
            f"'{name}' has the shape {tuple(given.shape)}. Give at least {dims} dimensions, samples first"
        )
    return torch_of_the_caller()


def _type(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _dim_of(tensor: Any, dim: Any) -> int:
    dims: int = tensor.dim()
    if isinstance(dim, bool) or not isinstance(dim, int) or not -dims <= dim < dims or dim % dims == 0:
        raise BadArgument(f"dim is {dim!r:.80}. Give 1 to {dims - 1}; dimension 0 counts the samples")
    return dim % dims


def _index_type(torch: Any, extent: int) -> Any:
    return torch.uint8 if extent <= 1 << 8 else torch.int16 if extent <= 1 << 15 else torch.int32


def _scales(values: Any, largest: float, dim: int | None) -> Any:
    """float32, of the same number of dimensions."""
    torch = torch_of_the_caller()
    kept = {0} if dim is None else {0, _dim_of(values, dim)}
    over = [each for each in range(values.dim()) if each not in kept]
    _require_floats(values)
    if values.numel() == 0:
        return torch.zeros(
            [extent if at in kept else 1 for at, extent in enumerate(values.shape)], device=values.device
        )
    values = values.detach()
    if not over:
        return values.abs().float() / largest
    return torch.linalg.vector_norm(values, math.inf, over, keepdim=True).float() / largest


def _require_floats(values: Any) -> None:
    if not values.is_floating_point():
        raise BadArgument(f"'values' has elements of type {_type(values)}. Give floats")


def _require_scores(scores: Any, dim: int) -> None:
    if scores.is_complex() or _type(scores) == "bool":
        raise BadArgument(f"'scores' has elements of type {_type(scores)}. Give numbers in an order")
    if scores.shape[dim] == 0:
        raise BadArgument(f"'scores' of shape {tuple(scores.shape)} has no scores in dimension {dim}")


def _multiples(values: Any, scales: Any) -> Any:
    """0 where the scale is 0, because all values are, and where the quotient is NaN."""
    return (values.detach().float() / scales).nan_to_num_(nan=0.0)


def _scaled(values: Any, scales: Any) -> Any:
    import numpy

    with numpy.errstate(invalid="ignore"):  # 0 times the infinity of a sample that is restored as NaN
        values *= scales
    return values


def _floats_of_fp8() -> Any:
    """The value of each byte of float8_e4m3fn: a sign, 4 bits of exponent, 3 of mantissa, no infinities."""
    import numpy

    positive = numpy.arange(128)
    exponent, mantissa = positive >> 3, positive & 7
    values = numpy.ldexp((mantissa + 8 * (exponent > 0)).astype("float32"), numpy.maximum(exponent, 1) - 10)
    values[127] = numpy.nan
    return numpy.concatenate([values, -values])
