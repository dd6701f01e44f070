"""Materials that the user provides; materials.py makes the rest."""

import dataclasses
import os
import pathlib


@dataclasses.dataclass(frozen=True)
class Given:
    sentences: pathlib.Path | None = None  # a folder in the style of sentence-transformers
    encoder: pathlib.Path | None = None  # its export by `offramp export sentence:FOLDER`
    postgres: str | None = None  # a server's URI
    materials: pathlib.Path | None = None  # a folder that keeps pictures and networks for the next call


def given_by(options, environment=os.environ):
    """From the command line, else from the environment: OFFRAMP_BENCH_ENCODER, OFFRAMP_BENCH_MATERIALS."""

    def find(name):
        return getattr(options, name, None) or environment.get(f"OFFRAMP_BENCH_{name.upper()}") or None

    paths = {
        name: pathlib.Path(value).absolute() for name in ("sentences", "encoder", "materials") if (value := find(name))
    }
    return Given(**paths, postgres=find("postgres"))
