"""Tables of vectors like those of our processors, for peers that write from Python."""

import pathlib
import sqlite3

import numpy

OUTPUT = "embedding"
KEY_BYTES = 10


def make_table(options):
    return SqliteTable(options.output) if options.database == "sqlite" else PostgresTable(options.sink, options.numbers)


class SqliteTable:
    """A table in a separate file, with the settings of our consumers."""

    def __init__(self, folder):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(pathlib.Path(folder, "embeddings.sqlite"), isolation_level=None)
        for setting in ("page_size = 16384", "journal_mode = WAL", "synchronous = NORMAL"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(
            "CREATE TABLE embeddings (key TEXT NOT NULL, output TEXT NOT NULL, item INTEGER NOT NULL, vector BLOB NOT NULL, "
            "PRIMARY KEY (key, output))"
        )

    def insert(self, first, vectors):
        """One transaction; rows are numbered from `first`."""
        rows = ((str(number), OUTPUT, number, vector) for number, vector in enumerate(vectors, first))
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO embeddings VALUES (?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")


class PostgresTable:
    """A table named after the process, with the columns of our processor."""

    def __init__(self, uri, numbers):
        import os

        import psycopg

        self._connection = psycopg.connect(uri, autocommit=True)
        self._name = f"peer_{os.getpid()}"
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._connection.execute(
            f"CREATE TABLE {self._name} (key text NOT NULL, output text NOT NULL, item bigint NOT NULL, vector vector({numbers}), "
            "PRIMARY KEY (key, output))"
        )
        self._block = numpy.dtype(
            [
                ("fields", ">i2"),
                ("key_bytes", ">i4"),
                ("key", f"S{KEY_BYTES}"),
                ("output_bytes", ">i4"),
                ("output", f"S{len(OUTPUT)}"),
                ("item_bytes", ">i4"),
                ("item", ">i8"),
                ("vector_bytes", ">i4"),
                ("dimensions", ">i2"),
                ("unused", ">i2"),
                ("vector", ">f4", (numbers,)),
            ]
        )

    def insert(self, first, vectors):
        """COPY of rows that are already in its binary form, except for their numbers."""
        rows = numpy.zeros(len(vectors), self._block)
        numbers = numpy.arange(first, first + len(vectors))
        for name, value in (
            ("fields", 4),
            ("key_bytes", KEY_BYTES),
            ("key", numpy.char.zfill(numbers.astype(f"S{KEY_BYTES}"), KEY_BYTES)),
            ("output_bytes", len(OUTPUT)),
            ("output", OUTPUT.encode()),
            ("item_bytes", 8),
            ("item", numbers),
            ("vector_bytes", 4 + 4 * vectors.shape[1]),
            ("dimensions", vectors.shape[1]),
            ("vector", vectors),
        ):
            rows[name] = value
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {self._name} FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff")
