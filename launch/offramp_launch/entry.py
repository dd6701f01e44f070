"""The entry point of every command: sets up Ctrl-C and the output streams before other imports."""

import sys


def main():
    """Runs ./launch/offramp, and the program `offramp` of a wheel or Debian package."""
    from offramp_launch import first_process, interrupts

    first_process.run_as_first_process()
    interrupts.begin()

    from offramp_launch import commands, screen, standard_streams

    standard_streams.make_lasting()
    screen.guard()
    sys.exit(interrupts.carry_out(commands.main, sys.argv[1:]))
