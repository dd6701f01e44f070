"""Each sample into its place of one Zarr array of shape (items, ...). What is delivered twice is written twice, to the same place."""

import zarr
from zarr.errors import ContainsArrayError


class Writer:
    """A chunk a sample: consumers never write to the same one."""

    def __init__(self, path, items):
        self._path, self._items, self._array = path, int(items), None

    def __call__(self, slab):
        for sample, values in slab:
            if self._array is None:
                self._array = self._opened(values)
            self._array[sample.item] = values

    def _opened(self, values):
        try:
            return zarr.create_array(self._path, shape=(self._items, *values.shape), chunks=(1, *values.shape), dtype=values.dtype)
        except ContainsArrayError:      # of another consumer, or of the run that this one goes on with
            return zarr.open_array(self._path, mode="r+")
