"""Zarr arrays of a run: their values and metadata after deaths, redelivery and resumption, in folders and in S3."""

import contextlib
import importlib.util
import os
import threading
import unittest
import unittest.mock

import offramp
import offramp.zarr
from loops import BATCHES, ROWS, Loops
from world import World, needs_numpy

WRITER = "python:offramp.zarr:Writer"
needs_zarr = unittest.skipUnless(importlib.util.find_spec("zarr"), "skipped: no zarr")
S3 = [importlib.util.find_spec(each) for each in ("s3fs", "moto", "flask", "boto3")]


def values_of(samples, first=0):
    """Sample i holds numbers from 100 * i + 1 on."""
    import numpy

    numbers = numpy.arange(first, first + samples, dtype="float32")
    return 100 * numbers[:, None, None] + numpy.arange(1, 36, dtype="float32").reshape(5, 7)


def opened(path):
    import zarr

    return zarr.open_group(path, mode="r")


def files_of(path):
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@needs_numpy
@needs_zarr
class Arrays(World):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "out" / "all.zarr"

    def run_of(self, batches, options=None, consumers=3, processor=WRITER, **more):
        """A run that submits these batches. Returns the group."""
        settings = {"processor-option": {"path": self.path, **(options or {})}}
        with offramp.Egress(
            output=self.folder / "out", processor=processor, consumers=consumers, settings=settings, **more
        ) as egress:
            for batch in batches:
                egress.submit(batch if isinstance(batch, dict) else {"field": batch})
        return opened(self.path)

    @contextlib.contextmanager
    def slabs(self, *batches):
        """Each batch as a slab in this process: (tensors, arguments of submit())."""
        with offramp.Egress(self.run_dir, samples_per_slab=16, slabs=4) as egress:
            with contextlib.ExitStack() as stack:
                found = []
                for tensors, more in batches:
                    egress.submit(tensors, **more)
                    loop = iter(offramp.Consumer(self.run_dir, window=1))
                    stack.callback(loop.close)
                    found.append(next(loop))
                yield found
            egress.close()

    def test_the_array_grows_to_what_the_loop_submitted(self):
        """Batches that end anywhere in a shard, and several tensors."""
        import numpy

        batches = [
            {"field": values_of(size, first), "score": values_of(size, first)[:, 0, 0].astype("int16")}
            for first, size in ((0, 3), (3, 7), (10, 1), (11, 12), (23, 2))
        ]
        group = self.run_of(batches, {"shard": 4, "codec": "gzip:1"}, samples_per_slab=5)
        numpy.testing.assert_array_equal(values_of(25), group["field"])
        numpy.testing.assert_array_equal(values_of(25)[:, 0, 0], group["score"])
        field, score = group["field"], group["score"]
        self.assertEqual(((25, 5, 7), (4, 5, 7), (1, 5, 7)), (field.shape, field.shards, field.chunks))
        self.assertEqual(("sample", "field_1", "field_2"), field.metadata.dimension_names)
        self.assertEqual((("sample",), "int16"), (score.metadata.dimension_names, score.dtype))
        self.assertEqual(({}, "GzipCodec"), (dict(field.attrs), type(field.compressors[0]).__name__))

    def test_axes_coordinates_and_bytes_are_those_that_zarr_writes(self):
        import numpy
        import zarr

        coords = {
            "time": numpy.arange("2020-01-01", "2020-01-31", dtype="datetime64[D]"),
            "lat": numpy.linspace(0, 1, 5),
            "lon": numpy.array(["a", "b", "cc", "d", "e", "f", "g"]),
            "unused": numpy.zeros(3),
        }
        numpy.savez(self.folder / "coords.npz", **coords)
        options = {
            "items": 30,
            "dims": "time lat lon",
            "coords": self.folder / "coords.npz",
            "chunk": "2 5 3",
            "shard": 4,
        }
        group = self.run_of([values_of(8), values_of(8, 8), values_of(4, 16)], options)
        field = group["field"]
        self.assertEqual({"time", "lat", "lon", "field"}, set(group))
        self.assertEqual(("time", "lat", "lon"), field.metadata.dimension_names)
        self.assertEqual(((30, 5, 7), (4, 5, 9), (2, 5, 3)), (field.shape, field.shards, field.chunks))
        numpy.testing.assert_array_equal(values_of(20), field[:20])
        self.assertTrue(numpy.isnan(field[20:]).all())
        self.assertEqual(["a", "b", "cc", "d", "e", "f", "g"], list(group["lon"][:]))
        self.assertEqual(
            {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}, dict(group["time"].attrs)
        )
        numpy.testing.assert_array_equal(coords["time"], group["time"][:].astype("datetime64[s]"))
        self.assertEqual(("lat",), group["lat"].metadata.dimension_names)
        plain = zarr.create_array(
            self.folder / "plain.zarr",
            shape=field.shape,
            dtype="float32",
            chunks=field.chunks,
            shards=field.shards,
            compressors=zarr.codecs.ZstdCodec(),
            fill_value=numpy.nan,
            dimension_names=("time", "lat", "lon"),
        )
        plain[:20] = values_of(20)
        self.assertEqual(files_of(self.folder / "plain.zarr"), files_of(self.path / "field"))

    def test_consumers_that_write_to_one_shard_lose_nothing(self):
        import numpy

        batches = [values_of(1, first) for first in range(48)]
        group = self.run_of(batches, {"shard": 48}, consumers=4, samples_per_slab=1)
        numpy.testing.assert_array_equal(values_of(48), group["field"])
        self.assertEqual((48, 5, 7), group["field"].shards)
        self.assertEqual({"zarr.json", "c/0/0/0"}, set(files_of(self.path / "field")))

    def test_consumers_that_die_at_each_write_leave_the_same_bytes(self):
        """The n-th consumer dies at its n-th write to the store: before it, and with the data in a partial file."""
        import numpy

        numpy.savez(self.folder / "coords.npz", field_1=numpy.linspace(0, 1, 5))
        options = {"coords": self.folder / "coords.npz", "shard": 4}
        batches = [values_of(3, first) for first in range(0, 24, 3)]
        self.run_of(batches, options)
        wanted = files_of(self.path)
        (self.folder / "dying.py").write_text(DYING)
        self.path = self.folder / "again" / "all.zarr"
        with unittest.mock.patch.dict(os.environ, DEATHS=str(self.folder / "deaths")):
            settings = {"processor-option": {"path": self.path, **options}}
            with offramp.Egress(
                output=self.folder / "again",
                processor=f"{self.folder}/dying.py:Dying",
                consumers=1,
                settings=settings,
                max_failures=1000,
                samples_per_slab=3,
            ) as egress:
                for batch in batches:
                    egress.submit({"field": batch})
        self.assertGreater((self.folder / "deaths").stat().st_size, 5)
        found = {name: data for name, data in files_of(self.path).items() if not name.endswith(".partial")}
        self.assertEqual(wanted, found)

    def test_a_second_delivery_keeps_later_samples_of_the_shard(self):
        """The first consumer does not know that the array has become larger."""
        import numpy

        batches = [({"field": values_of(2, at)}, {"items": [at, at + 1]}) for at in (4, 6)]
        for option in ({"shard": "4"}, {"chunk": "4 5 7"}):
            name = next(iter(option))
            self.path, self.run_dir = self.folder / f"{name}.zarr", self.folder / name
            first, second = (offramp.zarr.Writer(str(self.path), **option) for _ in range(2))
            with self.subTest(option), self.slabs(*batches) as slabs:
                first(slabs[0])
                second(slabs[1])
                first(slabs[0])
                del slabs
                group = opened(self.path)
                numpy.testing.assert_array_equal(values_of(4, 4), group["field"][4:])
                self.assertTrue(numpy.isnan(group["field"][:4]).all())

    def test_chunks_of_zeros_are_stored_too(self):
        """So a chunk that is not stored was not written."""
        import numpy

        self.run_of([numpy.zeros((3, 4), "uint8")], {"items": 4, "codec": "none"}, consumers=1)
        self.assertEqual({"zarr.json", "c/0/0", "c/1/0", "c/2/0"}, set(files_of(self.path / "field")))

    def test_metadata_places_samples_and_regions(self):
        """An index in any order, and regions of different sizes in an array that exists."""
        import numpy

        offramp.zarr.create(self.path, "map", (4, 6, 6), "float32", ("t", "y", "x"), shards=(2, 4, 4), chunks=(1, 2, 2))
        wanted = numpy.full((4, 6, 6), numpy.nan, "float32")
        regions = [((0, 0, 0), (2, 4, 4)), ((1, 4, 3), (1, 2, 3)), ((3, 0, 5), (1, 6, 1)), ((2, 1, 1), (1, 3, 3))]
        tiles = []
        for number, (start, shape) in enumerate(regions):
            tiles.append(numpy.full(shape, number, "float32"))
            wanted[tuple(slice(begin, begin + count) for begin, count in zip(start, shape))] = number
        places = [{"zarr": {"array": "map", "start": start}} for start, _ in regions]
        places[1]["zarr"]["shape"] = tiles[1].shape
        tiles[1] = tiles[1].reshape(1, 1, 6)
        order = [5, 2, 0, 1, 4]
        with self.slabs(({"tile": tiles}, {"metadata": places})) as slabs:
            offramp.zarr.Writer(str(self.path))(slabs[0])
            del slabs
        self.run_dir = self.folder / "second"
        steps = [{"step": step} for step in order]
        rows = numpy.stack([values_of(1, step)[0] for step in order])
        with self.slabs(({"field": rows}, {"metadata": steps})) as slabs:
            offramp.zarr.Writer(str(self.path), index="step", shard="2", items="6")(slabs[0])
            del slabs
        group = opened(self.path)
        numpy.testing.assert_array_equal(wanted, group["map"])
        numpy.testing.assert_array_equal(values_of(3), group["field"][:3])
        numpy.testing.assert_array_equal(values_of(2, 4), group["field"][4:])
        self.assertTrue(numpy.isnan(group["field"][3]).all())

    def test_samples_that_do_not_fit_are_refused(self):
        import numpy

        offramp.zarr.create(self.path, "map", (4, 5, 7), "float32", ("t", "y", "x"))
        self.run_dir = self.folder / "run"
        path, tile = str(self.path), {"map": values_of(2)}
        ragged = {"map": [numpy.zeros((1, 5, 7), "float32"), numpy.zeros((1, 2, 7), "float32")]}
        for number, (batch, metadata, options, text) in enumerate(
            (
                (tile, None, {"items": "5"}, "another value of items: 4, not 5"),
                (tile, None, {"shard": "2"}, "another value of shard: 1, not 2"),
                (tile, None, {"dims": "t lat lon"}, r"another value of dims: \['t', 'y', 'x'\], not"),
                (tile, None, {"items": "1"}, "the sample '1' has the index 1, and the array 1 items"),
                (
                    {"map": values_of(2).astype("int32")},
                    None,
                    {},
                    "are int32 of shape .5, 7., those of the array float32",
                ),
                (
                    {"new": values_of(2)},
                    None,
                    {"dims": "a b"},
                    "option dims is for 2 dimensions, .* 'new' has 3.*create",
                ),
                (
                    {"new": values_of(2)},
                    None,
                    {"chunk": "2 5 7", "shard": "3"},
                    r"shards \[3, 5, 7\] are not a multiple",
                ),
                (tile, [{"at": 1}, {"at": 1}], {"index": "at"}, "have the same index in .1, 1."),
                (tile, [{"at": 1}, {}], {"index": "at"}, "the metadata 'at' of the sample '1' is None"),
                (tile, [{"zarr": {"array": "absent", "start": [0]}}] * 2, {}, "has no array 'absent'. Create it"),
                (tile, [{"zarr": {"array": "map", "start": [4, 0, 0], "shape": [1, 5, 7]}}] * 2, {}, "does not fit"),
                (tile, [{"zarr": {"array": "map", "start": [0, 0]}}] * 2, {}, "float32 of shape .5, 7., does not fit"),
                (tile, [{"zarr": {"array": "map", "start": [-1, 0, 0]}}] * 2, {}, "number of 0 or more per dimension"),
                (tile, [{"zarr": 3}] * 2, {}, "the metadata 'zarr' of the sample '0' is 3. Give"),
                (ragged, None, {}, "samples of 'map' differ in shape. Give each its place"),
            )
        ):
            self.run_dir = self.folder / f"run{number}"
            with self.subTest(text), self.slabs((batch, {"metadata": metadata})) as slabs:
                with self.assertRaisesRegex(offramp.Reject, text):
                    offramp.zarr.Writer(path, **options)(slabs[0])
                del slabs
        self.assertEqual({"map/zarr.json", "zarr.json"}, set(files_of(self.path)))

    def test_wrong_options_end_the_run_before_its_first_sample(self):
        for options, text in (
            ({"shard": "0"}, "the option shard is '0'. Give whole numbers from 1"),
            ({"chunk": "1,2"}, "the option chunk is '1,2'"),
            ({"codec": "lz5"}, "codec 'lz5' is not supported"),
            ({"codec": "zstd:x"}, "codec 'zstd:x' is not possible"),
            ({"coords": "absent.npz"}, "coords='absent.npz' cannot be read: .*savez"),
            ({"path": ""}, "no path was given"),
            ({"path": "gopher://x"}, "path 'gopher://x' cannot be opened"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.zarr.Writer(**{"path": str(self.path), **options})
        for options, text in (
            ({"shard": "x"}, "the option shard is 'x'. Give whole numbers"),
            ({"codec": "zstd:99"}, "the codec 'zstd:99' is not possible"),
        ):
            with self.assertRaisesRegex(offramp.Error, f"offramp.zarr:Writer: {text}"):  # without a traceback
                self.run_of([values_of(1)], options)
        self.assertFalse(self.path.exists())

    def test_coordinates_with_nan_are_compared(self):
        import numpy

        values = numpy.array([0.5, numpy.nan, 2], "float32")
        for name in ("a", "b"):
            offramp.zarr.create(self.path, name, (3,), "int16", ["x"], {"x": values})
        with self.assertRaisesRegex(offramp.BadArgument, "coordinates 'x' exist with other values"):
            offramp.zarr.create(self.path, "c", (3,), "int16", ["x"], {"x": values[::-1]})

    def test_arrays_are_created_once(self):
        import numpy
        import zarr

        given = {
            "path": self.path,
            "name": "field",
            "shape": (4, 3),
            "dtype": "int16",
            "dims": ("x", "y"),
            "coords": {"x": numpy.arange(4), "place": (("x", "y"), numpy.ones((4, 3), bool))},
        }
        offramp.zarr.create(**given)
        before = files_of(self.path)
        offramp.zarr.create(**given)
        self.assertEqual(before, files_of(self.path))
        self.assertEqual(("x", "y"), opened(self.path)["place"].metadata.dimension_names)
        with self.assertRaisesRegex(offramp.BadArgument, "the array 'field' exists, with .* not .*another path"):
            offramp.zarr.create(**{**given, "dtype": "int32"})
        for chunks in ([0, 1], [1], [1, -1]):
            with self.assertRaisesRegex(offramp.BadArgument, r"the chunks are .*Give 2 whole numbers from 1 on"):
                offramp.zarr.create(**{**given, "name": "other", "chunks": chunks})
        with self.assertRaisesRegex(offramp.BadArgument, "the array 'place' has the name of its coordinates"):
            offramp.zarr.create(**{**given, "path": self.folder / "new.zarr", "name": "place"})
        with self.assertRaisesRegex(offramp.BadArgument, "coordinates 'x' exist with other values"):
            offramp.zarr.create(**{**given, "name": "other", "coords": {"x": numpy.arange(4) + 1}})
        with self.assertRaisesRegex(
            offramp.BadArgument, r"coordinates 'x' have the shape \(5,\), and the array \(4,\)"
        ):
            offramp.zarr.create(**{**given, "name": "other", "coords": {"x": numpy.arange(5)}})
        self.assertNotIn("other", opened(self.path))
        zarr.open_array(self.path / "place", mode="r+").store.root.joinpath("c/0/0").unlink()  # its creator died there
        offramp.zarr.create(**{**given, "name": "third"})
        self.assertTrue(opened(self.path)["place"][:].all())

    def test_the_lock_of_a_process_that_does_not_go_on_is_waited_for(self):
        holder = self.python(
            f"""
            import sys, offramp._name_locks
            with offramp._name_locks.locked([{str(self.path)!r} + "/field#(0, 0, 0)"]):
                print("locked", flush=True)
                sys.stdin.read()
            """,
            stdin=-1,
        )
        self.assertEqual("locked", self.read_line(holder))
        writer = offramp.zarr.Writer(str(self.path))
        with self.slabs(({"field": values_of(1)}, {})) as slabs:
            with unittest.mock.patch("offramp._name_locks.LONGEST_SECONDS", 0):
                with self.assertRaisesRegex(offramp.Retry, "kept the lock of a shard for 0 s"):
                    writer(slabs[0])
            writing = threading.Thread(target=writer, args=(slabs[0],))
            writing.start()
            holder.kill()
            writing.join()
            del slabs
        self.assertEqual(100 * 0 + 1, opened(self.path)["field"][0, 0, 0])

    @unittest.skipUnless(all(S3), "skipped: no s3fs, moto, flask or boto3 (launch/requirements-examples.txt)")
    def test_arrays_of_an_object_store(self):
        import logging

        import boto3
        import numpy
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        self.addCleanup(server.stop)
        environment = {
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.get_host_and_port()[1]}",
        }
        with unittest.mock.patch.dict(os.environ, environment):
            boto3.client("s3").create_bucket(Bucket="results")
            self.path = "s3://results/all.zarr"
            batches = [values_of(3, first) for first in range(0, 15, 3)]
            group = self.run_of(batches, {"shard": 4, "dims": "time lat lon"}, consumers=2)
            numpy.testing.assert_array_equal(values_of(15), group["field"])
            self.assertEqual(((15, 5, 7), (4, 5, 7)), (group["field"].shape, group["field"].shards))
            server.stop()
            with self.slabs(({"field": values_of(1)}, {})) as slabs:
                with self.assertRaisesRegex(offramp.Retry, "s3://results/all.zarr: "):
                    offramp.zarr.Writer(self.path)(slabs[0])
                del slabs


DYING = """
import os, signal, pathlib
import zarr.storage
from offramp.zarr import Writer

writes = 0
put = zarr.storage._local._put

def counted(path, value, exclusive=False):
    global writes
    writes += 1
    if writes == turn:
        with open(os.environ["DEATHS"], "a") as file:
            file.write("x")
        if turn % 2:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".half.partial").write_bytes(value.to_bytes()[:10])
        os.kill(os.getpid(), signal.SIGKILL)
    return put(path, value, exclusive)

class Dying(Writer):
    def __init__(self, **options):
        global turn
        super().__init__(**options)
        deaths = pathlib.Path(os.environ["DEATHS"])
        turn = 1 + (deaths.stat().st_size if deaths.exists() else 0)
        zarr.storage._local._put = counted
"""


@needs_numpy
@needs_zarr
class Resumed(Loops):
    def test_a_resumed_loop_leaves_the_same_array(self):
        def given(place):
            option = {"path": str(place.output / "all.zarr"), "shard": "3", "items": str(BATCHES * ROWS)}
            return {"processor": WRITER, "settings": {"processor-option": option}}

        undisturbed = self.place("undisturbed-array")
        undisturbed.run(**given(undisturbed))
        wanted = undisturbed.results()
        self.assertEqual(float(2 * 11), opened(undisturbed.output / "all.zarr")["values"][44, 0])
        for number, dies in enumerate(("submitted 3", "noted 5", "draining 30")):
            with self.subTest(dies):
                place = self.place(f"place{number}")
                place.killed(dies, **given(place))
                place.run(resume=True, **given(place))
                if dies == "noted 5":
                    self.assertLess(place.submitted(), BATCHES)
                self.assertEqual(wanted, place.results())
