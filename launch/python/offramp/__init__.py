"""
Move GPU outputs to consumers: an `Egress` takes batches of tensors from your loop, and a `Consumer` in another process
reads them in shared memory. Delivery is at least once: if a consumer dies, its slabs go to another one.

Needs libofframp.so, and NumPy to read arrays. Importing the package imports only the standard library.
"""

from typing import TYPE_CHECKING, Any

from offramp import reduce
from offramp._consumer import Consumer
from offramp._dtypes import DType
from offramp._egress import Egress, Stats
from offramp._errors import (
    BadArgument,
    CallbackFailed,
    CannotWrite,
    ConsumersFailed,
    DeviceBroken,
    DeviceOutOfMemory,
    DeviceUnsupported,
    Error,
    Failed,
    ForgottenWarning,
    Internal,
    KeptViewWarning,
    LibraryNotFound,
    NoSuchRun,
    NoSuchTensor,
    NotPermitted,
    ProducerGone,
    Protocol,
    Reject,
    Retry,
    RunInUse,
    SharedMemoryFull,
    Stopped,
    SystemFailure,
    TensorChanged,
    Timeout,
    TurnOver,
    ViewKept,
    WrongProcess,
)
from offramp._groups import Group, GroupStats
from offramp._library import library_version
from offramp._loops import map, tap
from offramp._samples import packed
from offramp._slab import Sample, Slab, TensorInfo
from offramp._version import __version__

__all__ = [
    "BadArgument",
    "CallbackFailed",
    "CannotWrite",
    "Consumer",
    "ConsumersFailed",
    "DType",
    "DeviceBroken",
    "DeviceOutOfMemory",
    "DeviceUnsupported",
    "Egress",
    "Error",
    "Failed",
    "Stats",
    "ForgottenWarning",
    "Group",
    "GroupStats",
    "Internal",
    "KeptViewWarning",
    "LibraryNotFound",
    "NoSuchRun",
    "NoSuchTensor",
    "NotPermitted",
    "ProducerGone",
    "Protocol",
    "Reject",
    "Retry",
    "RunInUse",
    "Sample",
    "SharedMemoryFull",
    "Slab",
    "Stopped",
    "SystemFailure",
    "TensorChanged",
    "TensorInfo",
    "Timeout",
    "TurnOver",
    "ViewKept",
    "WrongProcess",
    "__version__",
    "library_version",
    "map",
    "packed",
    "reduce",
    "tap",
]

if TYPE_CHECKING:
    from offramp.dataset import Dataset as Dataset
else:

    def __getattr__(name: str) -> Any:
        """`Dataset` is imported when it is used, because it imports PyTorch; `import *` leaves it out."""
        if name != "Dataset":
            raise AttributeError(f"module 'offramp' has no attribute '{name}'")
        from offramp.dataset import Dataset

        return Dataset
