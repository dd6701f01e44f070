"""Which files are Parquet."""


def is_parquet(path):
    """As far as it can be told by the file's beginning."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False
