"""
The command `job ray`, in the Python that has Ray. START begins it: that Python's packages come before the working folder and before packages
installed beside the launcher.
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
    """`argv`: the lifeline, or an empty text; then the command's arguments."""
    interrupts.handle_all_signals()
    if argv[0]:
        lifeline.hold(argv[0])
    from offramp.ray import main
    return main(argv[1:])
