"""
A second build as a contestant (--beside): an older revision, or other compiler flags.

It runs what the row's first contestant runs and alternates with it, so that the ratio shows the change and not the
machine. Its programs are in DIR/bin or DIR. Flags that it lacks are left out with a note if the driver adds them; a
flag of the row that it lacks fails the row.
"""

import dataclasses
import functools
import pathlib
import re
import subprocess

from contestants import ContestantError
from file_workloads import ENCODE
from specs import Messages, Ours
from targets import Reaches

NAME = "other build"
LADDER, PRODUCER = "offramp-ladder", "offramp-producer"  # older builds have no ladder: their producer runs its rungs
HELP_SECONDS = 60
OLDER_NAMES = {"visibility-timeout": "lease-seconds"}  # of flags that the driver adds, before 0.1.0


def programs_in(folder):
    """The folder of a build's programs."""
    for programs in (pathlib.Path(folder, "bin"), pathlib.Path(folder)):
        if (programs / PRODUCER).is_file():
            return programs.absolute()
    raise ValueError(
        f"--beside: no {PRODUCER} in {folder} or {folder}/bin. Pass the folder of a build, such as build/release"
    )


def with_other_build(row, programs):
    """The row with the other build as its second contestant, and with its encode limit measured in both builds."""
    first, *others = row.contestants
    if row.curve or not isinstance(first, (Ours, Messages)):
        raise ValueError(f"--beside: row {row.id} cannot run a second build. Name rows that can, such as W2 W6")
    other = dataclasses.replace(first, name=NAME, build=programs)
    targets = (*row.targets, Reaches(NAME)) if row.kind == "contest" else row.targets
    encoders = [
        dataclasses.replace(spec, name=f"{spec.name}, {NAME}", build=programs) for spec in others if spec.name == ENCODE
    ]
    return dataclasses.replace(
        row,
        contestants=(first, other, *others, *encoders),
        targets=targets,
        beside=(*row.beside, *((ENCODE, spec.name) for spec in encoders)),
    )


def program_of(spec):
    """The name of the contestant's program in its build."""
    if spec.build and spec.program == LADDER and not (spec.build / LADDER).exists():
        return PRODUCER
    return spec.program


@functools.cache
def flags_known_by(program):
    """The flags in the program's help."""
    try:
        listed = subprocess.run(
            [str(program), "--help-all"], capture_output=True, text=True, check=False, timeout=HELP_SECONDS
        )
        if listed.returncode != 0:  # an older build lists every flag with --help
            listed = subprocess.run(
                [str(program), "--help"], capture_output=True, text=True, check=True, timeout=HELP_SECONDS
            )
        help_text = listed.stdout
    except (OSError, subprocess.SubprocessError) as problem:
        raise ContestantError(f"{NAME}: cannot read the flags of {program}: {problem}") from problem
    return set(re.findall(r"--([a-z][a-z0-9-]*)", help_text))


def with_older_names(program, flags):
    known = flags_known_by(program)
    return {
        OLDER_NAMES[name] if name not in known and OLDER_NAMES.get(name) in known else name: value
        for name, value in flags.items()
    }


def flags_it_lacks(program, wanted, of_the_row):
    """The driver's flags that the program lacks. Errors: ContestantError if it lacks a flag of the row."""
    lacking = set(wanted) - flags_known_by(program)
    missed = sorted(lacking & set(of_the_row))
    if missed:
        raise ContestantError(
            f"{NAME}: {program} does not support {', '.join(f'--{name}' for name in missed)}, which this row needs: "
            "the two builds cannot do the same work"
        )
    return lacking
