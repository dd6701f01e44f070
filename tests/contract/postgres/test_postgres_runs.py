"""Whole runs into PostgreSQL with pgvector: killed runs continue, errors are reported, no password is shown."""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import unittest

from tests.support.launched_gpus import GpusWorld
from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.launched_run import ROOT, programs_with_faulty_consumer
from tests.support.postgres_server import PASSWORD, PostgresServer, missing_requirement

ITEMS = 320
FLAGS = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --copy-outputs 12 --batch 8".split(),
    *"--batches-per-slab 1 --batches".split(),
    str(ITEMS // 8),
    "--status-seconds",
    "0.05",
)


class WithServer(unittest.TestCase):
    """A server for all cases, and a database for each."""

    maxDiff = 2000
    processor, table = "embeddings-postgres", "embeddings"

    @classmethod
    def setUpClass(cls):
        cls.server = PostgresServer()
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.start()
        cls.server.sql(f"CREATE USER stranger PASSWORD '{PASSWORD}'")

    def setUp(self):
        self.database = f"d{abs(hash(self.id()))}"
        self.server.sql(f"CREATE DATABASE {self.database}")
        self.sink = self.server.uri(self.database)

    def world(self, *flags, processor=None, sink=True):
        world = World(
            *FLAGS, *flags, "--processor", processor or self.processor, *(("--sink", self.sink) if sink else ())
        )
        self.addCleanup(world.__exit__, None, None, None)
        return world

    def sql(self, statement):
        return self.server.sql(statement, self.database)


class Killed:
    """For every kind of rows: undisturbed() returns the expected rows, rows() those of the run."""

    def test_consumers_and_the_server_are_killed_in_mid_run(self):
        world = self.world()
        with world.gate() as gate:
            world.start()
            gate.let(6)
            world.until(lambda: world.status().get("done_samples", 0) >= 32, "the first rows")
            gate.kill(gate.entered()[0])
            self.server.kill()
            gate.open()
            world.until(lambda: "cannot be connected to" in world.logs(), "a consumer that finds no server")
            self.assertIn("completed results are kept", world.logs())
            self.server.start()
            self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(self.rows(), self.undisturbed())

    def test_a_run_that_was_killed_as_a_whole_continues(self):
        world = self.begun()
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 8)
        self.assertEqual(self.rows(), self.undisturbed())

    def test_shards_of_a_job_fill_one_table(self):
        job = JobWorld(*FLAGS, "--processor", self.processor, "--sink", self.sink)
        self.addCleanup(job.__exit__, None, None, None)
        code, output = job.init(2)
        self.assertEqual(code, 0, output)
        with job.gate() as gate:
            job.shard(1)
            gate.let(6)
            job.until(lambda: job.status().get("done_samples", 0) >= 32, "the first rows")
            self.assertGreaterEqual(job.kill_everything(), 4, "launcher, producer, two consumers")
        for index in (0, 1):
            self.assertEqual(job.shard(index).wait(), 0, job.logs())
        code, output = job.merge()
        self.assertEqual(code, 0, output)
        self.assertEqual(job.start("--resume").wait(), 0, job.logs())
        self.assertEqual(self.rows(), self.undisturbed())
        shutil.rmtree(job.output)
        job.job = job.folder / "another"
        code, output = job.init(2)
        self.assertEqual((code, "holds the results of an earlier run" in output), (64, True), output)

    def begun(self):
        """A run that was killed as a whole: its table exists, and most of its work is not done."""
        world = self.world()
        self.assertGreaterEqual(world.break_off(samples=32, slabs=6), 4, "launcher, producer, two consumers")
        return world

    def waiting(self, seconds):
        """The number of statements that have waited for the table's lock longer than this."""
        return int(
            self.sql(
                f"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > '{seconds} s'"
            )[0][0]
        )

    def test_a_server_that_is_slow_for_several_leases_costs_nothing(self):
        world = self.begun()
        with self.server.locked(self.table, self.database):
            # Long enough for a machine that pauses for some seconds.
            world.start("--resume", "--visibility-timeout", "8", "--kill-stalled")
            world.until(lambda: self.waiting(17) == 2, "both consumers wait for the lock, for more than two leases")
        self.assertEqual(world.wait(), 0, world.logs())
        summary = world.summary()
        self.assertEqual(
            (
                summary["visibility_timeouts"],
                summary["stalled_killed"],
                summary["samples"]["redelivered"],
                summary["dead_letters"],
            ),
            (0, 0, 0, []),
            world.logs(),
        )
        self.assertEqual(self.rows(), self.undisturbed())

    def test_a_consumer_gives_up_on_a_silent_server_and_retries(self):
        world = self.begun()
        with self.server.locked(self.table, self.database):
            world.start("--resume", "--sink-patience-seconds", "1")
            world.until(
                lambda: f'has not answered for 1 s: INSERT INTO "public"."{self.table}"' in world.logs(),
                "a consumer that gives up",
            )
        self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(world.summary()["dead_letters"], [])
        self.assertEqual(self.rows(), self.undisturbed())


@unittest.skipIf(missing_requirement(), missing_requirement())
class Runs(Killed, WithServer):
    def test_several_producers_of_one_host_fill_one_table(self):
        world = GpusWorld(*FLAGS, "--processor", self.processor, "--sink", self.sink, shards=4)
        self.addCleanup(world.__exit__, None, None, None)
        with world.gate() as gate:
            world.start()
            gate.let(6)
            world.until(lambda: world.status().get("done_samples", 0) >= 16, "the first rows")
            self.assertGreaterEqual(
                world.kill_everything(), 4, "launcher, and a worker with its producer and its consumer"
            )
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 8)
        self.assertEqual(self.rows(), self.undisturbed())

    def test_a_table_belongs_to_one_job(self):
        """Two jobs may begin before the table exists."""
        jobs = []
        for _ in range(2):
            job = JobWorld(*FLAGS, "--processor", self.processor, "--sink", self.sink)
            self.addCleanup(job.__exit__, None, None, None)
            self.assertEqual(job.init(2)[0], 0)
            jobs.append(job)
        self.assertEqual(jobs[0].shard(0).wait(), 0, jobs[0].logs())
        before = self.rows()
        self.assertEqual(jobs[1].shard(1).wait(), 64, jobs[1].logs())
        self.assertIn("holds results of job-", jobs[1].logs())
        self.assertEqual(self.rows(), before)
        run = self.world()
        self.assertEqual(run.start().wait(), 64, run.logs())
        self.assertRegex(run.logs(), "holds results of job-.*, which is not merged yet. .*--overwrite")
        self.assertEqual(self.rows(), before)
        self.assertEqual(run.start("--overwrite").wait(), 0, run.logs())
        self.assertEqual((self.rows(), self.rows(self.aside(run))), (self.undisturbed(), before))

    def test_a_shard_whose_place_is_removed_ends(self):
        """
        As after a merge of another attempt's work, or when the job is given up: a consumer that starts then does not
        wait.
        """
        job = JobWorld(*FLAGS, "--processor", self.processor, "--sink", self.sink)
        self.addCleanup(job.__exit__, None, None, None)
        self.assertEqual(job.init(2)[0], 0)
        with job.gate() as gate:
            job.shard(0, "--consumers", "1")
            gate.let(4)
            job.until(lambda: job.status().get("done_samples", 0) > 0, "the first rows")
            shutil.rmtree(job.output / ".offramp-shards")
            gate.kill(gate.entered()[0])
            gate.open()
            self.assertEqual(job.wait(), 75, job.logs())
        self.assertRegex(job.logs(), "which names the job of this output, is gone|was moved, unmounted or replaced")

    @staticmethod
    def aside(world):
        """The table that the last run with --overwrite renamed."""
        return f'"embeddings_before_{world.run_id()}"'

    def tables(self):
        return [
            name
            for (name,) in self.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")
        ]

    def undisturbed(self, *flags):
        """The rows of a run into SQLite, in PostgreSQL's form. Tests of SQLite check that vectors are the model's."""
        world = self.world(*flags, processor="embeddings-sqlite", sink=False)
        self.assertEqual(world.start().wait(), 0, world.logs())
        half = "fp16" in flags
        with contextlib.closing(sqlite3.connect(world.output / "embeddings.sqlite")) as database:
            rows = database.execute("SELECT item, key, output, vector FROM embeddings").fetchall()
        self.assertEqual(len(rows), ITEMS)
        # The model `copy` makes arbitrary bits. Vectors with infinite numbers or NaN are NULL in both databases.
        made = {
            key: (
                item,
                output,
                vector and struct.unpack(f"<{len(vector) // (2 if half else 4)}{'e' if half else 'f'}", vector),
            )
            for item, key, output, vector in rows
        }
        self.assertGreater(sum(vector is not None for *_, vector in made.values()), ITEMS // 4)
        return made

    def rows(self, table="embeddings"):
        """The numbers that PostgreSQL prints, rounded to the nearest of their type."""
        half = self.sql(
            f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attname = 'vector'"
        )[0][0].startswith("half")
        kind = "<e" if half else "<f"
        found = {}
        for item, key, output, vector in self.sql(
            f"SELECT item, key, output, vector FROM {table} ORDER BY key, output"
        ):
            self.assertNotIn(key, found)
            numbers = vector and tuple(
                struct.unpack(kind, struct.pack(kind, float(number)))[0] for number in vector[1:-1].split(",")
            )
            found[key] = (int(item), output, numbers or None)
        return found

    def test_rows_are_those_of_sqlite(self):
        for flags in ((), ("--vector-dtype", "fp16", "--truncate-dim", "8", "--normalize")):
            world = self.world(*flags, "--index", "hnsw")
            self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
            self.assertEqual(self.rows(), self.undisturbed(*flags))
            kind, dimensions = ("halfvec", "8") if flags else ("vector", "12")
            self.assertIn(
                f"USING hnsw (vector {kind}_cosine_ops)",
                self.sql("SELECT indexdef FROM pg_indexes WHERE indexname = 'embeddings_hnsw'")[0][0],
            )
            self.assertEqual(
                self.sql("SELECT output, dimensions, dtype, normalized FROM embeddings_outputs")[0][1:],
                [dimensions, "float16" if flags else "float32", "t" if flags else "f"],
            )

    def test_a_finished_table_outlives_every_new_run(self):
        world = self.world()
        self.assertEqual(world.start().wait(), 0, world.logs())
        rows, tables = self.rows(), self.tables()
        self.sql("CREATE TABLE records (a text)")
        for other, words in (
            (world, ("--output", "--overwrite", "--resume")),
            (self.world(), ("table 'embeddings'", "--overwrite", "--resume", "--sink-table")),
        ):
            self.assertEqual(other.start().wait(), 64, other.logs())
            for word in words:
                self.assertIn(word, other.logs())
            # The launcher, the consumer that prepares the output, and one at its first slab refuse these.
            for flags in (
                ("--model", "no-such"),
                ("--index", "nonsense"),
                ("--processor", "embeddings-postgres,records-postgres"),
                ("--processor", "embeddings-postgres,mask-png"),
            ):
                with self.subTest(flags):
                    self.assertNotEqual(other.start("--overwrite", *flags).wait(), 0, other.logs())
                    self.assertEqual((self.rows(), self.tables()), (rows, [*tables, "records"]))
        other.flags = (*other.flags, "--truncate-dim", "8")
        with other.gate() as gate:
            other.start("--overwrite")
            gate.let(4)
            other.until(lambda: other.status().get("done_samples", 0) > 0, "some rows")
            other.kill_everything()
        aside = self.aside(other)
        self.assertEqual(self.rows(aside), rows)
        self.assertEqual(other.start("--resume").wait(), 0, other.logs())
        self.assertEqual(self.rows(aside), rows)
        self.assertEqual(
            (ITEMS, {8}), (len(self.rows()), {len(vector) for *_, vector in self.rows().values() if vector})
        )

    def dead_letters(self, run_dir):
        """Copies there the dead letter of a run of the same model: its last batch."""
        with World(*FLAGS, "--processor", "crash-on-item") as other:
            other.environment.update(
                OFFRAMP_BIN_DIR=str(programs_with_faulty_consumer(other.folder)),
                OFFRAMP_TEST_CRASH_ITEM=str(ITEMS - 1),
                OFFRAMP_TEST_CRASH_HOW="segv",
                OFFRAMP_TEST_THEN="checksum",
            )
            self.assertEqual(other.start().wait(), 84, other.logs())
            shutil.copytree(other.run_dir / "dead-letters", run_dir / "dead-letters")

    def retry(self, world, run_dir, *flags):
        return subprocess.run(
            [ROOT / "launch/offramp", "dead-letters", "retry", "--all", "--run-dir", run_dir, *flags],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=world.environment,
        )

    def test_a_retried_dead_letter_goes_into_the_tables_of_its_run(self):
        def last_batch(table):
            return int(self.sql(f"SELECT count(*) FROM {table} WHERE item >= {ITEMS - 8}")[0][0])

        world = self.world()
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.sql(f"DELETE FROM embeddings WHERE item >= {ITEMS - 8}")
        with world.gate() as gate:
            world.start("--overwrite")
            gate.let(4)
            world.until(lambda: world.status().get("done_samples", 0) > 0, "some rows")
            world.kill_everything()
        self.dead_letters(world.run_dir)
        kept, unmarked = (
            pathlib.Path(shutil.copytree(world.run_dir, world.folder / name, ignore=shutil.ignore_patterns("*.sock")))
            for name in ("kept", "unmarked")
        )
        aside = self.aside(world)
        self.assertEqual(last_batch("embeddings"), 0)
        done = self.retry(world, kept)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((last_batch("embeddings"), last_batch(aside)), (8, 0))
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(len(self.rows()), ITEMS)

        self.sql(f"DELETE FROM embeddings WHERE item >= {ITEMS - 8}")
        refused = self.retry(world, unmarked)
        self.assertEqual(refused.returncode, 64, refused.stdout + refused.stderr)
        for words in ("holds the results of run", "--resume", "--sink-table"):
            self.assertIn(words, refused.stderr)
        self.assertEqual(last_batch("embeddings"), 0)
        self.assertEqual(self.retry(world, kept).returncode, 64, "the resumed run owns the table now")

        self.assertEqual(self.retry(world, unmarked, "--sink-table", "apart").returncode, 0)
        self.assertEqual(last_batch("apart"), 8)
        elsewhere = self.retry(world, unmarked, "--processor", "checksum", "--output", str(world.folder / "elsewhere"))
        self.assertEqual(elsewhere.returncode, 0, elsewhere.stdout + elsewhere.stderr)

    def test_a_retried_dead_letter_of_a_shard_goes_into_the_table_of_the_job(self):
        job = JobWorld(*FLAGS, "--processor", self.processor, "--sink", self.sink)
        self.addCleanup(job.__exit__, None, None, None)
        self.assertEqual(job.init(2)[0], 0)
        self.assertEqual(job.shard(1).wait(), 0, job.logs())
        whole = self.rows()
        self.sql(f"DELETE FROM embeddings WHERE item >= {ITEMS - 8}")
        self.dead_letters(job.run_of_shard())
        done = self.retry(job, job.run_of_shard())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.rows(), whole)

    def test_a_run_continues_only_in_its_own_database(self):
        world = self.begun()
        rows = self.rows()
        self.server.sql(f"CREATE DATABASE {self.database}_2")
        other = self.server.uri(f"{self.database}_2")
        self.assertEqual(world.start("--sink", other, "--resume").wait(), 64, world.logs())
        for words in ("'public.embeddings'", f"'{self.database}'", f"'{self.database}_2'", "the --sink of that run"):
            self.assertIn(words, world.logs())
        self.assertEqual(self.rows(), rows)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(self.rows(), self.undisturbed())
        self.assertEqual(world.start("--sink", other, "--overwrite").wait(), 0, world.logs())
        self.assertEqual(
            (self.rows(), self.tables()),
            (self.undisturbed(), ["embeddings", "embeddings_outputs"]),
            "this database is not that run's",
        )

    def test_resume_does_not_drop_a_table_of_another_folder(self):
        world = self.world()
        self.assertEqual(world.start().wait(), 0, world.logs())
        rows = self.rows()
        self.refused(64, "nothing in --output", "--sink-table", flags=("--resume",))
        self.assertEqual(self.rows(), rows)

    def refused(self, code, *words, sink=None, flags=()):
        world = self.world(*flags)
        if sink:
            world.flags = (*world.flags, "--sink", sink)
        self.assertEqual(world.start().wait(), code, world.logs())
        for word in words:
            self.assertIn(word, world.logs())
        return world

    def test_errors_of_the_server_are_reported(self):
        self.refused(
            75, "cannot be connected to", "Check that the server runs", sink="postgres:///db?host=/nowhere/at/all"
        )
        self.refused(64, "'no_such'", "does not exist", "createdb", sink=self.server.uri("no_such"))
        self.refused(64, "unknown form", sink="mysql://localhost/db")
        self.refused(64, "not a valid PostgreSQL address", sink="postgres://localhost/db?colour=green")
        other = self.world(processor="checksum")
        self.assertEqual(other.start().wait(), 64, other.logs())
        self.assertIn("does not go with --processor 'checksum'", other.logs())
        without = self.world(sink=False)
        self.assertEqual(without.start().wait(), 64, without.logs())
        self.assertIn("needs --sink", without.logs())
        self.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        self.refused(
            64, "lacks pgvector", "CREATE EXTENSION vector", sink=self.server.uri(self.database, "stranger", PASSWORD)
        )
        self.sql("CREATE EXTENSION vector")
        self.refused(
            77,
            "permission denied for schema public",
            "Grant it",
            sink=self.server.uri(self.database, "stranger", PASSWORD),
        )

    def test_a_foreign_table_stays(self):
        self.sql("CREATE TABLE embeddings (a text)")
        self.sql("INSERT INTO embeddings VALUES ('precious')")
        self.refused(64, "made by another program", "--sink-table")
        self.assertEqual(self.sql("SELECT * FROM embeddings"), [["precious"]])
        world = self.world("--sink-table", "mine")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertEqual(self.sql("SELECT count(*) FROM mine"), [[str(ITEMS)]])

    def test_a_password_is_used_and_never_reported(self):
        self.sql("CREATE EXTENSION vector")
        self.sql("GRANT CREATE ON SCHEMA public TO stranger")
        wrong = self.refused(
            77,
            "password authentication failed",
            "PGPASSWORD",
            sink=self.server.uri(self.database, "stranger", "guessed-badly"),
        )
        self.assert_nowhere("guessed-badly", wrong)
        forms = {
            "in the URI": ("--sink", self.server.uri(self.database, "stranger", PASSWORD)),
            "with =": (f"--sink={self.server.uri(self.database, 'stranger')}&password={PASSWORD}",),
            "as key words": (
                "--sink",
                f"host={self.server.folder} user=stranger password='{PASSWORD}' dbname={self.database}",
            ),
        }
        for name, flags in forms.items():
            with self.subTest(name):
                world = self.world(*flags, sink=False)
                self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
                self.assert_nowhere(PASSWORD, world)
        for name in ("environment", "file"):
            with self.subTest(name):
                world = self.world(sink=False)
                sink = self.server.uri(self.database, "stranger", PASSWORD)
                if name == "environment":
                    world.environment["OFFRAMP_SINK"] = sink
                else:
                    (config := pathlib.Path(world.folder, "own.toml")).write_text(f'sink = "{sink}"\n')
                    world.environment["OFFRAMP_CONFIG"] = str(config)
                self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
                self.assert_nowhere(PASSWORD, world, {"own.toml"})

    def assert_nowhere(self, password, world, but=()):
        looked_at = 0
        for path in world.folder.rglob("*"):
            if path.is_file() and path.name not in but:
                looked_at += 1
                self.assertNotIn(password.encode(), path.read_bytes(), path)
        self.assertGreater(looked_at, 2)

    def test_a_full_disk_of_the_server(self):
        disk = pathlib.Path(tempfile.mkdtemp(prefix="offramp-disk-", dir="/tmp"))
        self.addCleanup(disk.rmdir)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0777", "tmpfs", disk],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.skipTest(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        shutil.chown(disk, self.server.user)
        self.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
        self.addCleanup(self.sql, "DROP TABLESPACE small")
        self.addCleanup(self.sql, "DROP TABLE IF EXISTS embeddings, embeddings_outputs")
        self.sql(f"ALTER DATABASE {self.database} SET default_tablespace = small")
        self.sql(f"ALTER DATABASE {self.database} SET temp_tablespaces = pg_default")
        world = self.world("--batches", "400")
        self.assertEqual(world.start().wait(), 73, world.logs())
        self.assertIn("No space left on device", world.logs())
        self.assertIn("Free space on the server's disk", world.logs())
        subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(self.sql("SELECT count(*), count(DISTINCT item) FROM embeddings"), [["3200", "3200"]])


@unittest.skipIf(missing_requirement(), missing_requirement())
class RunsOfRecords(Killed, WithServer):
    processor, table = "npy,records-postgres", "records"

    def undisturbed(self):
        world = self.world(processor="npy,records", sink=False)
        self.assertEqual(world.start().wait(), 0, world.logs())
        with contextlib.closing(sqlite3.connect(world.output / "records/records.sqlite")) as database:
            rows = database.execute("SELECT item, key, status, files, classes, columns, model FROM records").fetchall()
        self.assertEqual({item for item, *_ in rows}, set(range(ITEMS)))
        self.assertEqual({status for _, _, status, *_ in rows}, {"done"})
        return {
            item: (key, status, json.loads(files), classes or "", json.loads(columns), model)
            for item, key, status, files, classes, columns, model in rows
        }

    def rows(self):
        found = self.sql("SELECT item, key, status, files, classes, columns, model FROM records")
        self.assertEqual(len(found), len({item for item, *_ in found}))
        return {
            int(item): (key, status, json.loads(files), classes, json.loads(columns), model)
            for item, key, status, files, classes, columns, model in found
        }

    def test_rows_are_those_of_sqlite(self):
        world = self.world("--sink-table", "own")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.sql("ALTER TABLE own RENAME TO records")
        self.assertEqual(self.rows(), self.undisturbed())
        for key, _, files, *_ in self.rows().values():
            self.assertEqual([file.partition(".")[0] for file in files["npy"]], [f"npy/{key}"])

    def test_beside_vectors_in_a_schema_that_the_sink_names(self):
        self.sql("CREATE EXTENSION vector")
        self.sql("CREATE SCHEMA part_1")
        self.sink += "&options=-csearch_path%3Dpart_1,public"
        world = self.world(processor="embeddings-postgres,records-postgres")
        for resume in ((), ("--resume",)):
            self.assertEqual(world.start(*resume).wait(), 0, world.logs())
            self.assertEqual(
                self.sql("SELECT (SELECT count(*) FROM part_1.embeddings), (SELECT count(*) FROM part_1.records)"),
                [[str(ITEMS)] * 2],
            )
        self.assertEqual(self.sql("SELECT to_regclass('public.embeddings'), to_regclass('public.records')"), [["", ""]])

    def test_a_table_of_vectors_is_not_taken(self):
        vectors = self.world("--sink-table", "one", processor="embeddings-postgres")
        self.assertEqual(vectors.start().wait(), 0, vectors.logs())
        records = self.world("--sink-table", "one")
        self.assertEqual(records.start().wait(), 64, records.logs())
        self.assertIn("holds other results", records.logs())
        self.assertEqual(self.sql("SELECT count(*) FROM one"), [[str(ITEMS)]])
