"""The command: encodes words with the model that made the database, and prints the nearest rows."""

import argparse
import pathlib
import sys

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.sink import is_postgres

DATABASE = "embeddings.sqlite"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"query: {message}", "See ./launch/offramp query --help")


def main(argv):
    try:
        return search(parse(argv))
    except LaunchError as problem:
        print(f"offramp: {problem}", file=sys.stderr)
        return int(problem.code)


def parse(argv):
    parser = Parser(
        prog="./launch/offramp query",
        allow_abbrev=False,
        description="Prints the rows whose vectors are nearest to those of some words, by the cosine of their angle: rank, cosine, key, "
        "or the id and further columns that the table has, and with --input the text.",
    )
    parser.add_argument("texts", metavar="WORDS", nargs="+", help="query texts, one argument each")
    parser.add_argument(
        "--database",
        required=True,
        metavar="PATH|URI",
        help="embeddings.sqlite or its folder, or the run's --sink, postgres://USER@HOST/DATABASE",
    )
    parser.add_argument("--table", default="embeddings", metavar="NAME", help="the run's --sink-table [embeddings]")
    parser.add_argument(
        "--model",
        required=True,
        metavar="FILE.pt2",
        help="model that made the vectors, with FILE.tokenizer.json beside it",
    )
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer, if the run had its own")
    parser.add_argument(
        "--input", metavar="FILE", help="the run's input, to print the texts: lines, JSON lines or Parquet"
    )
    parser.add_argument(
        "--id-column", default="id", metavar="NAME", help="the run's column of ids, if --input has ids [id]"
    )
    parser.add_argument("--text-column", default="text", metavar="NAME", help="the run's column of texts [text]")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="number of rows [10]")
    parser.add_argument("--output-name", metavar="NAME", help="output of the model, if the database has several")
    return parser.parse_args(argv)


def search(wish):
    if wish.top < 1:
        raise UsageError(f"--top is {wish.top}", "Give 1 or more")
    try:
        from searcher import encoding, texts, vectors

        if is_postgres(wish.database):
            from searcher import postgres_vectors
    except ImportError as problem:
        raise LaunchError(
            f"query needs NumPy, and for a PostgreSQL psycopg ({problem})",
            "pip install numpy 'psycopg[binary]', in the Python that --python names",
        ) from problem
    file, model = pathlib.Path(wish.database), pathlib.Path(wish.model)
    if is_postgres(wish.database):
        stored = postgres_vectors.read(wish.database, wish.table, wish.output_name)
    else:
        stored = vectors.read(file / DATABASE if file.is_dir() else file, wish.output_name)
    if stored.model != model.name:
        print(
            f"offramp: the vectors were made by '{stored.model}', not by '{model.name}': the distances are meaningless unless both are the same model",
            file=sys.stderr,
        )
    found = encoding.encode(model, pathlib.Path(wish.tokenizer) if wish.tokenizer else None, wish.texts, stored.output)
    rows = [
        [row for near in stored.nearest(vector, wish.top) if (row := stored.described(*near)) is not None]
        for vector in found
    ]
    shown = iter(texts_of(wish, texts, stored, [row for nearest in rows for row in nearest]))
    for text, nearest in zip(wish.texts, rows):
        if len(wish.texts) > 1:
            print(f"{text}:")
        for rank, row in enumerate(nearest, start=1):
            parts = [f"{rank:3}", f"{row.cosine:.4f}", row.name]
            if row.columns not in (None, "{}"):
                parts.append(shortened(row.columns))
            if (passage := row.passage(next(shown))) is not None:
                parts.append(shortened(passage))
            print("  ".join(parts))
    return int(ExitCode.OK)


def texts_of(wish, texts, stored, rows):
    """The text of each row; None without --input or without the text."""
    if not wish.input or not rows:
        return [None] * len(rows)
    source = (texts.Table if stored.has_ids else texts.Lines)(wish.input, wish.id_column, wish.text_column)
    return source.find(rows)


def shortened(text, most=300):
    """The text on one line, cut after `most` characters."""
    line = " ".join(text.splitlines())
    return line if len(line) <= most else f"{line[:most]}... ({len(line)} characters)"
