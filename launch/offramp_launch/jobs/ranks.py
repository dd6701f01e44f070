"""
The process that joins the parts of several ranks into their output (launch/python/offramp/ranks.py), like those of a
job's shards. Rank I has the items from I * 2**32 on.
"""

import os
import pathlib

from offramp_launch import sink
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode
from offramp_launch.jobs.folder import SHARDS
from offramp_launch.jobs.merge import names_of_parts
from offramp_launch.processes import answer_of

ITEMS_OF_A_RANK = 1 << 32


def start(places, argv):
    """The caller holds the ranks' lock. May be killed and called again."""
    given, flags = take_values(argv, ("--ranks", "--output", "--processor"))
    ranks, output, processor = int(given["--ranks"]), pathlib.Path(given["--output"]), given["--processor"]
    flags = [*flags, "--processor", processor, "--output", str(output)]
    parts = ([str(rank), *names_of_parts(output / SHARDS / str(rank), processor.split(","))] for rank in range(ranks))
    answer_of(
        [
            str(places.consumer()),
            "join-shards",
            str(ranks * ITEMS_OF_A_RANK),
            str(ranks),
            *sink.hide_password(flags, os.environ),
        ],
        "".join("\t".join(each) + "\n" for each in parts),
    )
    return int(ExitCode.OK)
