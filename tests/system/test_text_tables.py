"""
Texts with ids and columns, of JSON lines and of Parquet, to vectors and rows: the same for every format, after kills
and in shards.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import random
import signal
import sqlite3
import unittest

from tests.support.run_memory import endpoint
from tests.support.text_runs import TextRuns
from tests.system.test_several_inputs import NETWORKS, TOKENS, WORDS

ROWS = 240
NEEDED = ("torch", "tokenizers", "pyarrow")
HAS_MODULE = (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet_texts.so").exists()


def rows_of_any_form():
    """
    Texts of several lines, empty, with quotes, and longer than the model takes; columns with null and nested values.
    """
    chance = random.Random(7)
    words = ("slab", "lease", "ticket", "credit", "Größe", "日本語", '"', "\\", "\n", "\u2028", "\U0001f600")
    return [
        {
            "id": f"doc/{number} é" if number % 3 else f"{number}",
            "text": " ".join(chance.choices(words, k=chance.randrange(20))),
            "title": None if number % 7 == 0 else f"Title „{number}“",
            "year": 1990 + number % 30,
            "score": number / 8,
            "tags": ["a", "b"][: number % 3],
        }
        for number in range(ROWS)
    ]


@unittest.skipUnless(
    HAS_MODULE and all(importlib.util.find_spec(name) for name in NEEDED), f"skipped: needs {', '.join(NEEDED)}"
)
class TextTables(TextRuns, unittest.TestCase):
    processors = ("--processor", "embeddings-sqlite,embeddings-parquet,records")

    @classmethod
    def setUpClass(cls):
        import pyarrow
        import pyarrow.parquet

        cls.begin("text-tables", NETWORKS, WORDS, TOKENS)
        cls.rows = rows_of_any_form()
        cls.jsonl = cls.write(
            "rows.jsonl",
            "".join(
                json.dumps(row, ensure_ascii=number % 2 == 0) + "\n\n"[: 1 + number % 2]
                for number, row in enumerate(cls.rows)
            ),
        )
        cls.table = pyarrow.Table.from_pylist(cls.rows)
        cls.parquet = cls.folder / "rows.parquet"
        pyarrow.parquet.write_table(cls.table, cls.parquet, row_group_size=50)

    def results(self, output):
        """Vectors and rows in SQLite and Parquet, by name."""
        import pyarrow.parquet

        with contextlib.closing(sqlite3.connect(next(output.rglob("embeddings.sqlite")))) as database:
            vectors = database.execute("SELECT item, key, id, columns, vector FROM embeddings ORDER BY item").fetchall()
        with contextlib.closing(sqlite3.connect(next(output.rglob("records.sqlite")))) as database:
            records = database.execute("SELECT item, key, status, columns FROM records ORDER BY item").fetchall()
            ids = database.execute("SELECT item, id FROM records ORDER BY item").fetchall()
        self.assertEqual(
            [row[:1] + row[2:3] for row in vectors], [row for row in ids if row[0] in {item for item, *_ in vectors}]
        )
        table = pyarrow.parquet.read_table(
            next(output.rglob("embeddings.parquet")), columns=["item", "key", "id", "columns", "vector"]
        )
        return {
            "vectors": vectors,
            "records": records,
            "parquet": sorted(table.to_pylist(), key=lambda row: row["item"]),
        }

    def undisturbed(self, source, path, *flags):
        return self.results(self.ended(source, path, *flags).output)

    def test_both_forms_give_the_same_and_a_killed_run_continues(self):
        wanted = self.undisturbed("jsonl-text", self.jsonl)
        self.assertEqual(
            [(item, key, status, json.loads(columns)) for item, key, status, columns in wanted["records"]],
            [
                (item, row["id"], "done", {name: row[name] for name in ("title", "year", "score", "tags")})
                for item, row in enumerate(self.rows)
            ],
        )
        rows = [
            (item, row["id"], row["id"], {name: row[name] for name in ("title", "year", "score", "tags")})
            for item, row in enumerate(self.rows)
        ]
        self.assertEqual(
            [(item, key, name, json.loads(columns)) for item, key, name, columns, _ in wanted["vectors"]], rows
        )
        self.assertEqual(
            [(row["item"], row["key"], row["id"], json.loads(row["columns"])) for row in wanted["parquet"]], rows
        )
        for source, path in (("jsonl-text", self.jsonl), ("parquet-text", self.parquet)):
            with self.subTest(source):
                self.assertEqual(self.results(self.resumed(source, path).output), wanted)

    def test_a_consumer_that_finds_other_rows_ends_the_run(self):
        with self.begun("changed.jsonl") as (world, path, _):
            self.replace(path, [{**row, "year": 0} for row in self.rows])
            world.call("scale", "3", "--run-dir", world.run_dir)
            self.assertEqual(world.wait(), 65, world.logs())
        self.assertIn(
            f"the first {ROWS} rows are not those that the run began with", (world.folder / "launcher.log").read_text()
        )
        self.assertNotIn("restart", (world.folder / "launcher.log").read_text())

    def test_a_second_producer_that_finds_other_rows_ends_the_run(self):
        with self.begun("of-the-first.jsonl") as (world, path, _):
            self.replace(path, [{**row, "year": 0} for row in self.rows])
            os.kill(int(endpoint(world.run_dir)["producer_pid"]), signal.SIGKILL)
            self.assertEqual(world.wait(), 65, world.logs())
        self.assertIn(
            f"the first {ROWS} rows are not those that the run began with", (world.folder / "launcher.log").read_text()
        )

    def test_a_continued_run_keeps_its_own_rows_and_not_a_dead_runs(self):
        path = self.write("grown.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows))
        world = self.world("jsonl-text", path, processors=("--processor", "records"))
        world.break_off(slabs=2)
        kept = world.run_dir / "live/listed-rows"
        self.assertTrue(kept.read_text().startswith(f"{ROWS} "))
        self.replace(path, [*self.rows, {**self.rows[0], "id": "added"}])
        (world.run_dir / "status.json").unlink()
        world.runs = 0  # the same directory
        with world.gate() as gate:
            world.start("--resume")
            gate.let(2)
            world.until(
                lambda: world.status().get("done_samples") and kept.read_text().startswith(f"{ROWS + 1} "),
                "the second run's rows",
            )
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        with contextlib.closing(sqlite3.connect(world.output / "records.sqlite")) as database:
            self.assertEqual(
                database.execute("SELECT count(*) FROM records WHERE status = 'done'").fetchone(), (ROWS + 1,)
            )

    def test_a_consumer_that_finds_rows_added_at_the_end_continues(self):
        with self.begun("longer.jsonl") as (world, path, gate):
            self.replace(path, [*self.rows, {**self.rows[0], "id": "added"}])
            self.assertEqual(world.call("scale", "3", "--run-dir", world.run_dir)[0], 0)
            logs = world.run_dir / "logs"
            world.until(
                lambda: sum(log.read_text().count(" has consumer index ") for log in logs.glob("consumer-*.log")) == 3,
                "the new consumer",
            )
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
        with contextlib.closing(sqlite3.connect(world.output / "records.sqlite")) as database:
            self.assertEqual(database.execute("SELECT count(*) FROM records WHERE status = 'done'").fetchone(), (ROWS,))

    @contextlib.contextmanager
    def begun(self, name):
        """(a run that waits at the gate after two slabs, its input file of this name, the gate)."""
        path = self.write(name, "".join(json.dumps(row) + "\n" for row in self.rows))
        world = self.world("jsonl-text", path, processors=("--processor", "records"))
        with world.gate() as gate:
            world.start()
            gate.let(2)
            world.until(lambda: world.status().get("done_samples"), "samples done")
            yield world, path, gate

    @staticmethod
    def replace(path, rows):
        """Replaces the file; running consumers keep the old one open."""
        beside = path.with_suffix(".new")
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
        beside.rename(path)

    def test_merged_shards_equal_the_whole(self):
        wanted = self.undisturbed("parquet-text", self.parquet, "--columns", "year,title")
        self.assertEqual(
            [json.loads(columns) for *_, columns in wanted["records"]],
            [{"title": row["title"], "year": row["year"]} for row in self.rows],
        )
        parts = [
            self.undisturbed("parquet-text", self.parquet, "--columns", "year,title", "--shard", f"{number}/3")
            for number in (1, 2, 3)
        ]
        for kind, rows in wanted.items():
            self.assertEqual(sum((part[kind] for part in parts), []), rows, kind)

    def test_merged_shards_of_a_job_and_of_gpus_equal_the_whole(self):
        wanted = self.undisturbed("parquet-text", self.parquet)
        self.assertEqual(self.results(self.in_shards(3, "parquet-text", self.parquet).output), wanted)
        self.assertEqual(self.undisturbed("jsonl-text", self.jsonl, "--gpus", "2"), wanted)

    def test_ids_of_any_form_are_stored_unchanged_beside_the_vectors(self):
        ids = ["https://example.org/a?b=1#c", "../../x", "/y//z", "a\tb", 12345678901234567890123, "plain"]
        path = self.write(
            "ids.jsonl",
            "".join(
                json.dumps({"id": name, "text": f"slab {number}", "n": number}) + "\n"
                for number, name in enumerate(ids)
            ),
        )
        found = self.undisturbed("jsonl-text", path)
        self.assertEqual(
            [(name, columns) for _, _, name, columns, _ in found["vectors"]],
            [(str(name), f'{{"n":{number}}}') for number, name in enumerate(ids)],
        )
        self.assertNotEqual(
            [key for _, key, *_ in found["vectors"]], [str(name) for name in ids], "keys are valid file names"
        )
        self.assertEqual([row["id"] for row in found["parquet"]], [str(name) for name in ids])

    def test_a_run_of_vectors_has_columns_unless_they_are_not_wanted(self):
        bare = self.ended("jsonl-text", self.jsonl, "--vector-columns", "none", processors=("--profile", "embeddings"))
        self.assertEqual(self.columns_of(bare), ["key", "output", "item", "vector"])
        whole = self.ended("jsonl-text", self.jsonl, processors=("--profile", "embeddings"))
        self.assertEqual(self.columns_of(whole), ["key", "output", "item", "vector", "id", "columns"])
        self.assertNotEqual(whole.start("--resume", "--vector-columns", "none").wait(), 0)
        self.assertIn("--vector-columns was all and is none", whole.logs())

    def test_a_table_without_columns_that_is_continued_is_refused_by_name(self):
        world = self.world("jsonl-text", self.jsonl, processors=("--profile", "embeddings"))
        world.break_off(slabs=3)
        # Simulates a table without these columns.
        with contextlib.closing(sqlite3.connect(world.output / "embeddings.sqlite")) as database:
            for column in ("id", "columns"):
                database.execute(f"ALTER TABLE embeddings DROP COLUMN {column}")
            database.commit()
        self.assertNotEqual(world.start("--resume").wait(), 0)
        self.assertIn("has no column 'id' in its table 'embeddings'", world.logs())
        self.assertIn("--overwrite", world.logs())

    def columns_of(self, world):
        with contextlib.closing(sqlite3.connect(world.output / "embeddings.sqlite")) as database:
            return [name for _, name, *_ in database.execute("PRAGMA table_info(embeddings)")]

    def test_a_query_shows_ids_columns_and_texts(self):
        for source, path in (("jsonl-text", self.jsonl), ("parquet-text", self.parquet)):
            with self.subTest(source):
                world = self.ended(source, path, "--columns", "title,year", processors=("--profile", "embeddings"))
                row = max(self.rows, key=lambda row: len(set(row["text"].split())))
                words = (" ".join(row["text"].split()), "--top", "5")
                printed = self.query(world, *words).splitlines()
                self.assertEqual(len(printed), 5)
                self.assertIn('{"title":', printed[0])
                shown = self.query(world, *words, "--input", str(path))
                self.assertIn(row["id"], shown)
                self.assertIn(" ".join(row["text"].split()), " ".join(shown.split()))

    def test_other_columns_and_other_texts_are_other_work(self):
        path = self.write("changing.jsonl", self.jsonl.read_bytes())
        world = self.ended("jsonl-text", path, processors=("--processor", "records"))
        path.write_bytes(self.jsonl.read_bytes().replace(b'"year": 1993', b'"year": 1893', 1))
        self.assertNotEqual(world.start("--resume").wait(), 0)
        self.assertIn("holds other work", world.logs())

    def test_an_invalid_table_is_refused_in_a_line_before_a_model_is_loaded(self):
        import pyarrow
        import pyarrow.parquet

        good = '{"id": "a", "text": "slab"}\n'
        lines = (
            ("", 66, ("no lines",)),
            ("\n\n", 66, ("no lines",)),
            (good + good, 65, ("line 2", "its id 'a' is also the id of line 1", "--id-column")),
            (good + '{"text": "slab"}', 65, ("line 2", 'no "id"', "--id-column")),
            (good + '{"id": null, "text": "slab"}', 65, ("line 2", '"id"', "is null")),
            (good + '{"id": 1.5, "text": "slab"}', 65, ("line 2", "a number: 1.5", "whole numbers")),
            (good + '{"id": "b"}', 65, ("line 2", 'no "text"', "--text-column")),
            (good + '{"id": "b", "text": null}', 65, ("line 2", '"text"', "is null")),
            (good + '{"id": "b", "text": [7]}', 65, ("line 2", "a list: [7]")),
            (good + '{"id": "b", "text": "sla', 65, ("line 2", "not JSON", "byte")),
            (good + "[]\n", 65, ("line 2", "not a JSON object")),
            (
                good.encode() + b'{"id": "b", "text": "\xff"}',
                65,
                ("line 2", "not UTF-8 from byte 22", "iconv -f LATIN1"),
            ),
            (good.encode("utf-16"), 65, ("line 1", "it is UTF-16", "iconv -f UTF-16")),
            (b"PAR1" + bytes(40), 65, ("Parquet", "--source parquet-text")),
            (
                '{"id": "a", "text": "", "n": 1}\n{"id": "b", "text": "", "n": null}\n{"id": "c", "text": "", "n": "x"}',
                65,
                ("line 3", '"n" is text ("x")', "line 1 it is a number", "--columns"),
            ),
        )
        for number, (content, code, words) in enumerate(lines):
            self.assert_refused("jsonl-text", self.write(f"bad-{number}.jsonl", content), code, words)
        self.assert_refused(
            "jsonl-text", self.jsonl, 65, ('no line has the column "yaer"', '"year"'), "--columns", "yaer"
        )
        self.assert_refused(
            "jsonl-text", self.jsonl, 64, ("names 'id', which is already included",), "--columns", "year,id"
        )

        whole = self.parquet.read_bytes()
        self.assert_refused("parquet-text", self.write("empty.parquet", b""), 66, ("is empty",))
        self.assert_refused(
            "parquet-text",
            self.write("cut.parquet", whole[: len(whole) // 2]),
            65,
            ("not a complete Parquet file", "copy or write it again"),
        )
        self.assert_refused("parquet-text", self.jsonl, 65, ("not a Parquet file", "JSON lines", "--source jsonl-text"))
        data = bytearray(whole)
        data[len(data) // 8 : len(data) // 4] = bytes(len(data) // 4 - len(data) // 8)
        self.assert_refused(
            "parquet-text", self.write("damaged.parquet", bytes(data)), 65, ("row group", "copy or write it again")
        )
        self.assert_refused(
            "parquet-text", self.parquet, 65, ('no column "body"', '"title"', "--text-column"), "--text-column", "body"
        )
        self.assert_refused(
            "parquet-text", self.parquet, 65, ("row 1", '"year" is a number: 1990'), "--text-column", "year"
        )
        schema = pyarrow.schema([("id", pyarrow.int64()), ("text", pyarrow.string())])
        for name, rows, code, words in (
            ("none", [], 66, ("no rows",)),
            ("null", [{"id": 1, "text": "a"}, {"id": 2, "text": None}], 65, ("row 2", "is null")),
            (
                "twice",
                [{"id": 1, "text": "a"}, {"id": 1, "text": "b"}],
                65,
                ("row 2", "its id '1' is also the id of row 1"),
            ),
        ):
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), self.folder / f"{name}.parquet")
            self.assert_refused("parquet-text", self.folder / f"{name}.parquet", code, words)

    def assert_refused(self, source, path, code, words, *flags):
        with self.subTest(path.name, flags=flags):
            world = self.world(source, path, *flags)
            self.assertEqual(world.start().wait(), code, world.logs())
            (error,) = (line for line in world.logs().splitlines() if line.startswith("[run] producer: critical: "))
            for word in ("--columns" if code == 64 else str(path), *words):
                self.assertIn(word, error, world.logs())
            self.assertNotIn("model: ", world.logs())

    def test_a_text_that_is_too_long_is_skipped_and_its_columns_stay(self):
        path = self.write(
            "long.jsonl",
            "".join(
                json.dumps({"id": f"{number}", "text": "slab " * (2_000_000 if number == 4 else 3), "n": number}) + "\n"
                for number in range(12)
            ),
        )
        world = self.ended("jsonl-text", path, "--max-errors", "1")
        self.assertEqual(
            [(key, status, json.loads(columns)) for _, key, status, columns in self.results(world.output)["records"]],
            [(f"{number}", "skipped" if number == 4 else "done", {"n": number}) for number in range(12)],
        )
        self.assertIn(
            "longer than 1 MiB: 10000000 bytes", json.dumps(json.loads((world.run_dir / "summary.json").read_text()))
        )
