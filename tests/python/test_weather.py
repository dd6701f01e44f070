"""
Adapters of weather models over offramp.zarr: Earth2Studio's IOBackend and anemoi-inference's Output. With the packages
themselves where they are installed. Otherwise a class with the constructor of anemoi's Output takes its place.
"""

import datetime
import importlib
import importlib.util
import inspect
import sys
import types
import unittest

import offramp
from test_torch import TORCH
from test_zarr import files_of, needs_zarr, opened
from world import ROOT, World, needs_numpy

EARTH2STUDIO, ANEMOI = (
    importlib.util.find_spec(package) is not None and importlib.util.find_spec(f"{package}.{part}") is not None
    for package, part in (("earth2studio", "io"), ("anemoi", "inference"))
)


@unittest.skipUnless(TORCH, "skipped: no PyTorch")
@needs_numpy
@needs_zarr
class Earth2Studio(World):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "forecast.zarr"

    def coords(self, **more):
        import numpy

        made = {
            "ensemble": numpy.arange(2),
            "time": numpy.array(["2026-01-01T00"], "datetime64[ns]"),
            "lead_time": numpy.arange(5) * numpy.timedelta64(6, "h"),
            "lat": numpy.linspace(90, -90, 7),
            "lon": numpy.linspace(0, 350, 8),
        }
        return {**made, **more}

    def shape_of(self, coords):
        return tuple(len(values) for values in coords.values())

    def test_steps_of_a_loop_that_reuses_its_tensor_are_written(self):
        import numpy
        import torch
        from offramp.earth2studio import Backend

        coords, wanted = self.coords(), {}
        shape = self.shape_of(coords)
        names = numpy.array(["t2m", "z500"])
        with Backend(self.path, shards={"lead_time": 2, "ensemble": 2}, consumers=2) as io:
            io.add_array(coords, names)
            for name in names:
                wanted[name] = torch.rand(shape)
            x = torch.empty(2, *shape[:2], 1, *shape[3:])
            for step in range(shape[2]):
                for row, name in enumerate(names):
                    x[row] = wanted[name][:, :, step : step + 1]
                io.write(list(x), {**coords, "lead_time": coords["lead_time"][step : step + 1]}, names)
        group = opened(self.path)
        for name in names:
            self.assertEqual(tuple(coords), group[name].metadata.dimension_names)
            self.assertEqual(((2, 1, 2, 7, 8), (1, 1, 1, 7, 8)), (group[name].shards, group[name].chunks))
            numpy.testing.assert_array_equal(wanted[name].numpy(), group[name])
        self.assertEqual("seconds", group["lead_time"].attrs["units"])
        self.assertEqual([0, 21600, 43200, 64800, 86400], group["lead_time"][:].tolist())
        numpy.testing.assert_array_equal(coords["lat"], group["lat"])

    def test_regions_with_gaps_in_any_order_and_curvilinear_grids(self):
        import numpy
        import torch
        from offramp.earth2studio import Backend

        lat, lon = numpy.meshgrid(numpy.linspace(0, 1, 3), numpy.linspace(5, 8, 4), indexing="ij")
        coords = {"lead_time": numpy.arange(6) * numpy.timedelta64(1, "h"), "station": numpy.array(list("abcde"))}
        coords |= {"_batch": numpy.empty(0), "lat": lat, "lon": lon}
        x = torch.rand(3, 4, 3, 4)
        some = {**coords, "lead_time": coords["lead_time"][[1, 2, 5]], "station": numpy.array(list("badc"))}
        with Backend(str(self.path)) as io:
            io.add_array(coords, "u10")
            io.write(x, some, "u10")
        group = opened(self.path)
        self.assertEqual(("lead_time", "station", "ilat", "ilon"), group["u10"].metadata.dimension_names)
        self.assertEqual(("ilat", "ilon"), group["lon"].metadata.dimension_names)
        numpy.testing.assert_array_equal(lon, group["lon"])
        wanted = numpy.full((6, 5, 3, 4), numpy.nan, "float32")
        wanted[numpy.ix_([1, 2, 5], [1, 0, 3, 2])] = x.numpy()
        numpy.testing.assert_array_equal(wanted, group["u10"])

    def test_a_reversed_field_is_one_sample_and_a_larger_one_fits(self):
        import numpy
        import torch
        from offramp.earth2studio import Backend

        small = {"lat": numpy.linspace(90, -90, 7), "lon": numpy.linspace(0, 350, 8)}
        large = {"y": numpy.arange(3000), "x": numpy.arange(3000)}
        x, y = torch.rand(7, 8), torch.rand(3000, 3000)
        with Backend(self.path, slab_bytes="64MiB", consumers=1) as io:
            io.add_array(small, "t2m")
            io.write(x, {name: values[::-1] for name, values in small.items()}, "t2m")
            self.assertEqual(1, io._regions._egress.stats().samples_submitted)
            io.write(y, large, "w")
        numpy.testing.assert_array_equal(x.flip(0, 1).numpy(), opened(self.path)["t2m"])
        numpy.testing.assert_array_equal(y.numpy(), opened(self.path)["w"])

    def test_wrong_calls_are_refused_and_an_exception_abandons_the_rest(self):
        import numpy
        import torch
        from offramp.earth2studio import Backend

        coords = self.coords()
        x = torch.zeros(self.shape_of(coords))
        with self.assertRaisesRegex(ZeroDivisionError, "the loop's"), Backend(self.path) as io:
            io.write(x, coords, "t2m")  # adds the array
            for call, text in (
                (
                    lambda: io.write(x, coords, "t2m"),
                    r"the region at \[0, 0, 0, 0, 0\] of the array 't2m' was written before",
                ),
                (lambda: io.write(x[:1], coords, "v"), r"the tensor of 'v' has the shape \(1, .*coordinates \(2, "),
                (lambda: io.write([x, x], coords, "v"), "2 tensors for 1 arrays"),
                (lambda: io.write(x, self.coords(lat=coords["lat"] + 1), "t2m"), "no coordinate 91.0 in 'lat'"),
                (lambda: io.write(x[0], {"time": coords["time"]}, "t2m"), r"has the dimensions \['ensemble'.*not"),
                (lambda: io.add_array(self.coords(lat=coords["lat"] + 1), "w"), "coordinates 'lat' exist with other"),
                (lambda: io.add_array(coords, "w", overwrite=True), "add_array.. got overwrite. Give chunks"),
                (lambda: io.add_array({"lat": numpy.zeros((2, 2))}, "w"), "'lat' has 2 dimensions. Give as many"),
            ):
                with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                    call()
            raise ZeroDivisionError("the loop's")
        with Backend(self.path) as io:  # begins again
            io.write(x + 1, coords, "t2m")
        self.assertTrue((opened(self.path)["t2m"][:] == 1).all())

    @unittest.skipUnless(EARTH2STUDIO, "skipped: no earth2studio")
    def test_a_workflow_of_earth2studio_writes_what_its_own_backend_writes(self):
        import numpy
        from earth2studio import run
        from earth2studio.data import Random
        from earth2studio.io import IOBackend, ZarrBackend
        from earth2studio.models.px import Persistence
        from offramp.earth2studio import Backend

        domain = {"lat": numpy.linspace(90, -90, 19), "lon": numpy.linspace(0, 350, 36)}

        class Numbers(Random):
            def __call__(self, time, variable):
                made = super().__call__(time, variable)
                made[:] = numpy.arange(made.size).reshape(made.shape)
                return made

        def forecast(io):
            model = Persistence(["t2m", "z500"], domain)
            run.deterministic(["2026-01-01"], 5, model, Numbers(domain), io, device="cpu", verbose=False)

        forecast(ZarrBackend(str(self.folder / "theirs.zarr")))
        with Backend(self.path, shards={"lead_time": 4}) as io:
            self.assertIsInstance(io, IOBackend)
            forecast(io)
        for method in ("add_array", "write"):
            mine, theirs = (list(inspect.signature(getattr(each, method)).parameters) for each in (Backend, IOBackend))
            self.assertEqual(theirs, mine)
        theirs, mine = opened(self.folder / "theirs.zarr"), opened(self.path)
        self.assertEqual(set(theirs), set(mine))
        for name in ("t2m", "z500", "lat", "lon"):
            self.assertEqual(theirs[name].metadata.dimension_names, mine[name].metadata.dimension_names)
            numpy.testing.assert_array_equal(theirs[name], mine[name])
        numpy.testing.assert_array_equal(theirs["lead_time"][:].astype("timedelta64[s]").astype(int), mine["lead_time"])


class StandIn:
    """anemoi.inference.output.Output 0.13.0, without what needs a checkpoint."""

    def __init__(
        self,
        context,
        metadata,
        *,
        variables=None,
        post_processors=None,
        output_frequency=None,
        write_initial_state=None,
    ):
        self.context, self.metadata, self.variables = context, metadata, variables
        self.write_step_zero = context.write_initial_state if write_initial_state is None else write_initial_state
        self.output_frequency = None if output_frequency is None else datetime.timedelta(hours=output_frequency)

    def skip_variable(self, variable):
        return self.variables is not None and variable not in self.variables

    def post_process(self, state):
        return state

    @classmethod
    def reduce(cls, state):
        fields = {name: values[-1, :] if values.ndim > 1 else values for name, values in state["fields"].items()}
        return {**state, "fields": fields}

    def write_initial_state(self, state):
        if self.write_step_zero:
            self.write_step(state)

    def write_state(self, state):
        if self.output_frequency is None or not state["step"] % self.output_frequency:
            self.write_step(state)


@needs_numpy
@needs_zarr
class Anemoi(World):
    START, HOUR = datetime.datetime(2026, 1, 1), datetime.timedelta(hours=1)

    def setUp(self):
        super().setUp()
        self.path = self.folder / "forecast.zarr"
        if not ANEMOI:
            names = ("anemoi", "anemoi.inference", "anemoi.inference.output")
            modules = {name: types.ModuleType(name) for name in names}
            modules[names[-1]].Output = StandIn
            sys.modules.update(modules)
            for name in names:
                self.addCleanup(sys.modules.pop, name)
        self.addCleanup(sys.modules.pop, "offramp.anemoi", None)
        self.Output = importlib.import_module("offramp.anemoi").Output

    def output(self, lead=24, offsets=(6,), **options):
        context = types.SimpleNamespace(
            reference_date=self.START,
            lead_time=lead and lead * self.HOUR,
            typed_variables={},
            write_initial_state=True,
            output_frequency=None,
        )
        offsets = [offset * self.HOUR for offset in offsets]
        metadata = types.SimpleNamespace(
            dataset_name="data", typed_variables={}, rollout_shift=offsets[-1], output_offsets=offsets
        )
        return self.Output(context, metadata, **{"path": str(self.path), "consumers": 1, **options})

    def state(self, hours):
        import numpy

        fields = {name: numpy.full(50, hours + number, "float32") for number, name in enumerate(("2t", "msl", "tp"))}
        places = {"latitudes": numpy.linspace(0, 1, 50), "longitudes": numpy.linspace(2, 3, 50)}
        return {"date": self.START + hours * self.HOUR, "step": hours * self.HOUR, "fields": fields, **places}

    def run_like_the_runner(self, output, steps):
        """The calls of anemoi.inference.runner.Runner.execute()."""
        first = self.state(0)
        first["fields"] = {name: values[None].repeat(2, 0) for name, values in first["fields"].items()}
        output.open(self.Output.reduce(first))
        output.write_initial_state(first)
        for hours in steps:
            state = self.state(hours)
            output.write_state(state)
            for values in state["fields"].values():
                values[:] = -1  # the model's memory is used again
        output.close()
        return opened(self.path)

    def test_states_become_arrays_over_time(self):
        import numpy

        output = self.output(shard=2, variables=["2t", "msl"])
        self.assertEqual(f"Output({self.path})", repr(output))
        group = self.run_like_the_runner(output, (6, 12, 18, 24))
        self.assertEqual({"2t", "msl", "time", "latitude", "longitude"}, set(group))
        for number, name in enumerate(("2t", "msl")):
            self.assertEqual([number, 6 + number, 12 + number, 18 + number, 24 + number], group[name][:, 49].tolist())
            self.assertEqual(("time", "values"), group[name].metadata.dimension_names)
            self.assertEqual(((5, 50), (2, 50)), (group[name].shape, group[name].shards))
        numpy.testing.assert_array_equal(numpy.linspace(2, 3, 50), group["longitude"])
        self.assertEqual(("values",), group["latitude"].metadata.dimension_names)
        times = group["time"][:].astype("datetime64[s]")
        numpy.testing.assert_array_equal(
            numpy.datetime64(self.START, "s") + 6 * numpy.arange(5) * numpy.timedelta64(1, "h"), times
        )

    def test_several_steps_at_once_and_only_some_of_them(self):
        """The model gives 6 and 12 hours at once; the last time is beyond the lead time. Every 12 hours are written."""
        output = self.output(
            lead=30, offsets=(6, 12), output_frequency=12, write_initial_state=False, slab_bytes="1MiB"
        )
        group = self.run_like_the_runner(output, (6, 12, 18, 24, 30))
        self.assertEqual([12, 24], group["2t"][:, 0].tolist())

    def test_wrong_calls_are_refused(self):
        with self.assertRaisesRegex(offramp.BadArgument, "no lead_time"):
            self.output(lead=None).open(self.state(0))
        output = self.output()
        with self.assertRaisesRegex(offramp.BadArgument, "not open. Call open.. first"):
            output.write_step(self.state(6))
        output.close()
        output.open(self.state(0))
        with self.assertRaisesRegex(offramp.BadArgument, "the step 7:00:00 is not one of 0:00:00, 6:00:00, "):
            output.write_step(self.state(7))
        output.write_step(self.state(6))
        with self.assertRaisesRegex(
            offramp.BadArgument, r"the region at \[1, 0\] of the array '2t' was written before"
        ):
            output.write_step(self.state(6))
        output.close()
        self.assertEqual(6, opened(self.path)["2t"][1, 0])

    def test_a_second_run_leaves_the_same_bytes(self):
        self.run_like_the_runner(self.output(), (6, 12, 18, 24))
        before = files_of(self.path)
        self.run_like_the_runner(self.output(), (6, 12))
        self.assertEqual(before, files_of(self.path))

    def test_the_package_registers_the_name(self):
        text = (ROOT / "pyproject.toml").read_text()
        self.assertIn('[project.entry-points."anemoi.inference.outputs"]\nofframp = "offramp.anemoi:Output"\n', text)

    @unittest.skipUnless(ANEMOI, "skipped: no anemoi-inference")
    def test_it_writes_what_anemois_own_output_writes(self):
        import numpy
        from anemoi.inference.outputs import create_output, output_registry

        output_registry.register("offramp", self.Output)
        made = self.output()
        output = create_output(made.context, {"offramp": {"path": f"{self.folder}/{{dataset}}.zarr"}}, made.metadata)
        self.assertIsInstance(output, self.Output)
        self.path = self.folder / "data.zarr"
        mine = self.run_like_the_runner(output, (6, 12, 18, 24))
        theirs_path = self.folder / "theirs.zarr"
        made.metadata.multi_step_output = 1
        made.metadata.typed_variables = {name: types.SimpleNamespace(grib_keys={}) for name in self.state(0)["fields"]}
        theirs = create_output(made.context, {"zarr": {"store": str(theirs_path)}}, made.metadata)
        self.path = theirs_path
        theirs = self.run_like_the_runner(theirs, (6, 12, 18, 24))
        self.assertEqual(set(theirs), set(mine))
        for name in set(theirs) - {"time"}:
            numpy.testing.assert_allclose(theirs[name], mine[name], rtol=1e-6)
            self.assertEqual(theirs[name].metadata.dimension_names, mine[name].metadata.dimension_names)
        numpy.testing.assert_array_equal(theirs["time"], mine["time"][:] - mine["time"][0])
