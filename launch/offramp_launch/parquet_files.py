"""Recognizes Parquet files."""


def is_parquet(path):
    """Whether the file begins like a Parquet file."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False
