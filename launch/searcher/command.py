"""The command: words to a vector, with the model that made the database's; the nearest rows."""

import argparse
import pathlib
import sys

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.sink import is_postgres

DATABASE = "embeddings.sqlite"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise LaunchError(f"query: {message}", "See ./launch/offramp query --help", ExitCode.USAGE)


def main(argv):
    try:
        return search(parse(argv))
    except LaunchError as problem:
        print(f"offramp: {problem}", file=sys.stderr)
        return int(problem.code)


def parse(argv):
    parser = Parser(prog="./launch/offramp query", allow_abbrev=False,
                    description="Prints the rows whose vectors are nearest to those of some words, by the cosine of their angle: rank, cosine, key, "
                                "and with --input the line.")
    parser.add_argument("texts", metavar="WORDS", nargs="+", help="one argument each text that is looked for")
    parser.add_argument("--database", required=True, metavar="PATH|URI", help="embeddings.sqlite, or the folder it lies in; or the run's --sink, postgres://USER@HOST/DATABASE")
    parser.add_argument("--table", default="embeddings", metavar="NAME", help="the run's --sink-table (embeddings)")
    parser.add_argument("--model", required=True, metavar="FILE.pt2", help="the model that made the vectors; FILE.tokenizer.json lies beside it")
    parser.add_argument("--tokenizer", metavar="FILE", help="the run's, where it had one of its own")
    parser.add_argument("--input", metavar="FILE.txt", help="the run's input, to show the lines")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows at most (10)")
    parser.add_argument("--output-name", metavar="NAME", help="of the model's output, where the database has several")
    return parser.parse_args(argv)


def search(wish):
    if wish.top < 1:
        raise LaunchError(f"--top {wish.top} is not a number of rows", "Give 1 or more", ExitCode.USAGE)
    try:
        from searcher import encoding, vectors
        if is_postgres(wish.database):
            from searcher import postgres_vectors
    except ImportError as problem:
        raise LaunchError(f"query needs NumPy, and for a PostgreSQL psycopg ({problem})", "pip install numpy 'psycopg[binary]', in the Python that --python names",
                          ExitCode.SYSTEM) from problem
    file, model = pathlib.Path(wish.database), pathlib.Path(wish.model)
    lines = read_lines(wish.input) if wish.input else ()
    if is_postgres(wish.database):
        stored = postgres_vectors.read(wish.database, wish.table, wish.output_name)
    else:
        stored = vectors.read(file / DATABASE if file.is_dir() else file, wish.output_name)
    if stored.model != model.name:
        print(f"offramp: the vectors were made by '{stored.model}', not by '{model.name}': distances mean nothing unless they are the same", file=sys.stderr)
    found = encoding.encode(model, pathlib.Path(wish.tokenizer) if wish.tokenizer else None, wish.texts, stored.output)
    for text, vector in zip(wish.texts, found):
        if len(wish.texts) > 1:
            print(f"{text}:")
        for rank, (cosine, item, key) in enumerate(stored.nearest(vector, wish.top), start=1):
            print(f"{rank:3}  {cosine:.4f}  {key}" + (f"  {shortened(lines[item])}" if item < len(lines) else ""))
    return int(ExitCode.OK)


def shortened(line, most=300):
    return line if len(line) <= most else f"{line[:most]}... ({len(line)} characters)"


def read_lines(file):
    """As the source `text` counts them."""
    try:
        text = pathlib.Path(file).read_bytes()
    except OSError as problem:
        raise LaunchError(f"--input {file} cannot be read: {problem.strerror}", "Give the text file that the run had", ExitCode.NO_INPUT) from problem
    return [line.removesuffix(b"\r").decode(errors="replace") for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
