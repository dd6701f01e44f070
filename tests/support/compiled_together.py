"""What a build compiles as one: CMake's unity sources."""

import pathlib
import re


def sources_of(file):
    """Those that are compiled with this file of compile_commands.json: itself, or what CMake has put together in it."""
    file = pathlib.Path(file)
    if file.parent.name != "Unity":
        return [file]
    return [pathlib.Path(path) for path in re.findall(r'^#include "(.*)"$', file.read_text(), re.MULTILINE)]
