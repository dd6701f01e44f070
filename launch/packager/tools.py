"""Runs the tools that make packages."""

import subprocess


class CannotBuild(Exception):
    """A package cannot be built; the message is the reason."""


def run_tool(command, **options):
    """The tool's output. Errors: CannotBuild, with that output, if the tool is missing or fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
        )
    except FileNotFoundError as problem:
        raise CannotBuild(f"{command[0]} is not installed") from problem
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command[:4])} ended with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout
