"""
Reads a run's vectors from PostgreSQL with pgvector (consumer/processors, embeddings-postgres) and finds the nearest
ones.
"""

import contextlib
import dataclasses

import psycopg
from psycopg import sql

from offramp_launch.exit_code import ExitCode, InputError, LaunchError, UsageError
from searcher.vectors import BESIDE, Stored, choose, truncated

OF_AN_INDEX, MOST_OF_AN_INDEX = 40, 1000  # pgvector's hnsw.ef_search: default and maximum
TYPES = {"float32": "vector", "float16": "halfvec"}


@dataclasses.dataclass(frozen=True)
class InPostgres(Stored):
    connection: psycopg.Connection
    table: sql.Identifier

    def nearest(self, vector, most):
        """Zero vectors have no cosine. Errors: LaunchError."""
        wanted = "[" + ",".join(repr(float(number)) for number in truncated(vector, self.dimensions)) + "]"
        # The expression of the index, for vectors of one length or several
        # (consumer/sinks/postgres/postgres_table.hpp).
        distance = sql.SQL("(vector::{type} <=> {wanted}::{type})").format(
            type=sql.SQL(f"{self.dtype}({self.dimensions})"), wanted=sql.Placeholder("wanted")
        )
        with refused():
            self._widen_search(most)
            rows = self.connection.execute(
                # An index orders rows only by distance.
                sql.SQL(
                    "SELECT 1 - distance, item, key FROM (SELECT {distance} AS distance, item, key FROM {table} WHERE output = {output} AND vector IS NOT "
                    "NULL ORDER BY {distance} FETCH FIRST {most} ROWS WITH TIES) AS nearest ORDER BY distance, item LIMIT {most}"
                ).format(distance=distance, table=self.table, output=sql.Literal(self.output), most=sql.Literal(most)),
                {"wanted": wanted},
            ).fetchall()
        return [row for row in rows if row[0] == row[0]]

    def _columns_of(self, item, key):
        names = sql.SQL(", ").join(
            sql.SQL("columns::text") if name == "columns" else sql.Identifier(name) for name in self.beside
        )
        with refused():
            return self.connection.execute(
                sql.SQL("SELECT {} FROM {} WHERE key = %s AND output = %s AND item = %s").format(names, self.table),
                (key, self.output, item),
            ).fetchone()

    def _widen_search(self, most):
        """An HNSW index returns at most hnsw.ef_search rows; larger results are found without the index."""
        if most > MOST_OF_AN_INDEX:
            self.connection.execute("SET enable_indexscan = off")
        elif most > OF_AN_INDEX:
            self.connection.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(most),))


def read(sink, table, output):
    """The table's vectors of one output. Errors: LaunchError."""
    names = table.split(".")
    with refused():
        connection = psycopg.connect(
            sink, autocommit=True, connect_timeout=10, client_encoding="UTF8", application_name="offramp query"
        )
        known = sql.Identifier(*names[:-1], names[-1] + "_outputs")
        outputs = {
            name: rest
            for name, *rest in connection.execute(
                sql.SQL("SELECT output, dimensions, dtype, model FROM {}").format(known)
            )
        }
        columns = {
            column.name
            for column in connection.execute(
                sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(*names))
            ).description
            or ()
        }
    output = choose(output, outputs, f"table '{table}'")
    dimensions, dtype, model = outputs[output]
    beside = tuple(name for name in BESIDE if name in columns)
    return InPostgres(output, dimensions, TYPES[dtype], model, beside, connection, sql.Identifier(*names))


@contextlib.contextmanager
def refused():
    try:
        yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as problem:
        raise InputError(
            f"the database has no vectors of a run: {problem}",
            "Give the run's --sink as --database, and its --sink-table as --table",
        ) from problem
    except psycopg.OperationalError as problem:
        raise LaunchError(
            f"the database of --database cannot be read: {problem}",
            "Check host, user, password (PGPASSWORD) and database",
            ExitCode.SINK_UNAVAILABLE,
        ) from problem
    except psycopg.Error as problem:
        # The library may quote the given URI, with its password.
        reason = str(problem) if getattr(problem, "sqlstate", None) else "its URI is invalid"
        raise UsageError(
            f"the database of --database cannot be read: {reason}", "Give postgres://USER@HOST/DATABASE"
        ) from problem
