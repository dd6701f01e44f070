"""
The command `job ray` in the Python that has Ray. START begins it: neither the folder where one stands nor what is installed beside the launcher comes
before that Python's own packages.
"""

import sys

from offramp_launch import interrupts
from offramp_launch.supervision import lifeline

START = """
import sys
folders = sys.argv[1:3]
sys.path[:] = [*folders, *filter(None, sys.path)]
import offramp
from offramp_launch.jobs import ray_driver
del sys.path[:2], sys.argv[1:3]
ray_driver.start()
"""


def start():
    interrupts.begin()
    sys.exit(interrupts.carry_out(drive, sys.argv[1:]))


def drive(argv):
    """`argv`: the lifeline, or nothing, before the command's own."""
    interrupts.handle_all_signals()
    if argv[0]:
        lifeline.hold(argv[0])
    from offramp.ray import main
    return main(argv[1:])
