"""Reads a run's vectors from SQLite (consumer/processors, embeddings-sqlite) and finds the nearest ones."""

from __future__ import annotations

import dataclasses
import sqlite3

import numpy

from offramp_launch.exit_code import InputError, NotFoundError, UsageError

DTYPES = {"float32": "<f4", "float16": "<f2"}
A_DATABASE = "Give the embeddings.sqlite that a run with the processor embeddings-sqlite made"
ROWS_AT_ONCE = 65536  # limits memory


@dataclasses.dataclass(frozen=True)
class Row:
    """A found row. None: the table lacks this column."""

    cosine: float
    item: int
    key: str
    id: str | None = None
    columns: str | None = None
    chunk: int | None = None
    start_char: int | None = None
    end_char: int | None = None

    @property
    def name(self):
        of_text = self.key if self.id is None else self.id
        return of_text if self.chunk is None else f"{of_text} [{self.start_char}:{self.end_char}]"

    def passage(self, text):
        """The row's part of its text; None without a text."""
        return text if text is None or self.chunk is None else text[self.start_char : self.end_char]


BESIDE = ("id", "columns", "chunk", "start_char", "end_char")  # optional columns of the table


@dataclasses.dataclass(frozen=True)
class Stored:
    """
    Vectors of one output. Subclasses have nearest(vector, most): [(cosine, item, key)], largest cosine first, then
    smallest item.
    """

    output: str
    dimensions: int
    dtype: str  # a number's type, in the store's words
    model: str
    beside: tuple

    @property
    def has_ids(self):
        return "id" in self.beside

    def described(self, cosine, item, key):
        """The row; None if a run has replaced the table since, without this row."""
        found = self._columns_of(item, key) if self.beside else ()
        return None if found is None else Row(cosine, item, key, **dict(zip(self.beside, found)))

    def _columns_of(self, item, key):
        """The values of the columns `beside`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class InSqlite(Stored):
    database: sqlite3.Connection

    def nearest(self, vector, most):
        """Errors: LaunchError."""
        wanted = truncated(vector, self.dimensions)
        wanted /= max(numpy.linalg.norm(wanted), 1e-12)
        best = []
        rows = self.database.execute(
            "SELECT item, key, vector FROM embeddings WHERE output = ? AND vector IS NOT NULL", (self.output,)
        )
        while block := rows.fetchmany(ROWS_AT_ONCE):
            vectors = numpy.stack([numpy.frombuffer(vector, self.dtype) for *_, vector in block]).astype(numpy.float32)
            cosines = vectors @ wanted / numpy.maximum(numpy.linalg.norm(vectors, axis=1), 1e-12)
            best += [(-float(cosine), item, key) for cosine, (item, key, _) in zip(cosines, block)]
            best = sorted(best)[:most]
        return [(-cosine, item, key) for cosine, item, key in best]

    def _columns_of(self, item, key):
        return self.database.execute(
            f"SELECT {', '.join(self.beside)} FROM embeddings WHERE key = ? AND output = ? AND item = ?",
            (key, self.output, item),
        ).fetchone()


def read(file, output):
    """The database's vectors of one output. Errors: LaunchError."""
    if not file.is_file():
        raise NotFoundError(f"{file} does not exist", A_DATABASE)
    try:
        database = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        outputs = {
            name: known for name, *known in database.execute("SELECT output, dimensions, dtype, model FROM outputs")
        }
        there = {name for _, name, *_ in database.execute("PRAGMA table_info(embeddings)")}
    except sqlite3.Error as problem:
        raise InputError(f"{file} cannot be read: {problem}", A_DATABASE) from problem
    output = choose(output, outputs, file)
    dimensions, dtype, model = outputs[output]
    return InSqlite(output, dimensions, DTYPES[dtype], model, tuple(name for name in BESIDE if name in there), database)


def choose(output, outputs, place):
    """The requested output, or the only one."""
    if output is None and len(outputs) == 1:
        (output,) = outputs
    if output not in outputs:
        raise UsageError(
            f"{place} has the outputs {', '.join(sorted(outputs)) or '(none)'}", "Choose one with --output-name"
        )
    return output


def truncated(vector, dimensions):
    """The numbers that a run with --truncate-dim keeps, float32. Errors: LaunchError."""
    if len(vector) < dimensions:
        raise InputError(
            f"the model's vectors have {len(vector)} numbers, the database's vectors {dimensions}",
            "Give the .pt2 that the run had as its --model",
        )
    return vector[:dimensions].astype(numpy.float32)
