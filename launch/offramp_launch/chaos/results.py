"""Compares the results of two runs: files byte by byte, SQLite databases row by row."""

import contextlib
import filecmp
import itertools
import sqlite3

from offramp_launch.output_folder import OF_OFFRAMP

COMMITS = "offramp_commits"  # a table with a count of writes, which differs from run to run


def files_in(folder):
    """{relative name: path}"""
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def results_in(folder):
    """The same without Offramp's notes."""
    return {name: path for name, path in files_in(folder).items() if not path.name.startswith(OF_OFFRAMP)}


def differences(wanted, found):
    """{name: how the file in the folder `found` differs from the one in `wanted`}. Notes are there in both, or none."""
    before, after = files_in(wanted), files_in(found)
    named = {name: "is missing" for name in before.keys() - after.keys()}
    named.update({name: "is too many" for name in after.keys() - before.keys()})
    for name, path in results_in(wanted).items():
        if name not in after:
            continue
        if how := difference(path, after[name]):
            named[name] = how
    return dict(sorted(named.items()))


def difference(wanted, found):
    """How the file `found` differs; empty if it does not."""
    if wanted.suffix == ".sqlite":
        with contextlib.suppress(sqlite3.Error):  # not a database
            pairs = itertools.zip_longest(rows_of(wanted), rows_of(found))
            return "" if all(one == other for one, other in pairs) else "has other rows"
    return "" if filecmp.cmp(wanted, found, shallow=False) else "has other bytes"


def confirmed(named, unstable):
    """The differences `named` without those that undisturbed runs have. A file that these change may still be lost."""
    return {name: how for name, how in named.items() if unstable.get(name) != how}


def rows_of(path):
    """(table, *values) of each row, in the order of tables and values."""
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for (table,) in tables:
            columns = len(database.execute(f'SELECT * FROM "{table}" LIMIT 0').description)
            order = ", ".join(map(str, range(1, columns + 1)))
            if table != COMMITS:
                yield from ((table, *row) for row in database.execute(f'SELECT * FROM "{table}" ORDER BY {order}'))
