"""Finds texts of a run's input, by line or by id, to show them beside the results."""

import json
import pathlib

from offramp_launch.exit_code import InputError, LaunchError, NotFoundError, UsageError


class Lines:
    """A file of lines, numbered like the source `text` does. Errors: LaunchError."""

    def __init__(self, file, id_column, text_column):
        content = read_bytes(file).removeprefix(b"\xef\xbb\xbf")
        if is_parquet(file) or begins_with_row(content, (id_column, text_column)):
            raise UsageError(
                f"--input {file} is a table of texts, but the vectors were stored without ids (--vector-columns none)",
                "Leave --input out",
            )
        self._file = file
        self._lines = [line.removesuffix(b"\r").decode(errors="replace") for line in content.split(b"\n")]

    def find(self, rows):
        """[text or None] for these rows."""
        if unknown := next((row.key for row in rows if row.chunk is not None and not row.key.isdigit()), None):
            raise UsageError(
                f"--input {self._file} numbers its texts by line, but the vectors have the text {unknown!r}",
                "Give the input that the vectors were made from, or leave --input out",
            )
        numbers = [row.item if row.chunk is None else int(row.key) for row in rows]
        return [self._lines[number] if number < len(self._lines) else None for number in numbers]


def begins_with_row(content, columns):
    try:
        row = json.loads(content.lstrip().partition(b"\n")[0])
    except ValueError:
        return False
    return isinstance(row, dict) and all(column in row for column in columns)


class Table:
    """
    A file of JSON lines, or a Parquet file, read like the sources `jsonl-text` and `parquet-text` do. Errors:
    LaunchError.
    """

    def __init__(self, file, id_column, text_column):
        self._file, self._columns = pathlib.Path(file), (id_column, text_column)

    def find(self, rows):
        wanted, found = {row.id for row in rows}, {}
        for place, name, text in self._rows():
            if not isinstance(text, str):
                raise InputError(
                    f'--input {self._file} {place}: its "{self._columns[1]}" is not a text: {text!r:.100}',
                    "Give the run's --text-column",
                )
            if name in wanted:
                found[name] = text
                if len(found) == len(wanted):
                    break
        return [found.get(row.id) for row in rows]

    def _rows(self):
        if is_parquet(self._file):
            yield from self._rows_of_parquet()
            return
        id_column, text_column = self._columns
        with self._open() as file:
            for number, line in enumerate(file, start=1):
                if not line.strip(b"\xef\xbb\xbf \t\r\n"):
                    continue
                try:
                    row = json.loads(line.decode("utf-8-sig"))
                    name, text = str(row[id_column]), row[text_column]
                except (ValueError, KeyError, TypeError) as problem:
                    raise InputError(
                        f"--input {self._file} line {number} has no id and text: {problem!r}",
                        "Give the run's input, and its --id-column and --text-column",
                    ) from problem
                yield f"line {number}", name, text

    def _rows_of_parquet(self):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as problem:
            raise LaunchError(
                f"--input {self._file} is a Parquet file, which needs pyarrow ({problem})",
                "pip install pyarrow, in the Python that --python names; or leave --input out",
            ) from problem
        try:
            number = 0
            with pyarrow.parquet.ParquetFile(self._file) as file:
                for batch in file.iter_batches(columns=list(self._columns)):
                    ids, texts = (batch.column(name).to_pylist() for name in self._columns)
                    for name, text in zip(ids, texts):
                        number += 1
                        yield f"row {number}", str(name), text
        except (pyarrow.ArrowException, OSError, KeyError) as problem:
            raise InputError(
                f"--input {self._file} cannot be read: {problem}",
                "Give the run's input, and its --id-column and --text-column",
            ) from problem

    def _open(self):
        try:
            return self._file.open("rb")
        except OSError as problem:
            raise cannot_be_read(self._file, problem) from problem


def read_bytes(file):
    try:
        return pathlib.Path(file).read_bytes()
    except OSError as problem:
        raise cannot_be_read(file, problem) from problem


def cannot_be_read(file, problem):
    return NotFoundError(
        f"--input {file} cannot be read: {problem.strerror}", "Give the file that the run had as its --input"
    )


def is_parquet(path):
    """Whether the file begins like a Parquet file."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False
