"""The arguments of an Egress: their validation, and the launcher's settings that replace them."""

from __future__ import annotations

import inspect
import json
import operator
import os
import secrets
import time
from typing import Any, Callable, Mapping

from offramp import _abi, _validate
from offramp._consumers import OPTIONS, require_files, values_of
from offramp._dtypes import dtype_of
from offramp._errors import BadArgument, CannotWrite, NotPermitted
from offramp._groups import MOST_CONSUMERS, Groups
from offramp._launched import Launched, launched
from offramp._order import Layout

_FIELDS = {field for field, *_ in _abi.EgressOptions._fields_}
# How an argument is validated and passed to the library, by the type of its default.
_BY_TYPE: dict[type, Callable[[str, Any], Any]] = {
    bool: lambda name, value: int(_validate.yes_or_no(name, value)),
    int: lambda name, value: _validate.whole(name, value, (1 << 32) - 1, "a number of 32 bits"),
    float: _validate.seconds,
    str: lambda name, value: _validate.text(name, value).encode() or None,
}
_BY_NAME: dict[str, Callable[[str, Any], Any]] = {"slab_bytes": _validate.byte_count}


def library_options(signature: Callable[..., None], given: Mapping[str, Any]) -> dict[str, Any]:
    """
    The keyword arguments that have a field of their name in offramp_egress_options, with `_seconds` for a time. An
    option is therefore spelled once in the signature and once in the struct. Errors: BadArgument.
    """
    options = {}
    for name, parameter in inspect.signature(signature).parameters.items():
        field = f"{name}_seconds" if isinstance(parameter.default, float) else name
        if field in _FIELDS and type(parameter.default) in _BY_TYPE:
            options[field] = _BY_NAME.get(name, _BY_TYPE[type(parameter.default)])(name, given[name])
    return options


def launcher_of_this_program(own: Mapping[str, object]) -> Launched | None:
    """The launcher that started this program, if any; its flags replace the Egress's arguments."""
    started_by = launched(knows_its_run=any(given is not None for given in own.values()))
    if started_by is None:
        return None
    for name, given in own.items():
        if given is not None:
            raise BadArgument(
                f"{name} is given, and this program was started by `offramp run --producer`, whose flags set it. Omit it: "
                "offramp.Egress() finds the run"
            )
    if started_by.is_taken:
        raise BadArgument(
            "this program, started by `offramp run --producer`, has made its Egress already. Submit everything to that one"
        )
    started_by.is_taken = True
    return started_by


def require_complete(own: Mapping[str, Any]) -> None:
    processor = own["processor"]
    if groups := own.get("groups"):
        return _require_complete_groups(groups, own)
    if processor is None:
        for name in ("output", "consumers", "settings"):
            if own[name] is not None:
                raise BadArgument(
                    f"{name} is given without a processor. Give processor='npy', or omit it and give run_dir=, "
                    "to which your own consumers connect"
                )
        if own["run_dir"] is None:
            raise BadArgument(
                "neither a processor nor a run directory was given. Give processor= and output= to start consumers, or run_dir=, to which "
                "your own consumers connect"
            )
        return
    if not isinstance(processor, str) or not processor:
        raise BadArgument(f"the processor is {processor!r}. Give its name, such as 'npy' or 'post.py:save'")
    _validate.encodable("the processor", processor)
    if not own["output"]:
        raise BadArgument(f"processor '{processor}' has no output folder. Give output=FOLDER")
    if own["consumers"] is not None:
        _validate.whole("consumers", own["consumers"], MOST_CONSUMERS, f"1 to {MOST_CONSUMERS}")
    if own["settings"] is not None:
        values_of(_validate.mapping("settings", own["settings"], "{'png-level': 3}"))
    require_files(processor)


def _require_complete_groups(groups: Groups, own: Mapping[str, Any]) -> None:
    for name in ("processor", "consumers"):
        if own[name] is not None:
            raise BadArgument(f"{name} and groups are given. Omit {name}: each offramp.Group has its own")
    if not own["output"]:
        raise BadArgument("groups have no output folder. Give output=FOLDER, in which each group has its own")
    if _validate.store_url("output", own["output"]):
        raise BadArgument("output is in an object store, which does not go with groups yet. Give a folder")
    if own["settings"] is not None:
        values_of(_validate.mapping("settings", own["settings"], "{'png-level': 3}"))
    names: dict[str, str] = {}
    for name, group in groups.items():
        if (other := names.setdefault(group.processor, name)) != name:
            raise BadArgument(
                f"the groups '{other}' and '{name}' have the processor '{group.processor}'. Give each group another one"
            )
        require_files(group.processor)


def facts_of(
    identity: str | Mapping[str, object] | None, processor: str | None, settings: Mapping[str, object]
) -> dict[str, str]:
    """The facts, besides tensors, that must be equal for a run to resume another."""
    try:
        identity_text = identity if isinstance(identity, str) else json.dumps(identity, sort_keys=True)
    except TypeError as problem:
        raise BadArgument(
            f"the identity cannot be stored as JSON: {problem}. Give a str, or a mapping of strings and numbers"
        ) from None
    options = values_of(settings).get(OPTIONS)
    return {
        "identity": identity_text,
        "processor": processor or "",
        **({OPTIONS: json.dumps(options)} if options else {}),
    }


def new_run_dir() -> str:
    """
    A new folder where the launcher looks for runs; its path is short enough for a socket address. Errors: NotPermitted,
    CannotWrite.
    """
    folder = os.path.abspath(os.environ.get("OFFRAMP_TEST_RUNS") or f"/tmp/offramp-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        facts = os.lstat(folder)
    except OSError as problem:
        raise CannotWrite(
            f"the folder of run directories {folder} cannot be created: {problem.strerror}. Give run_dir=, your own folder"
        ) from problem
    if facts.st_uid != os.getuid() or facts.st_mode & 0o170077 != 0o040000:
        raise NotPermitted(
            f"{folder} does not belong to this user alone (mode 0700). Remove it, or give run_dir=, your own folder"
        )
    return f"{folder}/{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"


def device_of(given: str) -> str:
    if given == "cuda":
        return "cuda:0"
    if given != "cpu" and not (given.startswith("cuda:") and given[5:].isdecimal()):
        raise BadArgument(
            f"the device '{given}' is not supported. Give 'cpu', 'cuda' or 'cuda:N', where the tensors are"
        )
    return given


def layout_of(name: str, description: Any) -> Layout:
    try:
        dtype, given = description
        shape = tuple(None if extent is None else operator.index(extent) for extent in given)
    except (TypeError, ValueError):
        raise BadArgument(
            f"the tensor '{name}' is described by {description!r}. Give its type and shape, such as ('float32', (64, 1000))"
        ) from None
    dtype = dtype_of(dtype)
    if not shape:
        raise BadArgument(f"the tensor '{name}' has no dimensions. Dimension 0 counts the samples: ('{dtype}', (64,))")
    if shape[0] is None:
        raise BadArgument(
            f"the tensor '{name}' has None in dimension 0, which counts a batch's samples. Give the usual number: "
            f"('{dtype}', {(64, *shape[1:])})"
        )
    if not all(extent is None or 0 < extent < 1 << 63 for extent in shape):
        raise BadArgument(f"the tensor '{name}' has the shape {shape}. Give 1 or more, or None where samples differ")
    return Layout(name, dtype, shape)
