#!/usr/bin/env python3
"""
Measures how fast a database takes ready rows: the vectors of a flat file, repeatedly under new keys, one transaction
each time, by COPY into PostgreSQL or executemany into SQLite. A limit of the benchmark that runs until its driver kills
it.
"""

import argparse
import pathlib
import tempfile

import numpy

from progress import ProgressCell
from tables import make_table

READY = 65_536  # maximum number of vectors in the file


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
    """A mapped file of vectors that is already unlinked."""
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
        table.insert(row, vectors[begin : begin + options.transaction])
        row += options.transaction
        cell.add(options.transaction, options.transaction * 4 * options.numbers)


if __name__ == "__main__":
    main()
