"""What the user's own code raised, as one reason and the line of that code where it ended."""

import contextlib
import os
import traceback

import torch

from offramp_launch.exit_code import ExitCode, LaunchError

# Of these a network's author wrote nothing: PyTorch, this command, Python's own library.
NOT_OWN = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<")
STANDARD = os.path.dirname(os.__file__) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# What an import ends with for want of a file, or of the language in it.
NOT_THERE = (ImportError, FileNotFoundError, SyntaxError)


def own_line(problem, installed=True):
    """
    The last line of the user's that was at work: "bg.py:15: if y.mean() > 0:". Where there is none, the last one of a package that is
    `installed` beside PyTorch. None where neither was.
    """
    if isinstance(problem, SyntaxError) and problem.filename and problem.lineno:
        return shown(problem.filename, problem.lineno, problem.text)
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if not frame.filename.startswith(NOT_OWN)]
    mine = [frame for frame in frames if not is_installed(frame) and not frame.filename.startswith(STANDARD)]
    found = mine or [frame for frame in frames if installed and is_installed(frame)]
    return shown(found[-1].filename, found[-1].lineno, found[-1].line) if found else None


def is_installed(frame):
    return any(place in frame.filename for place in INSTALLED)


def shown(file, number, line):
    return f"{os.path.relpath(file)}:{number}: {(line or '').strip()}"


def first_lines(problem, most=600):
    text = " ".join(line.strip() for line in str(problem).splitlines() if line.strip())
    text = text.partition(" For more information, run with TORCH_LOGS")[0]
    text = f": {text[:most]}{'...' if len(text) > most else ''}" if text else ""
    return f"{type(problem).__name__}{text}"


@contextlib.contextmanager
def told(what, fix="", code=lambda problem: ExitCode.BAD_INPUT):
    """Whatever the user's code raises, or tries to end the command with, becomes a LaunchError whose last line is that code's."""
    try:
        yield
    except LaunchError:
        raise
    except (Exception, SystemExit) as problem:
        raise LaunchError(f"{what}: {first_lines(problem)}", "\n    ".join(filter(None, (fix, own_line(problem)))), code(problem)) from problem
