"""Reports exceptions of the user's code: the reason, and the line of that code that failed."""

import contextlib
import os
import traceback

import torch

from offramp_launch.exit_code import ExitCode, LaunchError

# Code that the network's author did not write: PyTorch, this command, frames without a file.
NOT_OWN = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    "<",
)
STANDARD = os.path.dirname(os.__file__) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Exceptions of an import whose file is missing or has a syntax error.
NOT_THERE = (ImportError, FileNotFoundError, SyntaxError)


def own_line(problem, installed=True):
    """
    The last line of the user's code in the traceback: "bg.py:15: if y.mean() > 0:". Without one, and with `installed`,
    the last line of an installed package. None without either.
    """
    if isinstance(problem, SyntaxError) and problem.filename and problem.lineno:
        return shown(problem.filename, problem.lineno, problem.text)
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if not frame.filename.startswith(NOT_OWN)]
    users = [frame for frame in frames if not is_installed(frame) and not frame.filename.startswith(STANDARD)]
    found = users or [frame for frame in frames if installed and is_installed(frame)]
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
def reported(message, fix="", code=lambda problem: ExitCode.BAD_INPUT):
    """
    Turns exceptions and sys.exit() of the user's code into a LaunchError whose last line is the failing line of that
    code.
    """
    try:
        yield
    except LaunchError:
        raise
    except (Exception, SystemExit) as problem:
        raise LaunchError(
            f"{message}: {first_lines(problem)}", "\n    ".join(filter(None, (fix, own_line(problem)))), code(problem)
        ) from problem
