"""The processor of following.py: a slab takes as long as the file PACE says, asleep, so that cores are not a limit. The file is read anew for each slab."""

import os
import pathlib
import time

PACE = pathlib.Path(os.environ["FOLLOWING_PACE"])


def wait(_):
    try:
        seconds = float(PACE.read_text())
    except (OSError, ValueError):
        return      # the run is over
    time.sleep(seconds)
