"""offramp.h in ctypes. A test compares every struct with the header."""

from __future__ import annotations

import ctypes

OK, TIMEOUT, CALLBACK_FAILED, FAILED, REJECTED, BAD_ARGUMENT, RETRY, STOPPED = 0, 2, 4, 5, 6, 64, 75, 130
MOST_DIMS, MOST_TENSORS = 8, 16
VARIABLE = -1  # in a shape: samples differ in this dimension


class ErrorText(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("text", ctypes.c_char * 1020)]


class DTypeCode(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Row(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("dtype", DTypeCode),
        ("dims", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("rows", ctypes.POINTER(Row)),
    ]


class EgressOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("run_dir", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(Tensor)),
        ("tensor_count", ctypes.c_uint32),
        ("device", ctypes.c_char_p),
        ("run_id", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("slabs", ctypes.c_uint32),
        ("samples_per_slab", ctypes.c_uint32),
        ("max_key_bytes", ctypes.c_uint32),
        ("max_consumers", ctypes.c_uint32),
        ("drop_when_full", ctypes.c_uint32),
        ("max_failures", ctypes.c_uint32),
        ("max_delay_seconds", ctypes.c_double),
        ("visibility_timeout_seconds", ctypes.c_double),
        ("report_completed", ctypes.c_uint32),
        ("kill_stalled", ctypes.c_uint32),
        ("report_failed", ctypes.c_uint32),
        ("metadata_bytes", ctypes.c_uint32),
        ("slab_bytes", ctypes.c_uint64),
        ("groups", ctypes.POINTER(ctypes.c_char_p)),
        ("group_count", ctypes.c_uint32),
    ]


class Batch(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("tensors", ctypes.POINTER(ctypes.c_void_p)),
        ("tensor_count", ctypes.c_uint32),
        ("rows", ctypes.c_uint32),
        ("keys", ctypes.POINTER(ctypes.c_char_p)),
        ("items", ctypes.POINTER(ctypes.c_uint64)),
        ("stream", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("timeout_seconds", ctypes.c_double),
        ("key_text", ctypes.c_char_p),
        ("key_text_bytes", ctypes.c_size_t),
        ("released", ctypes.POINTER(ctypes.c_uint64)),
        ("extents", ctypes.POINTER(ctypes.c_void_p)),  # addresses of arrays, which cost less to assign than pointers
        ("addresses", ctypes.POINTER(ctypes.c_void_p)),
        ("metadata", ctypes.POINTER(ctypes.c_char_p)),
    ]


class EgressStats(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("batches_submitted", ctypes.c_uint64),
        ("samples_submitted", ctypes.c_uint64),
        ("samples_published", ctypes.c_uint64),
        ("samples_completed", ctypes.c_uint64),
        ("samples_dropped", ctypes.c_uint64),
        ("samples_dead_lettered", ctypes.c_uint64),
        ("bytes_copied", ctypes.c_uint64),
        ("copy_seconds", ctypes.c_double),
        ("slab_wait_seconds", ctypes.c_double),
        ("consumers", ctypes.c_uint32),
        ("stalled", ctypes.c_uint32),
    ]


class Items(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64)]


class ConsumerOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("run_dir", ctypes.c_char_p),
        ("window", ctypes.c_uint32),
        ("takes_variable", ctypes.c_uint32),
        ("wait_for_run_seconds", ctypes.c_double),
        ("group", ctypes.c_char_p),
    ]


class Sample(ctypes.Structure):
    _fields_ = [
        ("item", ctypes.c_uint64),
        ("batch", ctypes.c_uint64),
        ("key", ctypes.c_void_p),
        ("key_bytes", ctypes.c_size_t),
        ("row", ctypes.c_uint32),
        ("empty", ctypes.c_uint32),
        ("metadata", ctypes.c_void_p),
        ("metadata_bytes", ctypes.c_size_t),
    ]


class Slab(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("sample_size", ctypes.c_size_t),
        ("tensor_size", ctypes.c_size_t),
        ("samples", ctypes.c_void_p),
        ("sample_count", ctypes.c_uint32),
        ("tensor_count", ctypes.c_uint32),
        ("tensors", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    ]


# The C name of each, for the comparison.
STRUCTS = {
    "offramp_error": ErrorText,
    "offramp_dtype": DTypeCode,
    "offramp_row": Row,
    "offramp_tensor": Tensor,
    "offramp_egress_options": EgressOptions,
    "offramp_batch": Batch,
    "offramp_egress_stats": EgressStats,
    "offramp_consumer_options": ConsumerOptions,
    "offramp_sample": Sample,
    "offramp_slab": Slab,
    "offramp_items": Items,
}

Process = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Slab))

_HANDLE, _ERROR = ctypes.c_void_p, ctypes.POINTER(ErrorText)
# Result and arguments of each call.
CALLS = {
    "offramp_version": (ctypes.c_char_p,),
    "offramp_code_name": (ctypes.c_char_p, ctypes.c_int32),
    "offramp_egress_open": (ctypes.c_int32, ctypes.POINTER(EgressOptions), ctypes.POINTER(_HANDLE), _ERROR),
    "offramp_egress_submit": (ctypes.c_int32, _HANDLE, ctypes.POINTER(Batch), _ERROR),
    "offramp_egress_drain": (ctypes.c_int32, _HANDLE, ctypes.c_double, _ERROR),
    "offramp_egress_get_stats": (ctypes.c_int32, _HANDLE, ctypes.POINTER(EgressStats), _ERROR),
    "offramp_egress_wait_released": (
        ctypes.c_int32,
        _HANDLE,
        ctypes.c_uint64,
        ctypes.c_double,
        ctypes.POINTER(ctypes.c_uint64),
        _ERROR,
    ),
    "offramp_egress_wait_unattended": (
        ctypes.c_int32,
        _HANDLE,
        ctypes.c_uint64,
        ctypes.c_double,
        ctypes.c_double,
        ctypes.POINTER(ctypes.c_uint64),
        _ERROR,
    ),
    "offramp_egress_end_waits": (ctypes.c_int32, _HANDLE, _ERROR),
    "offramp_egress_take_completed": (
        ctypes.c_int32,
        _HANDLE,
        ctypes.POINTER(Items),
        ctypes.c_uint32,
        ctypes.c_double,
        ctypes.POINTER(ctypes.c_uint32),
        _ERROR,
    ),
    "offramp_egress_take_failed": (
        ctypes.c_int32,
        _HANDLE,
        ctypes.POINTER(Items),
        ctypes.c_uint32,
        ctypes.c_double,
        ctypes.POINTER(ctypes.c_uint32),
        _ERROR,
    ),
    "offramp_egress_close": (ctypes.c_int32, _HANDLE, _ERROR),
    "offramp_consumer_open": (ctypes.c_int32, ctypes.POINTER(ConsumerOptions), ctypes.POINTER(_HANDLE), _ERROR),
    "offramp_consumer_run": (ctypes.c_int32, _HANDLE, Process, ctypes.c_void_p, _ERROR),
    "offramp_consumer_progress": (ctypes.c_int32, _HANDLE),
    "offramp_consumer_still_current": (ctypes.c_int32, _HANDLE),
    "offramp_consumer_explain": (ctypes.c_int32, _HANDLE, ctypes.c_char_p),
    "offramp_consumer_stop": (ctypes.c_int32, _HANDLE),
    "offramp_consumer_close": (ctypes.c_int32, _HANDLE, _ERROR),
}


def reason_of(why: str) -> bytes:
    """Encodes the reason of a failure for C."""
    return why.encode(errors="replace").replace(b"\0", b"?")


def declare(library: ctypes.CDLL) -> None:
    """Sets argument and result types of each call. Errors: AttributeError if the library lacks one."""
    for name, (result, *arguments) in CALLS.items():
        call = getattr(library, name)
        call.restype, call.argtypes = result, arguments
