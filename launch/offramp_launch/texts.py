"""The tokenizer's Python for runs over text, and the command `query`, which searches their results."""

import os

from offramp_launch.setup import toolchain
from offramp_launch.arguments import take_values
from offramp_launch.setup.environment import install_requirements
from offramp_launch.exit_code import cannot_be_started, code_of_command
from offramp_launch.interrupts import run_python
from offramp_launch.setup.build import set_up_python
from offramp_launch.sink import is_postgres
from offramp_launch.setup.steps import can_be_set_up, one_at_a_time

SOURCES = ("text", "jsonl-text", "parquet-text")
REQUIREMENTS = "requirements-text.txt"
FOR_POSTGRES = "requirements-postgres.txt"
FOR_PARQUET = "requirements-parquet.txt"
VARIABLE = "OFFRAMP_TOKENIZER_PYTHON"


def provide_tokenizers(places):
    """Sets the producer's Python for tokenizers, unless the user did. Installs nothing in a user's Python."""
    if os.environ.get(VARIABLE):
        return
    python = toolchain.choose(places, {}).python
    if not python and places.venv_python.exists():
        python = str(places.venv_python)
        if can_be_set_up(places):
            with one_at_a_time(places):
                install_requirements(places, (REQUIREMENTS,))
    if python:
        os.environ[VARIABLE] = python


def query(places, argv):
    if {"-h", "--help"}.intersection(argv):
        from searcher.command import parse

        parse(["--help"])  # prints the help and exits, in this Python: the set-up may be missing
    from searcher.texts import is_parquet  # an installed launcher has no search

    flags, passed = take_values(argv, toolchain.FLAGS)
    chosen = toolchain.choose(places, flags)
    given = take_values(passed, ["--database", "--input"])[0]
    requirements = [REQUIREMENTS]
    requirements += [FOR_POSTGRES] if is_postgres(given.get("--database", "")) else []
    requirements += [FOR_PARQUET] if is_parquet(given.get("--input", "")) else []
    set_up_python(places, flags, requirements)
    python = chosen.python or str(places.venv_python)
    try:
        status = run_python([*places.python_command(python, places.launch / "searcher"), *passed])
    except OSError as problem:
        raise cannot_be_started(
            python, problem, "./launch/offramp setup makes a Python for queries; or give --python"
        ) from problem
    return code_of_command("query", status)
