"""
Runs Python processors behind the C struct of offramp_processor.h and passes their results to the consumer's sinks.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import itertools
import json
import os
import pathlib
import signal
import sys
import traceback
from typing import Any, Callable, Iterator

from offramp import _abi
from offramp._dead_letters import NOT_THE_USERS
from offramp._errors import BadArgument, Failed, Reject, Retry, ViewKept
from offramp._memory import Mappings
from offramp._slab import Sample, Slab
from offramp._torch import is_torch

_Progress = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Current = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_File = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t
)
_Record = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
_Explain = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Host(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("progress", _Progress),
        ("still_current", _Current),
        ("commit_file", _File),
        ("commit_record", _Record),
        ("explain", _Explain),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("output", ctypes.c_char_p),
        ("option_count", ctypes.c_uint32),
        ("only_check", ctypes.c_uint32),
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("values", ctypes.POINTER(ctypes.c_char_p)),
    ]


_Create = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(Host), ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)
)
_Process = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Host), ctypes.POINTER(_abi.Slab))
_Destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ProcessorTable(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("create", _Create),
        ("process", _Process),
        ("destroy", _Destroy),
        ("takes_variable", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


STRUCTS = {"offramp_host": Host, "offramp_processor_options": Options, "offramp_processor": ProcessorTable}

DEBUGGER = "OFFRAMP_PDB"  # `dead-letters retry --pdb`: the user types on standard input
_debugs = bool(os.environ.pop(DEBUGGER, ""))

_processors: dict[int, Processor] = {}  # by the number that identifies each in C
_numbers = itertools.count(1)


def table() -> ProcessorTable:
    """The struct that the consumer calls. Keep a reference while it is in use."""
    return ProcessorTable(ctypes.sizeof(ProcessorTable), _Create(_create), _Process(_process), _Destroy(_destroy), 1)


class Wrong(Exception):
    """The user's file or its content cannot be used; the message is one line."""


def _create(host: Any, options: Any, made: Any) -> int:
    given = options.contents
    try:
        kwargs = {given.keys[i].decode(): given.values[i].decode() for i in range(given.option_count)}
        if given.only_check:
            check(given.name.decode(), kwargs)
            return _abi.OK
        number = next(_numbers)
        _processors[number] = Processor(given.name.decode(), kwargs)
        made[0] = number
        return _abi.OK
    except Wrong as problem:
        return _explained(host, str(problem), _abi.BAD_ARGUMENT)
    except Retry as problem:
        return _explained(host, str(problem), _abi.RETRY)
    except (ImportError, SyntaxError) as problem:
        _debug()
        return _explained(host, _import_error(problem), _abi.BAD_ARGUMENT)
    except BaseException:
        _debug()
        return _explained(host, _user_traceback(traceback.format_exc()), _abi.BAD_ARGUMENT)


def _process(number: int, host: Any, slab: Any) -> int:
    pid = os.getpid()
    try:
        return _verdict(number, host, slab)
    finally:
        if os.getpid() != pid:
            _end_of_a_child()


def _end_of_a_child() -> None:
    """Ends a forked child, because the connection and the slab belong to its parent."""
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        print(
            "offramp: a forked child returned from the processor and was ended. Call os._exit() in the child",
            file=sys.stderr,
            flush=True,
        )
    os._exit(1)


def _verdict(number: int, host: Any, slab: Any) -> int:
    try:
        _processors[number].process(host, slab.contents)
        return _abi.OK
    except _CommitRefused as refused:
        return refused.code  # the consumer knows the reason
    except Retry as problem:
        return _explained(host, str(problem) or "offramp.Retry", _abi.RETRY)
    except Reject as problem:
        return _explained(host, str(problem) or "offramp.Reject", _abi.REJECTED)
    except Failed as problem:
        return _explained(host, str(problem) or "offramp.Failed", _abi.FAILED)
    except MemoryError:
        return _explained(host, "MemoryError: this process has no memory left", _abi.FAILED)
    except SystemExit as problem:
        _debug()
        return _explained(
            host,
            f"SystemExit: the processor called sys.exit({problem.code!r}). Return, or raise an exception",
            _abi.FAILED,
        )
    except BaseException:
        _debug()
        return _explained(host, _user_traceback(traceback.format_exc()), _abi.FAILED)


def _destroy(number: int) -> None:
    try:
        _processors.pop(number).close()
    except BaseException:
        traceback.print_exc()


def _debug() -> None:
    """Opens the debugger where the current exception was raised, if enabled. Blocks: until it is left."""
    if not _debugs:
        return
    import pdb

    traceback.print_exc()
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the consumer reads this signal elsewhere
    try:
        pdb.post_mortem(sys.exc_info()[2])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _explained(host: Any, why: str, code: int) -> int:
    host.contents.explain(ctypes.addressof(host.contents), _abi.reason_of(why))
    return code


class _CommitRefused(Exception):
    """The consumer refused a commit and has its own message."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


class _Calls:
    """Implements the library calls of a Slab with those of the host."""

    def __init__(self, host: Any):
        self._host, self._address = host.contents, ctypes.addressof(host.contents)

    def offramp_consumer_progress(self, _: Any) -> int:
        self._host.progress(self._address)
        return _abi.OK

    def offramp_consumer_still_current(self, _: Any) -> int:
        return int(self._host.still_current(self._address))


class Processor:
    """The user's function or object. Thread: one. Errors: Wrong; exceptions of the user's code."""

    def __init__(self, name: str, options: dict[str, str]):
        self._name = name
        found = check(name, options)
        if inspect.isclass(found):
            try:
                found, options = found(**options), {}
            except BadArgument as problem:  # one line instead of a traceback
                raise Wrong(str(problem)) from problem
        self._object = found
        self._function: Callable[[Slab], Any] = functools.partial(found, **options) if options else found
        self._mappings = Mappings()

    def process(self, host: Any, given: _abi.Slab) -> None:
        slab = Slab(_Calls(host), None, given, self._mappings)
        try:
            result = self._function(slab)
            if result is not None:
                self._commit_all(host.contents, slab, given, result)
                del result
        finally:
            slab._end()
        if kept := slab._kept_view():
            raise ViewKept(
                f"{self._name} kept a view of its slab's tensor '{kept}'. Copy data that you keep: numpy.array(view)"
            )

    def close(self) -> None:
        close = getattr(self._object, "close", None)
        if callable(close) and not inspect.isfunction(self._object):
            close()

    def _commit_all(self, host: Host, slab: Slab, given: _abi.Slab, results: Any) -> None:
        if not isinstance(results, Iterator):
            raise TypeError(
                f"{self._name} returned {type(results).__name__}. Return None, or yield (sample, '.png', bytes), (sample, array) "
                "or (sample, {'field': value})"
            )
        index, pid = _indices(given), os.getpid()
        for result in results:
            if os.getpid() != pid:
                _end_of_a_child()
            sample, ending, what = self._parts(result)
            if sample.row not in index:
                raise ValueError(f"{self._name} yielded a sample of another slab: row {sample.row}")
            self._commit(host, index[sample.row], sample, ending, what)

    def _parts(self, result: Any) -> tuple[Sample, str | None, Any]:
        if isinstance(result, tuple) and 2 <= len(result) <= 3 and isinstance(result[0], Sample):
            sample, *ending, what = result
            if not ending or isinstance(ending[0], str):
                return sample, ending[0] if ending else None, what
        raise TypeError(
            f"{self._name} yielded {_brief(result)}. Yield (sample, '.png', bytes), (sample, array) or (sample, {{'field': value}})"
        )

    def _commit(self, host: Host, index: int, sample: Sample, ending: str | None, what: Any) -> None:
        address = ctypes.addressof(host)
        if isinstance(what, dict):
            if ending is not None:
                raise TypeError(
                    f"{self._name} yielded a record with the ending '{ending}'. Yield (sample, dict), or json.dumps(...).encode() for a file"
                )
            text = _json_of(self._name, sample, what).encode()
            code = host.commit_record(address, index, text, len(text))
        else:
            data = _bytes_of(self._name, ending, what)
            code = host.commit_file(
                address, index, os.fsencode(ending if ending is not None else ".npy"), data, len(data)
            )
        if code != _abi.OK:
            raise _CommitRefused(code)


def check(name: str, options: dict[str, str]) -> Any:
    """The function or class of this name, checked for its later call. Errors: those of find()."""
    if importlib.util.find_spec("numpy") is None:
        raise Wrong(
            f"{name} would run in {sys.executable}, which has no NumPy to read slabs with. Install it there, or give another "
            "interpreter with --consumer-python"
        )
    found = find(name.removeprefix("python:"))
    call = found.__call__ if inspect.isclass(found) and "__call__" in vars(found) else found
    if not callable(found) or (
        inspect.isclass(found) and not any("__call__" in vars(base) for base in found.__mro__[:-1])
    ):
        raise Wrong(f"{name} is not a function, nor a class with __call__(self, slab)")
    if any(
        test(part)
        for part in (call, getattr(found, "__call__", None))
        for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    ):
        raise Wrong(f"{name} is asynchronous. Give a plain function, whose work is done when it returns")
    if inspect.isclass(found):
        _require_fit(found, (), options, f"{name} is a class and gets --processor-option as keywords")
        _require_fit(found.__call__, (None, None), {}, f"{name} gets the slab")
    else:
        _require_fit(found, (None,), options, f"{name} gets the slab, and --processor-option as keywords")
    return found


class _UncachedLoader(importlib.machinery.SourceFileLoader):
    """Ignores cached bytecode, which can be stale if the file changed within a second."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def find(place: str) -> Any:
    """The object that FILE.py:NAME or PACKAGE.MODULE:NAME names. Errors: Wrong; exceptions of the file itself."""
    where, _, name = place.rpartition(":")
    if where.endswith(".py"):
        path = pathlib.Path(where).absolute()
        if not path.is_file():
            raise Wrong(f"the file {path} does not exist")
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(path.stem, path, loader=_UncachedLoader(path.stem, str(path)))
        if spec is None or spec.loader is None:
            raise Wrong(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # like import: pickle and dataclasses look there
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(where)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            raise Wrong(f"{where} has no '{part}'. It has {', '.join(known) or 'no callable'}")
        found = getattr(found, part)
    return found


def _require_fit(function: Any, arguments: tuple[Any, ...], keywords: dict[str, str], what: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C function checks its arguments itself
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as problem:
        raise Wrong(f"{what}: {problem}. It has {signature}") from None


def _brief(value: object) -> str:
    """On one line: a log's last line becomes the message."""
    return " ".join(repr(value).split())[:80]


def _bytes_of(name: str, ending: str | None, what: Any) -> bytes:
    if isinstance(what, bytes):
        if ending is None:
            raise TypeError(f"{name} yielded bytes without an ending. Yield (sample, '.png', bytes)")
        return what
    if isinstance(what, (bytearray, memoryview)):
        return bytes(what)
    if isinstance(what, str):
        raise TypeError(f"{name} yielded a str. Yield (sample, '{ending or '.txt'}', text.encode())")
    if hasattr(what, "__array__") or hasattr(what, "__array_interface__"):
        import numpy

        if ending is not None and not ending.endswith(".npy"):
            if callable(getattr(what, "save", None)):
                raise TypeError(
                    f"{name} yielded {type(what).__name__} with the ending '{ending}'. Encode it: image.save(buffer, 'PNG'), with "
                    "buffer = io.BytesIO(), and yield buffer.getvalue()"
                )
            raise TypeError(
                f"{name} yielded an array with the ending '{ending}'. Give one in .npy, such as '.scores.npy', or yield bytes"
            )
        file = io.BytesIO()
        numpy.save(file, readable(name, numpy.asarray(as_numpy_type(what))), allow_pickle=False)
        return file.getvalue()
    raise TypeError(f"{name} yielded {type(what).__name__}. Yield bytes, an array or a dict")


def as_numpy_type(what: Any) -> Any:
    """A PyTorch tensor of bfloat16 or float8 as float32, because NumPy lacks these types; any other value unchanged."""
    if is_torch(what) and str(what.dtype).startswith(("torch.bfloat16", "torch.float8")):
        return what.detach().float()
    return what


def readable(name: str, array: Any) -> Any:
    """
    Converts elements so that NumPy alone can read the file: float32 for the floats of ml_dtypes (bfloat16, float8),
    int8 for its narrow integers. NumPy would write these as untyped bytes (|V2). Errors: TypeError for untyped bytes.
    """
    if (
        array.dtype.fields is None
        and array.dtype.subdtype is None
        and array.dtype.kind == "V"
        and array.dtype.type.__module__ != "numpy"
    ):
        kind = array.dtype.name
        return array.astype(
            "complex64"
            if "complex" in kind
            else "uint8"
            if kind.startswith("uint")
            else "int8"
            if kind.startswith("int")
            else "float32"
        )
    if _has_bytes_without_a_type(array.dtype):
        raise TypeError(
            f"{name} yielded an array of type {array.dtype}, which has bytes without a type: NumPy cannot read numbers from its file. Convert it to numbers, "
            "such as array.astype('float32'), or yield bytes with their own ending"
        )
    return array


def _has_bytes_without_a_type(dtype: Any) -> bool:
    if dtype.subdtype is not None:
        return _has_bytes_without_a_type(dtype.subdtype[0])
    if dtype.fields is not None:
        return any(_has_bytes_without_a_type(field[0]) for field in dtype.fields.values())
    return bool(dtype.kind == "V")


def _indices(given: _abi.Slab) -> dict[int, int]:
    size = given.sample_size
    return {_abi.Sample.from_address(given.samples + index * size).row: index for index in range(given.sample_count)}


def _json_of(name: str, sample: Sample, record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, default=_plain)
    except ValueError:
        if (field := next((field for field, value in record.items() if not _is_json(value)), None)) is None:
            raise
    raise ValueError(
        f"{name} yielded a record of sample '{sample.key}' whose field '{field}' is {_brief(record[field])}. JSON has no NaN and no infinity: "
        "yield None, or omit the field"
    )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False, default=_plain)
        return True
    except ValueError:
        return False


def _plain(value: Any) -> Any:
    """Converts numbers and arrays of NumPy, ml_dtypes and PyTorch to Python numbers and lists."""
    if hasattr(value, "tolist"):
        if getattr(getattr(value, "dtype", None), "kind", "") == "V":
            value = value.astype("float32")  # converts to Python numbers
        return value.tolist()
    raise TypeError(f"a record has a value of type {type(value).__name__}, which JSON does not support")


def _import_error(problem: ImportError | SyntaxError) -> str:
    """The error and the line of the user's code, in one line."""
    if isinstance(problem, SyntaxError) and problem.filename and not problem.filename.startswith("<"):
        path, number, line = problem.filename, problem.lineno, problem.text
        what = problem.msg
    else:
        frames = [
            frame for frame in traceback.extract_tb(problem.__traceback__) if not NOT_THE_USERS.search(frame.filename)
        ]
        path, number, line = (frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else ("", None, None)
        what = " ".join(str(problem).split())
    place = f"{os.path.basename(path)}:{number}: {(line or '').strip()}: " if path else ""
    return f"{place}{type(problem).__name__}: {what}"


def _user_traceback(text: str) -> str:
    """The traceback without the frames of this module and of the import."""
    lines, kept, is_hidden = text.splitlines(), [], False
    for line in lines:
        if line.startswith("  File "):
            is_hidden = f'"{__file__}"' in line or '"<frozen importlib' in line
        elif not line.startswith(" "):
            is_hidden = False
        if not is_hidden:
            kept.append(line)
    return "\n".join(kept)
