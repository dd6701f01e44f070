"""Metadata of samples: what consumers, results and dead letters get, and what is refused."""

import datetime
import json
import pathlib
import sqlite3
import struct

import offramp
import offramp.testing
from loops import results
from test_egress import Egresses
from world import needs_numpy

AFFINE = {"affine": [[1.0, 0.0], [0.0, 2.5]], "path": "scans/a.nii"}
READER = """
    import sys, offramp
    for slab in offramp.Consumer(sys.argv[1]):
        for sample in slab.samples:
            print(sample.key, sample.metadata, hash(sample) == hash(sample), flush=True)
"""
POST = """
import json

def save(slab):
    for sample in slab.samples:
        if sample.metadata.get("fails"):
            raise ValueError("as asked")
        yield sample, {"seen": sample.metadata}
        yield sample, ".json", json.dumps(sample.metadata).encode()
"""
PROGRAM = """#!/usr/bin/env python3
import json, sys

def answer(**line):
    print(json.dumps(line), flush=True)

sys.stdin.readline()
answer(offramp=1)
for line in sys.stdin:
    slab = json.loads(line)["slab"]
    for sample in slab["samples"]:
        text = json.dumps(sample.get("metadata"))
        answer(slab=slab["number"], file={"sample": sample["sample"], "ending": ".txt", "text": text})
    answer(slab=slab["number"], done=True)
"""


@needs_numpy
class Metadata(Egresses):
    def setUp(self):
        super().setUp()
        self.post = self.folder / "post.py"
        self.post.write_text(POST)
        self.output = self.folder / "out"

    def run_with(self, processor, metadata, **options):
        import numpy

        keys = [f"k{row}" for row in range(len(metadata))]
        with offramp.Egress(output=self.output, processor=processor, consumers=1, **options) as egress:
            egress.submit(numpy.zeros((len(metadata), 2), "float32"), keys, metadata=metadata)

    def test_consumers_see_it_for_fixed_and_varying_shapes(self):
        import numpy

        metadata = [AFFINE, None, {}, {"text": "ä\0", "number": 1.5}]
        for number, form in enumerate((numpy.zeros((4, 2)), [numpy.zeros(length) for length in range(4)])):
            run_dir = f"{self.run_dir}{number}"
            with self.subTest(type(form).__name__), offramp.Egress(run_dir, samples_per_slab=2) as egress:
                reader = self.python(READER, run_dir)
                egress.submit(form, list("abcd"), metadata=metadata)
                egress.submit(form, list("efgh"))
            expected = [(key, one or {}) for key, one in zip("abcdefgh", [*metadata, *[None] * 4])]
            self.assertEqual("".join(f"{key} {one} True\n" for key, one in expected), self.end(reader))

    def test_arrays_and_paths_become_json(self):
        import numpy

        self.run_with(f"{self.post}:save", [{"eye": numpy.eye(2), "n": numpy.int64(3), "at": pathlib.Path("a/b")}])
        self.assertEqual(
            {"eye": [[1.0, 0.0], [0.0, 1.0]], "n": 3, "at": "a/b"}, json.loads((self.output / "k0.json").read_text())
        )
        record = json.loads((self.output / "records.jsonl").read_text())
        self.assertEqual(3, record["seen"]["n"])

    def test_built_in_processors_write_it(self):
        self.run_with("records,safetensors", [AFFINE, None])
        with sqlite3.connect(self.output / "records" / "records.sqlite") as database:
            rows = dict(database.execute("SELECT key, columns FROM records"))
        self.assertEqual([AFFINE, {}], [json.loads(rows[key]) for key in ("k0", "k1")])
        noted = []
        for key in ("k0", "k1"):
            data = (self.output / "safetensors" / f"{key}.safetensors").read_bytes()
            header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
            noted.append(header["__metadata__"].get("metadata"))
        self.assertEqual(AFFINE, json.loads(noted[0]))
        self.assertIsNone(noted[1])

    def test_a_program_sees_it(self):
        program = self.folder / "program"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.run_with(f"exec:{program}", [AFFINE, None])
        self.assertEqual([AFFINE, None], [json.loads((self.output / f"k{row}.txt").read_text()) for row in range(2)])

    def test_a_dead_letter_keeps_it(self):
        metadata = {"fails": True, "path": '"a\\\x01ä"'}
        with self.assertRaises(offramp.ConsumersFailed):
            self.run_with(f"{self.post}:save", [metadata], run_dir=self.run_dir, max_failures=1)
        letter = next((self.run_dir / "dead-letters").glob("*.safetensors"))
        self.post.write_text(POST.replace('"fails"', '"other"'))
        files = offramp.testing.process(letter, f"{self.post}:save", self.folder / "retried")
        self.assertEqual(metadata, json.loads(files["k0.json"]))

    def test_saved_slabs_have_it(self):
        import numpy

        slab = offramp.testing.save_slab(
            self.folder / "slab", {"a": numpy.zeros((2, 1))}, ["k0", "k1"], metadata=[AFFINE, None]
        )
        files = offramp.testing.process(slab, f"{self.post}:save", self.output)
        self.assertEqual([AFFINE, {}], [json.loads(files[f"k{row}.json"]) for row in range(2)])

    def test_a_resumed_run_has_it(self):
        import numpy

        def submitted(batches):
            with offramp.Egress(output=self.output, processor=f"{self.post}:save", consumers=1, resume=True) as egress:
                for keys, array in egress.pending([([str(batch)], numpy.zeros((1, 2))) for batch in range(batches)]):
                    egress.submit(array, keys, metadata=[{"key": key} for key in keys])

        submitted(2)
        before = results(self.output)
        submitted(3)
        after = results(self.output)
        self.assertEqual({"key": "2"}, json.loads(after["2.json"]))
        self.assertEqual(before["1.json"], after["1.json"])

    def test_the_first_batch_chooses_the_limit_and_a_resumed_run_keeps_it(self):
        import numpy

        given = [{"a": "b" * 1500}, None, {"a": "b" * 3000}]

        def run(last):
            batches = [([str(batch)], numpy.zeros((1, 2)), given[batch]) for batch in range(last)]
            with offramp.Egress(output=self.output, processor="checksum", consumers=1, resume=True) as egress:
                for keys, array, metadata in egress.pending(batches):
                    egress.submit(array, keys, metadata=None if metadata is None else [metadata])
                return egress

        self.assertEqual(3016, run(1)._run._given.metadata_bytes)
        self.assertEqual(3016, run(2)._run._given.metadata_bytes, "its first pending batch has none")
        with self.assertRaisesRegex(offramp.BadArgument, "has 20008 bytes as JSON. Give at most 16384"):
            offramp.Egress(self.run_dir).submit(numpy.zeros((1, 2)), metadata=[{"a": "b" * 20000}])
        self.assertFalse(self.run_dir.exists(), "refused before the run opened")
        with self.assertRaisesRegex(offramp.BadArgument, "has 20008 bytes as JSON"):
            offramp.testing.save_slab(self.folder / "slab", {"a": numpy.zeros((1, 1))}, metadata=[{"a": "b" * 20000}])

    def test_a_dead_letter_with_other_text_is_refused(self):
        import numpy

        slab = self.folder / "slab"
        offramp.testing.save_slab(slab, {"a": numpy.zeros((1, 1))}, metadata=[{"abcd": 1}])
        slab.write_bytes(slab.read_bytes().replace(b":1}", b":1,"))
        with self.assertRaisesRegex(offramp.Failed, "'samples' is invalid"):
            offramp.testing.process(slab, f"{self.post}:save", self.output)

    def test_only_the_encoder_walks_a_list_of_numbers(self):
        import numpy

        walks = []

        class Numbers(list):
            def __iter__(self):
                walks.append(len(self))
                return super().__iter__()

        metadata = [{"path": "a.png", "values": Numbers([1, 2])}]
        offramp.testing.save_slab(self.folder / "slab", {"a": numpy.zeros((1, 1))}, metadata=metadata)
        self.assertEqual(1, len(walks))

    def test_wrong_metadata_is_refused_and_the_run_goes_on(self):
        import numpy

        loop = {}
        loop["loop"] = loop
        cases = (
            ("x", offramp.BadArgument, "metadata is a single str"),
            ({"path": "a"}, offramp.BadArgument, "metadata is a single dict. Give a list, one per sample"),
            ([{}], offramp.BadArgument, "metadata of 1 samples for 2"),
            ([{}, "b"], offramp.BadArgument, "the metadata of sample 1 is of type str. Give a dict"),
            (
                [{"a": float("nan")}, {}],
                offramp.BadArgument,
                "sample 0 cannot be stored as JSON: its field 'a' is nan: Out of range",
            ),
            ([{"a": numpy.array([numpy.inf])}, {}], offramp.BadArgument, "sample 0 cannot be stored as JSON"),
            (
                [{"a": object()}, {}],
                offramp.BadArgument,
                "sample 0 cannot be stored as JSON: its field 'a' is <object object at .*>: a value is of type object",
            ),
            (
                [{}, {"a": 1, "when": datetime.date(2026, 1, 2)}],
                offramp.BadArgument,
                r"sample 1 cannot be stored as JSON: its field 'when' is datetime.date\(2026, 1, 2\): a value is of type date",
            ),
            (
                [{1: 2, "1": 3}, {}],
                offramp.BadArgument,
                "sample 0 has the keys 1 and '1', which are the same text in JSON",
            ),
            ([{}, {"a": [{"b": {"null": 2, None: 3}}]}], offramp.BadArgument, "sample 1 has the keys 'null' and None"),
            ([{"a": [0, {"1": 2, 1: 3}]}, {}], offramp.BadArgument, "sample 0 has the keys '1' and 1"),
            ([{}, loop], offramp.BadArgument, "sample 1 cannot be stored as JSON"),
            ([{(1, 2): 3}, {}], offramp.BadArgument, "sample 0 cannot be stored as JSON"),
            ([{"a": "\ud800"}, {}], offramp.BadArgument, "sample 0 cannot be stored as JSON"),
            (
                [{}, {"a": "b" * 3000}],
                offramp.BadArgument,
                "sample 1 has 3008 bytes as JSON, and the run was opened for 2048. Open it with metadata_bytes for the largest, at least 3008",
            ),
            (
                [{}, {"a": "b" * 20000}],
                offramp.BadArgument,
                "has 20008 bytes as JSON. Give at most 16384; submit larger data as a tensor",
            ),
        )
        with offramp.Egress(output=self.output, processor=f"{self.post}:save", consumers=1) as egress:
            egress.submit(numpy.zeros((1, 2)), ["first"], metadata=[{"a": "b" * 1016}])
            for number, (metadata, kind, text) in enumerate(cases):
                with self.subTest(text), self.assertRaisesRegex(kind, text):
                    egress.submit(numpy.zeros((2, 2)), [f"{number}/0", f"{number}/1"], metadata=metadata)
            egress.submit(numpy.zeros((1, 2)), ["last"])
        files = results(self.output)
        self.assertEqual({"first.json", "last.json"}, {name for name in files if name.endswith(".json")})
        with offramp.Egress(self.folder / "other", {"a": ("float64", (2, 2))}, "cpu") as egress:
            with self.assertRaisesRegex(
                offramp.BadArgument, "the run was opened for 0. Open it with metadata_bytes for the largest, at least 7"
            ):
                egress.submit({"a": numpy.zeros((1, 2))}, metadata=[{"a": 1}])
            egress.close()
        with self.assertRaisesRegex(offramp.BadArgument, "metadata of 20000 bytes per sample. Give at most 16384"):
            offramp.Egress(self.folder / "third", {"a": ("float64", (2, 2))}, "cpu", metadata_bytes=20000)
