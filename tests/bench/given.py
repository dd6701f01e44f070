"""What the user has ready of what rows work on; materials.py makes the rest, where it can."""

import dataclasses
import os
import pathlib


@dataclasses.dataclass(frozen=True)
class Given:
    sentences: pathlib.Path | None = None    # a folder in the style of sentence-transformers
    encoder: pathlib.Path | None = None      # what `offramp export sentence:FOLDER` made of it
    postgres: str | None = None              # a server's URI


def given_by(options, environment=os.environ):
    """By the command line, else by the environment: OFFRAMP_BENCH_ENCODER."""
    def find(name):
        return getattr(options, name) or environment.get(f"OFFRAMP_BENCH_{name.upper()}") or None
    paths = {name: pathlib.Path(value).absolute() for name in ("sentences", "encoder") if (value := find(name))}
    return Given(**paths, postgres=find("postgres"))
