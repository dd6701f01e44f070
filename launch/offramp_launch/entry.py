"""The first lines of every command: Ctrl-C and what is printed are in order before anything else is imported."""

import sys


def main():
    """Of ./launch/offramp, and of the program `offramp` that a wheel or a Debian package installs."""
    from offramp_launch import first_process, interrupts
    first_process.run_as_first_process()
    interrupts.begin()

    from offramp_launch import commands, places, screen, standard_streams

    standard_streams.make_lasting()
    screen.guard(places.here().command)
    sys.exit(interrupts.carry_out(commands.main, sys.argv[1:]))
