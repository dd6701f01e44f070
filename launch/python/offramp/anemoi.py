"""
An output of anemoi-inference that writes Zarr while the model goes on. Imports anemoi.inference; tested with 0.13.0.

    output:                    # in the configuration; the installed package registers the name
      offramp:
        path: forecast.zarr
"""

from __future__ import annotations

import datetime
import math
from typing import Any

from offramp._errors import BadArgument
from offramp._packages import needs
from offramp._regions import Region, Regions
from offramp.zarr import create

with needs("offramp.anemoi", "anemoi-inference"):
    from anemoi.inference.output import Output as _Output

__all__ = ["Output"]


class Output(_Output):  # type: ignore[misc,unused-ignore]
    """
    Writes each variable to an array (time, values) of float32, beside `time`, `latitude` and `longitude`, as anemoi's
    own ZarrOutput does. write_step() copies and returns; consumers compress and store. close() waits for them.

    `path`: a folder, or a URL of fsspec; "{dataset}" becomes the data set's name. `shard`: time steps in each stored
    object. `codec`: as for offramp.zarr.Writer. `consumers`: 0 chooses their number. `slab_bytes`: as for Egress;
    a field must fit. The other arguments are those of anemoi's Output.

    The times of a run are known before its first step: the steps of the checkpoint up to the lead time that
    `output_frequency` selects. A date may be written once. A run that is started again writes everything again.

    Owns: an Egress and its consumers from open() to close(). Thread: one. Blocks: write_step() while all slabs are
    full; close(). Errors: BadArgument, and those of Egress.
    """

    def __init__(
        self,
        context: Any,
        metadata: Any,
        *,
        path: str,
        shard: int = 1,
        codec: str = "zstd",
        consumers: int = 0,
        slab_bytes: int | str = 0,
        variables: Any = None,
        post_processors: list[Any] | None = None,
        output_frequency: int | None = None,
        write_initial_state: bool | None = None,
    ):
        super().__init__(
            context,
            metadata,
            variables=variables,
            post_processors=post_processors,
            output_frequency=output_frequency,
            write_initial_state=write_initial_state,
        )
        self._path = path.replace("{dataset}", str(metadata.dataset_name))
        self._shard, self._codec, self._consumers, self._slab_bytes = shard, codec, consumers, slab_bytes
        self._regions: Regions | None = None
        self._names: set[str] = set()
        self._index: dict[datetime.timedelta, int] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path})"

    def open(self, state: dict[str, Any]) -> None:
        if self.context.lead_time is None:
            raise BadArgument("the context has no lead_time, so the number of steps is not known. Set it before open()")
        state = self.post_process(state)
        self._begin = self.context.reference_date or state["date"]
        self._index = {step: index for index, step in enumerate(self._steps())}
        self._places = {name: (["values"], state[f"{name}s"]) for name in ("latitude", "longitude")}
        self._regions = Regions(self._path, self._consumers, self._slab_bytes)

    def write_initial_state(self, state: dict[str, Any]) -> None:
        super().write_initial_state(self.reduce(state))  # of several steps, the last

    def write_step(self, state: dict[str, Any]) -> None:
        if self._regions is None:
            raise BadArgument("the output is not open. Call open() first")
        step = state["date"] - self._begin
        if step not in self._index:
            raise BadArgument(f"the step {step} is not one of {', '.join(map(str, self._index))}")
        fields = {name: values for name, values in state["fields"].items() if not self.skip_variable(name)}
        for name, values in fields.items():
            self._add(name, int(values.shape[-1]))
        self._regions.write(
            Region(name, (self._index[step], 0), values.reshape(1, -1)) for name, values in fields.items()
        )

    def close(self) -> None:
        if self._regions is not None:
            self._regions.close()

    def _steps(self) -> list[datetime.timedelta]:
        lead, shift, offsets = self.context.lead_time, self.metadata.rollout_shift, self.metadata.output_offsets
        starts = [number * shift for number in range(math.ceil(lead / shift))]
        steps = [start + offset for start in starts for offset in offsets if start + offset <= lead]
        if (every := self.output_frequency) is not None:
            steps = [step for step in steps if not step % every]
        return [datetime.timedelta(0)] * bool(self.write_step_zero) + steps

    def _add(self, name: str, values: int) -> None:
        if name in self._names:
            return
        import numpy

        first = numpy.datetime64(self._begin.replace(tzinfo=None), "s")
        times = numpy.array([first + numpy.timedelta64(step) for step in self._index], "datetime64[s]")
        create(
            self._path,
            name,
            (len(times), values),
            "float32",
            ("time", "values"),
            {} if self._names else {"time": times, **self._places},
            shards=(self._shard, values),
            codec=self._codec,
        )
        self._names.add(name)
