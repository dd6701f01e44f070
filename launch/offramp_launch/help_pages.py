"""The pages of launch/help."""

from offramp_launch.exit_code import ExitCode


def print_page(places, command, sets_up):
    """Prints the command's page and, for a command that sets up, the flags of the set-up."""
    print((places.launch / "help" / f"{command}.txt").read_text(), end="")
    if sets_up and not places.is_installed:
        print((places.launch / "help" / "toolchain-flags.txt").read_text(), end="")
    return int(ExitCode.OK)
