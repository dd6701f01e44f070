"""Each sample to its index in a Zarr array of shape (items, ...). A repeated delivery writes to the same index."""

import zarr
from zarr.errors import ContainsArrayError


class Writer:
    """One chunk per sample, so that consumers never write to the same chunk."""

    def __init__(self, path, items):
        self._path, self._items, self._array = path, int(items), None

    def __call__(self, slab):
        for sample, values in slab:
            if self._array is None:
                self._array = self._opened(values)
            self._array[sample.item] = values

    def _opened(self, values):
        try:
            return zarr.create_array(
                self._path, shape=(self._items, *values.shape), chunks=(1, *values.shape), dtype=values.dtype
            )
        except ContainsArrayError:  # made by another consumer, or by the run that this one resumes
            return zarr.open_array(self._path, mode="r+")
