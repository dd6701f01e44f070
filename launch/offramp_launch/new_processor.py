"""The command `new-processor`: writes a processor template and a test that runs it on a saved slab."""

import keyword
import os
import pathlib
import re
import shlex
import sys

from offramp_launch.arguments import refuse, take_values
from offramp_launch.exit_code import ExitCode, NO_ROOM, UsageError, WriteError

# By --lang: the templates of both files, and the ending of the first.
LANGUAGES = {
    "python": ("processor.py", "test_processor.py", ".py"),
    "c": ("processor.c", "test_shared_object.py", ".c"),
    "c++": ("processor.cpp", "test_shared_object.py", ".cpp"),
}
# The files' example command, replaced in a package, which has no runner.
EXAMPLE_RUN = "./launch/offramp run --input FOLDER --model MODEL.pt2"


def start(places, argv):
    flags, rest = take_values(argv, ("--lang",))
    language = flags.get("--lang", "python")
    if language not in LANGUAGES:
        raise UsageError(f"--lang is '{language}'", f"Known: {', '.join(LANGUAGES)}")
    if not rest:
        raise UsageError("new-processor needs a name", "./launch/offramp new-processor save")
    refuse(rest[1:], "new-processor", "new-processor --help")
    folder, name = pathlib.Path(rest[0]).parent, pathlib.Path(rest[0]).name
    require_usable(name, language)
    write_all(folder, files_for(places, name, language))
    source = folder / (name + LANGUAGES[language][2])
    print(f"{source}: a processor template; its first lines show how to use it in a run")
    print(f"{folder / f'test_{name}.py'}: its test\n  {command_of_test(places, folder, name)}")
    return int(ExitCode.OK)


def require_usable(name, language):
    """The name becomes that of a file, a module, and in Python a function."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or language == "python" and keyword.iskeyword(name):
        raise UsageError(
            f"'{name}' cannot name a processor", "Give letters, digits and _, such as save_masks, without an ending"
        )
    if language == "python" and name in {*getattr(sys, "stdlib_module_names", ()), "numpy", "offramp", "torch"}:
        raise UsageError(f"a file {name}.py would hide the module '{name}'", f"Give another name, such as save_{name}")


def files_for(places, name, language):
    """{name: text}"""
    templates = places.launch / "new_processor"
    processor, test, ending = LANGUAGES[language]
    source = name + ending
    taken_by = (EXAMPLE_RUN, f"{places.command} consume --run-dir RUN") if places.is_installed else ("", "")
    of_test = (templates / test).read_text().replace("NAME", name).replace('SOURCE"', f'{source}"')
    return {
        source: (templates / processor).read_text().replace(*taken_by).replace("NAME", name),
        f"test_{name}.py": of_test.replace('"""Compiles SOURCE ', f'"""Compiles {source} '),
    }


def write_all(folder, files):
    """Writes all files or none. Errors: LaunchError where one exists, or the folder does not."""
    there = [folder / name for name in files if os.path.lexists(folder / name)]
    if there:
        raise WriteError(f"'{there[0]}' exists already", "Give another name, or move it away: nothing was written")
    written = []
    try:
        for name, text in files.items():
            with open(folder / name, "x", encoding="utf-8") as file:
                written.append(folder / name)
                file.write(text)
    except OSError as problem:
        for path in written:
            path.unlink(missing_ok=True)
        remedy = (
            "Make room there" if problem.errno in NO_ROOM else "Give a name in an existing folder that you may write to"
        )
        raise WriteError(f"'{folder / name}' cannot be written: {problem.strerror}", remedy) from problem


def command_of_test(places, folder, name):
    """The command line of the test, from this folder."""
    python = places.venv_python if places.venv_python.exists() else sys.executable
    package = places.launch / "python"
    return (
        f"PYTHONPATH={shlex.quote(str(package))} " if package.is_dir() else ""
    ) + f"{shlex.quote(str(python))} {shlex.quote(str(folder / f'test_{name}.py'))}"
