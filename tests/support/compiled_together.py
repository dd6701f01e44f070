"""The members of CMake's unity sources in a build."""

import pathlib
import re


def sources_of(file):
    """The sources in this entry of compile_commands.json: the file itself, or the members of a unity build."""
    file = pathlib.Path(file)
    if file.parent.name != "Unity":
        return [file]
    return [pathlib.Path(path) for path in re.findall(r'^#include "(.*)"$', file.read_text(), re.MULTILINE)]
