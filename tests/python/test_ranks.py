"""Several ranks with one output: merged results, resumption after a death, and refusals."""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import unittest
import unittest.mock

import offramp
import offramp.ranks
from loops import POST, processes_of, results
from offramp._library import library
from test_zarr import needs_zarr, opened
from world import World, needs_numpy, wait_for

BATCHES, ROWS = 6, 2  # of each rank
# Arguments: those of the Egress, as Python; the folder of notes; a batch of rank 1 that it dies after, or -1.
RANK = """
import os, pathlib, signal, sys, time
import numpy, offramp.ranks

options, folder, dies = eval(f"dict({sys.argv[1]})"), pathlib.Path(sys.argv[2]), int(sys.argv[3])
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
batches = [([f"b{ranks * n + rank:02}-{row}" for row in range(2)], numpy.full((2, 3), ranks * n + rank, "float32"))
           for n in range(6)]
submitted = 0
with offramp.ranks.egress(consumers=1, slabs=4, samples_per_slab=2, **options) as egress:
    for number, (keys, values) in enumerate(egress.pending(batches)):
        egress.submit({"values": values}, keys)
        submitted += 1
        if rank == 1 and number == dies:
            checkpoint = pathlib.Path(options["output"], ".offramp-shards/1/.offramp-egress")
            while not checkpoint.exists() or b'"done"' not in checkpoint.read_bytes():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)
print(submitted)
"""


@needs_numpy
class Ranks(World):
    def setUp(self):
        super().setUp()
        self.post = self.folder / "post.py"
        self.post.write_text(POST)
        self.output = self.folder / "out"
        self.gates = self.folder / "gates"
        self.gates.mkdir()
        self.options = {"output": str(self.output), "processor": f"{self.post}:save,embeddings-sqlite"}

    def start(self, rank, ranks=2, dies=-1, **more):
        environment = {**os.environ, "GATES": str(self.gates), "RANK": str(rank), "WORLD_SIZE": str(ranks)}
        options = ", ".join(f"{name}={value!r}" for name, value in {**self.options, **more}.items())
        return self.python(RANK, options, self.folder, dies, env=environment)

    def keys(self):
        return [f"b{batch:02}-{row}" for batch in range(2 * BATCHES) for row in range(ROWS)]

    def require_whole(self):
        found = results(self.output)
        for key in self.keys():
            self.assertEqual(12, len(found[f"post.py-save/{key}.bin"]))
        records = [json.loads(line) for line in found["post.py-save/records.jsonl"].splitlines()]
        self.assertEqual(self.keys(), sorted(record["key"] for record in records))
        self.assertEqual(len(records), len({record["item"] for record in records}))
        with sqlite3.connect(self.output / "embeddings-sqlite" / "embeddings.sqlite") as table:
            rows = table.execute("SELECT key, vector FROM embeddings ORDER BY key").fetchall()
        table.close()
        self.assertEqual(self.keys(), [key for key, _ in rows])

    def test_two_ranks_fill_one_output_with_files_and_tables(self):
        started = [self.start(rank) for rank in (0, 1)]
        self.assertEqual(["6\n", "6\n"], [self.end(each) for each in started])
        self.require_whole()

    def test_after_a_ranks_death_all_are_resumed(self):
        started = [self.start(rank, dies=2) for rank in (0, 1)]
        self.assertEqual("6\n", self.end(started[0]))
        self.end(started[1], -signal.SIGKILL)
        wait_for(lambda: not processes_of(self.folder), "that the dead rank's consumers are gone")
        self.assertFalse((self.output / "post.py-save" / "records.jsonl").exists(), "nothing is merged yet")
        again = [self.start(rank, resume=True) for rank in (0, 1)]
        submitted = [int(self.end(each)) for each in again]
        self.assertEqual(0, submitted[0])
        self.assertIn(submitted[1], range(3, 6), "some batches were done, and at least three not submitted")
        self.require_whole()

    def test_the_merge_runs_the_librarys_programs_which_inherit_the_lock(self):
        real = pathlib.Path(library()._name).resolve()
        place, log = self.folder / "installed", self.folder / "fds"
        (place / "bin").mkdir(parents=True)
        (place / "lib").mkdir()
        shutil.copy(real, place / "lib")
        for name in ("offramp-consumer", "offramp-producer"):
            program = place / "bin" / name
            program.write_text(
                f"#!/bin/sh\ntest $1 != join-shards || ls -l /proc/$$/fd > {log}\n"
                f'exec {real.parents[1]}/bin/{name} "$@"\n'
            )
            program.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name != "OFFRAMP_BIN_DIR"}
        environment["OFFRAMP_LIBRARY"] = str(place / "lib" / real.name)
        self.options["processor"] = "embeddings-sqlite"
        with unittest.mock.patch.dict(os.environ, environment, clear=True):
            started = [self.start(rank) for rank in (0, 1)]
        self.assertEqual(["6\n", "6\n"], [self.end(each) for each in started])
        self.assertIn(f"{self.output}/.offramp-shards/lock", log.read_text())

    def test_a_key_of_another_rank_is_refused(self):
        import numpy

        def submit(rank, keys):
            with offramp.ranks.egress(rank=rank, ranks=2, consumers=1, output=self.output, processor="npy") as egress:
                egress.submit(numpy.full((len(keys), 3), rank, "float32"), keys)

        self.output.mkdir()
        for name in (".DS_Store", ".nfs0001"):  # does not count
            (self.output / name).touch()
        submit(0, ["a", "b"])
        with self.assertRaisesRegex(offramp.BadArgument, r"key 'b' was .* rank 0.* new output: .*range\(rank"):
            submit(1, ["c", "b"])
        self.assertEqual(0, numpy.load(self.output / "b.output.npy")[0])
        self.assertFalse((self.output / "c.output.npy").exists())

    def test_keys_of_a_batch_that_is_refused_are_free(self):
        import numpy

        options = {"ranks": 2, "consumers": 1, "output": self.output, "processor": "npy"}
        with offramp.ranks.egress(rank=0, **options) as egress:
            egress.submit(numpy.zeros((1, 3), "float32"), ["a"])
            with self.assertRaisesRegex(offramp.BadArgument, "type"):
                egress.submit(numpy.zeros((1, 3), "int8"), ["b"])
        with offramp.ranks.egress(rank=1, **options) as egress:
            egress.submit(numpy.ones((1, 3), "float32"), ["b"])
        self.assertEqual(1, numpy.load(self.output / "b.output.npy")[0])

    def test_dead_letters_name_the_way_to_results(self):
        import numpy

        self.post.write_text("def save(slab):\n    raise ValueError('broken')\n")
        with self.assertRaisesRegex(
            offramp.ConsumersFailed, "broken.* A retry writes beside .* all ranks again"
        ) as caught:
            with offramp.ranks.egress(
                rank=0, ranks=2, consumers=1, output=self.output, processor=f"{self.post}:save", max_failures=1
            ) as egress:
                egress.submit(numpy.zeros((1, 3), "float32"), ["a"])
        self.assertEqual(84, caught.exception.code)

    @needs_zarr
    def test_samples_of_zarr_need_an_index(self):
        import numpy

        path = self.folder / "all.zarr"

        def submit(rank, options, metadata):
            settings = {"processor-option": {"path": path, **options}}
            with offramp.ranks.egress(
                rank=rank, ranks=2, consumers=1, output=self.output, processor="python:offramp.zarr:Writer",
                settings=settings,
            ) as egress:  # fmt: skip
                values = numpy.full((2, 3), rank, "float32")
                egress.submit(values, [f"{rank}-{row}" for row in range(2)], metadata=metadata)

        for options, metadata in (({}, None), ({}, [{"at": 0}, {"at": 1}]), ({"index": "at"}, [{"at": 0}, None])):
            with self.subTest(options), self.assertRaisesRegex(offramp.BadArgument, "needs each sample's index"):
                submit(0, options, metadata)
            shutil.rmtree(self.output)
        for rank in (0, 1):
            submit(rank, {"index": "at"}, [{"at": 2 * row + rank} for row in range(2)])
        numpy.testing.assert_array_equal([0, 1, 0, 1], opened(path)["output"][:, 0])

    def test_other_work_is_refused(self):
        self.assertEqual(["6\n", "6\n"], [self.end(each) for each in [self.start(rank) for rank in (0, 1)]])
        for more, reason in (
            ({}, r"has earlier work of rank 0\. Pass resume=True"),
            ({"resume": True, "ranks": 3}, "ranks was 2 and is 3"),
            ({"resume": True, "processor": "npy"}, "processor was '.*post.py:save,embeddings-sqlite' and is 'npy'"),
            ({"resume": True, "identity": "v2"}, "identity was .* and is 'v2'"),
            ({"settings": {"overwrite": True}}, "'overwrite' does not go with several ranks"),
        ):
            with self.subTest(more), self.assertRaisesRegex(offramp.BadArgument, reason):
                offramp.ranks.egress(**{"rank": 0, "ranks": 2, **self.options, **more})
        with self.assertRaisesRegex(offramp.BadArgument, "has the work of a program with 2 ranks"):
            self.submit_one(offramp.Egress(**self.options, resume=True))
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "notes.txt").touch()
        with self.assertRaisesRegex(offramp.BadArgument, "is not empty: it has notes.txt"):
            offramp.ranks.egress(rank=0, ranks=2, output=self.folder / "mine", processor="npy")

    def submit_one(self, egress):
        import numpy

        with egress:
            egress.submit(numpy.zeros((1, 3), "float32"), ["a"])

    def test_one_rank_has_an_ordinary_output(self):
        self.submit_one(offramp.ranks.egress(output=self.output, processor="npy", consumers=1))
        self.assertEqual({"a.output.npy"}, set(results(self.output)))
        self.assertFalse((self.output / ".offramp-shards").exists())

    def test_arguments_are_checked(self):
        for arguments, reason in (
            ({"rank": 1}, "only one of rank and ranks is given"),
            ({"rank": 2, "ranks": 2}, "the rank is 2. Give 0 to 1"),
            ({"rank": 0, "ranks": 2, "output": "s3://bucket/x"}, "object store, which does not go with several ranks"),
            ({"rank": 0, "ranks": 2, "processor": None}, "processor"),
            ({"groups": {"arrays": offramp.Group("npy")}}, "groups do not go with ranks yet. Omit groups"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(offramp.BadArgument, reason):
                offramp.ranks.egress(**{"output": self.output, "processor": "npy", **arguments})
        egress = offramp.ranks.egress(rank=0, ranks=2, output=self.output, processor="npy", consumers=1)
        with egress, self.assertRaisesRegex(offramp.BadArgument, "Give keys"):
            egress.submit([0.0])
