"""
Test processors without a run: save a slab to a file and process it with a real consumer, like `offramp dead-letters
retry`.

    slab = save_slab(folder / "slab.safetensors", {"logits": numpy.zeros((2, 21, 8, 8), "float32")}, ["a", "b"])
    files = process(slab, "post.py:save", folder / "results")
    assert files["a.png"].startswith(b"\\x89PNG")
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
from typing import Iterable, Mapping

from offramp import _abi, _validate
from offramp._arrays import Outputs
from offramp._consumers import flags_of
from offramp._errors import BadArgument, CannotWrite, Error, Failed
from offramp._metadata import json_of
from offramp._keys import key_text_of, keys_of
from offramp._order import outermost_first, strides_of
from offramp._samples import samples_of, shapes_of

__all__ = ["build", "process", "save_slab"]

PROGRAMS = "OFFRAMP_BIN_DIR"  # the folder of offramp-consumer
_PACKAGE = pathlib.Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2]
_STORED = {"int": "I", "uint": "U", "float": "F", "bfloat": "BF"}


def save_slab(
    path: str | os.PathLike[str],
    tensors: Mapping[str, object],
    keys: Iterable[str] | None = None,
    name: str = "test",
    metadata: Iterable[Mapping[str, object] | None] | None = None,
) -> pathlib.Path:
    """
    Writes a slab in the format of dead letters and returns its path.

    `tensors`: by name, on the CPU, as for Egress.submit(): arrays of shape (samples, ...), lists of one array per
    sample, or offramp.packed(). `keys`: one per sample; they name its results. Default: "0", "1", and so on. `name`:
    the value of slab.name. `metadata`: one per sample, as for Egress.submit(). Errors: BadArgument for
    unsupported arguments.
    """
    tensors = _validate.mapping("tensors", tensors, "{'logits': array}")
    given = {
        _validate.text("a tensor's name", each): samples_of(each, tensor, copy=False)
        for each, tensor in tensors.items()
    }
    if not given:
        raise BadArgument("the slab has no tensors. Give one or more")
    rows = next(iter(given.values())).rows
    keys = [str(row) for row in range(rows)] if keys is None else keys_of(keys)
    for each, outputs in given.items():
        if outputs.rows != rows:
            raise BadArgument(
                f"'{each}' has {outputs.rows} samples, and the first tensor {rows}. Give tensors of one batch"
            )
        if outputs.device != "cpu":
            raise BadArgument(f"'{each}' is on the device '{outputs.device}'. Give tensor.cpu()")
    key_text_of(keys, rows, once=True)
    payload = _payload(given, list(keys), _validate.text("name", name), json_of(metadata, rows) or [None] * rows)
    target = pathlib.Path(_validate.path("path", path)).absolute()
    try:
        target.write_bytes(payload)
    except OSError as problem:
        raise CannotWrite(f"{target} cannot be written: {problem.strerror}. Give another path") from problem
    return target


def process(
    slab: str | os.PathLike[str],
    processor: str,
    output: str | os.PathLike[str],
    options: Mapping[str, object] | None = None,
    python: str = sys.executable,
) -> dict[str, bytes]:
    """
    Processes the slab and returns all files in `output`: a mapping from relative paths to bytes.

    `slab`: a path from save_slab(), or a dead letter (RUN/dead-letters/NAME.safetensors). `processor`, `options`,
    `python`: the values of
    --processor, --processor-option and --consumer-python. Blocks: until the consumer exits. Errors: Failed, with the
    consumer's output, if the processor fails; Error if offramp-consumer is not found.
    """
    folder = pathlib.Path(_validate.path("output", output))
    options = {} if options is None else _validate.mapping("options", options, "{'factor': 2}")
    flags = [
        f"--processor={_validate.text('processor', processor)}",
        f"--consumer-python={_validate.path('python', python)}",
        f"--output={folder}",
        *flags_of({"processor-option": options} if options else {}),
    ]
    slab = _validate.path("slab", slab)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(f"{folder} cannot be created: {problem.strerror}. Give another output") from problem
    for command in (["retry", slab], ["finish"]):
        done = subprocess.run(
            [str(consumer()), *command, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failed(f"{processor} exited with {done.returncode}:\n{(done.stdout + done.stderr).strip()}")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".offramp-")
    }


def build(source: str | os.PathLike[str], folder: str | os.PathLike[str]) -> str:
    """
    Compiles a processor in C or C++ into `folder` and returns its name for --processor: so:FOLDER/NAME.so. CC and CXX
    name the compilers. Headers come from the package, else from pkg-config, else from the checkout. Errors: Error, with
    the compiler's output.
    """
    path = pathlib.Path(_validate.path("source", source))
    library = pathlib.Path(_validate.path("folder", folder), path.stem + ".so").absolute()
    compiler, standard = (
        (os.environ.get("CC", "cc"), "-std=c11")
        if path.suffix == ".c"
        else (os.environ.get("CXX", "c++"), "-std=c++20")
    )
    command = [
        compiler,
        standard,
        *"-O2 -Wall -Wextra -shared -fPIC".split(),
        *_include(),
        str(path),
        "-o",
        str(library),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise Error(
            f"{compiler} cannot be started ({problem.strerror}). Install a compiler, or name one in CC or CXX"
        ) from None
    if done.returncode != 0:
        remedy = (
            ""
            if _include() or "offramp_processor.h" not in done.stderr
            else "\nOfframp's headers are not installed. Install them: apt-get install offramp-dev"
        )
        raise Error(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}{remedy}")
    return f"so:{library}"


def consumer() -> pathlib.Path:
    """
    Finds offramp-consumer: in OFFRAMP_BIN_DIR, else in the package, the checkout's build or the PATH. Errors: Error.
    """
    named = os.environ.get(PROGRAMS)
    places = (
        [named]
        if named
        else [
            str(_PACKAGE / "programs" / "bin"),
            str(_CHECKOUT / "build" / "release" / "bin"),
            os.environ.get("PATH", ""),
        ]
    )
    found = shutil.which("offramp-consumer", path=os.pathsep.join(places))
    if not found:
        raise Error(
            f"offramp-consumer was not found {'in ' + named if named else 'on the PATH'}. Build or install it, or set {PROGRAMS} to "
            "its folder"
        )
    return pathlib.Path(found)


def _include() -> list[str]:
    packaged = _PACKAGE / "programs" / "include"
    if packaged.is_dir():
        return [f"-I{packaged}"]
    if shutil.which("pkg-config"):
        done = subprocess.run(["pkg-config", "--cflags", "offramp"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split()
    headers = _CHECKOUT / "common" / "abi" / "include"
    return [f"-I{headers}"] if headers.is_dir() else []


def _payload(tensors: Mapping[str, Outputs], keys: list[str], name: str, metadata: list[bytes | None]) -> bytes:
    """The format of common/dead_letters/payload_file.cpp, in Python; a C++ test reads it."""
    stored, descriptions, pieces, begin = {}, [], [], 0
    for each, outputs in tensors.items():
        piece, shape = _bytes_of(outputs), [extent or 0 for extent in outputs.shape]
        stored[each] = {
            "dtype": _stored_type(outputs.dtype.name, outputs.dtype.bits),
            "shape": _stored_shape(outputs, len(piece)),
            "data_offsets": [begin, begin + len(piece)],
        }
        description = {"name": each, "stored_as": each, "dtype": [outputs.dtype.code, outputs.dtype.bits]}
        if outputs.samples is None:
            description.update(shape=shape, strides=strides_of(shape, outputs.order))
        else:
            pattern = [_abi.VARIABLE if extent is None else extent for extent in outputs.shape]
            description.update(shape=pattern, strides=[], extents=list(outputs.samples.extents))
        descriptions.append(description)
        pieces.append(piece)
        begin += len(piece)
    slab = {
        "format": 1 if all(outputs.samples is None for outputs in tensors.values()) else 2,
        "epoch": 1,
        "slab": 0,
        "generation": 1,
        "payload_bytes": begin,
        "transform": 0,
        "upsample_factor": 1,
        "model": name,
        "precision": "",
        "memory_format": "",
        "batches": [[0, 0, len(keys)]],
        "samples": [
            [row, key, False, *([text.decode()] if text else [])] for row, (key, text) in enumerate(zip(keys, metadata))
        ],
        "tensors": descriptions,
    }
    header = json.dumps({"__metadata__": {"offramp": json.dumps(slab)}, **stored}).encode()
    header += b" " * (-len(header) % 8)
    return b"".join([struct.pack("<Q", len(header)), header, *pieces])


def _stored_type(name: str, bits: int) -> str:
    return "BOOL" if name == "bool" else f"{_STORED[name.rstrip('0123456789')]}{bits}"


def _bytes_of(outputs: Outputs) -> bytes:
    size = outputs.dtype.bits // 8
    if outputs.samples is None:
        return ctypes.string_at(outputs.address, math.prod(extent or 0 for extent in outputs.shape) * size)
    sizes = [math.prod(shape) * size for shape in shapes_of(outputs)]
    if outputs.samples.addresses is None:
        return ctypes.string_at(outputs.address, sum(sizes))
    return b"".join(map(ctypes.string_at, outputs.samples.addresses, sizes))


def _stored_shape(outputs: Outputs, size: int) -> list[int]:
    """In the order of memory. Samples that differ in more than their first dimension are one list of elements."""
    if outputs.samples is None:
        shape = outputs.shape
        return [shape[dim] or 0 for dim in outermost_first(outputs.order, len(shape))]
    fixed = [extent for extent in outputs.shape[2:] if extent is not None]
    if len(fixed) < len(outputs.shape) - 2 or outputs.shape[1] is not None:
        fixed = []
    return [size // (math.prod(fixed) * outputs.dtype.bits // 8), *fixed]
