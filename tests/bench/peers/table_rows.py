#!/usr/bin/env python3
"""How fast a database takes rows that are ready: vectors of a flat file, over and over under new keys. A limit of the benchmark, run by its driver until it
is killed. Into PostgreSQL by COPY, into SQLite by executemany; one transaction each time."""

import argparse
import pathlib
import tempfile

import numpy

from progress import ProgressCell
from tables import make_table

READY = 65_536      # vectors in the file, at most


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), required=True)
    parser.add_argument("--output", type=pathlib.Path, help="a folder for the SQLite file")
    parser.add_argument("--sink", help="the PostgreSQL's URI")
    parser.add_argument("--numbers", type=int, required=True, help="of a vector")
    parser.add_argument("--transaction", type=int, required=True, help="rows")
    parser.add_argument("--progress", required=True, help="a file with one cell")
    return parser.parse_args()


def vectors_in_a_file(count, numbers):
    """Mapped, and already gone from its folder."""
    with tempfile.NamedTemporaryFile() as file:
        made = numpy.random.default_rng(1).standard_normal((count, numbers), numpy.float32)
        made /= numpy.linalg.norm(made, axis=1, keepdims=True)
        made.tofile(file)
        return numpy.memmap(file.name, numpy.float32, "r", shape=made.shape)


def main():
    options = parse()
    vectors = vectors_in_a_file(max(1, READY // options.transaction) * options.transaction, options.numbers)
    table, cell, row = make_table(options), ProgressCell(options.progress, 0), 0
    while True:
        begin = row % len(vectors)
        table.insert(row, vectors[begin:begin + options.transaction])
        row += options.transaction
        cell.add(options.transaction, options.transaction * 4 * options.numbers)


if __name__ == "__main__":
    main()
