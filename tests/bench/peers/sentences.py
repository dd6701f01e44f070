#!/usr/bin/env python3
"""
Lines of text to vectors in a database as users of sentence-transformers write it: a loop of encode() and the database's
fastest insert (COPY for PostgreSQL, executemany for SQLite). A peer of the benchmark that runs until its driver kills
it.
"""

import argparse
import itertools
import pathlib

import torch
from sentence_transformers import SentenceTransformer

from progress import ProgressCell
from tables import make_table

BATCHES = 8  # of lines in one call of encode(), which sorts them by length


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder in the style of sentence-transformers")
    parser.add_argument("--input", type=pathlib.Path, required=True)
    parser.add_argument("--database", choices=("sqlite", "postgres"), required=True)
    parser.add_argument("--output", type=pathlib.Path, help="a folder for the SQLite file")
    parser.add_argument("--sink", help="the PostgreSQL's URI")
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--progress", required=True, help="a file with one cell")
    return parser.parse_args()


def main():
    options = parse()
    model = SentenceTransformer(options.model, device="cuda" if torch.cuda.is_available() else "cpu")
    model.max_seq_length = options.max_tokens
    if options.precision == "bf16":
        model = model.to(torch.bfloat16)
    options.numbers = model.encode(["as many numbers as it gives"], show_progress_bar=False).shape[1]
    table, cell, row = make_table(options), ProgressCell(options.progress, 0), 0
    with open(options.input, encoding="utf-8") as file:
        while lines := [line.rstrip("\n") for line in itertools.islice(file, BATCHES * options.batch)]:
            vectors = model.encode(lines, batch_size=options.batch, convert_to_numpy=True, show_progress_bar=False)
            table.insert(row, vectors)
            row += len(lines)
            cell.add(len(lines), vectors.nbytes)


if __name__ == "__main__":
    main()
