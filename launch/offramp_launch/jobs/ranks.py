"""The process that joins the parts of several ranks (launch/python/offramp/ranks.py), like those of shards."""

import os
import pathlib

from offramp_launch import sink
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode
from offramp_launch.jobs.folder import SHARDS
from offramp_launch.jobs.merge import names_of_parts
from offramp_launch.processes import answer_of


def start(places, argv):
    """
    The caller holds the ranks' lock, which the program inherits: it holds it while it writes even if both others die.
    May be killed and called again. `--items`: of all ranks.
    """
    given, flags = take_values(argv, ("--ranks", "--items", "--lock-fd", "--output", "--processor"))
    ranks, output, processor = int(given["--ranks"]), pathlib.Path(given["--output"]), given["--processor"]
    flags = [*flags, "--processor", processor, "--output", str(output)]
    parts = ([str(rank), *names_of_parts(output / SHARDS / str(rank), processor.split(","))] for rank in range(ranks))
    answer_of(
        [
            str(places.consumer()),
            "join-shards",
            given["--items"],
            str(ranks),
            *sink.hide_password(flags, os.environ),
        ],
        "".join("\t".join(each) + "\n" for each in parts),
        pass_fds=(int(given["--lock-fd"]),),
    )
    return int(ExitCode.OK)
