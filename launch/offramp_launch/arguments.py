"""Takes the launch script's own flags out of a command line; everything else goes to the programs untouched."""

import os
import pathlib
import re

from offramp_launch.exit_code import ExitCode, LaunchError

URL = "--http-url"


def take_values(argv, names):
    """Splits argv into ({name: value} of the named flags, the rest). `--name VALUE` and `--name=VALUE`; the last one counts."""
    taken, rest = take_all(argv, names)
    return dict(taken), rest


def take_all(argv, names):
    """As take_values, of flags that may stand repeatedly: ([(name, value)], the rest)."""
    taken, rest = [], []
    arguments = iter(argv)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in names:
            rest.append(argument)
            continue
        if not equals:
            value = next(arguments, None)
            if value is None:
                raise LaunchError(f"{name} wants a value", "See ./launch/offramp help", ExitCode.USAGE)
        taken.append((name, value))
    return taken, rest


def take_switch(argv, name):
    """Splits argv into (was the switch there?, the rest)."""
    return name in argv, [argument for argument in argv if argument != name]


def without_values(argv, names):
    """argv without the named flags and their values. The launch script decides these itself, and a flag may stand once."""
    return take_values(argv, names)[1]


def shown(argv):
    """argv for people and logs: a header that is given in the clear may be a secret, and so may a URL's query."""
    taken, rest = take_values(argv, ("--http-header", URL))
    for name, value in taken.items():
        secret = not value.startswith("@") if name != URL else "?" in value
        hidden = value if not secret else "@FILE" if name != URL else value.partition("?")[0] + "?QUERY"
        rest += [name, hidden]
    return rest


def to_type_again(argv):
    """shown(argv) for a command that is offered: typed as it stands it asks for what is hidden, as no program takes that for an address."""
    taken, rest = take_values(shown(argv), (URL,))
    return [*rest, *(word for name, value in taken.items() for word in (name, "URL" if value.endswith("?QUERY") else value))]


def hide_query(argv, environment):
    """argv without a URL whose query may hold a secret: it goes to the environment, where lists of processes do not show it."""
    taken, rest = take_values(argv, (URL,))
    if "?" not in taken.get(URL, ""):
        return argv
    environment["OFFRAMP_HTTP_URL"] = taken[URL]
    return rest


def count(text, what):
    """A whole number, zero or more."""
    if not text.isascii() or not text.isdigit():
        raise LaunchError(f"{what} is '{text}', which is not a whole number", "Give a number such as 4", ExitCode.USAGE)
    return int(text)


def setting_given(name, argv, environment=os.environ):
    """By flag, variable or a file of settings; nothing where it is not."""
    taken = take_values(argv, (f"--{name}", "--config"))[0]
    if told := taken.get(f"--{name}") or environment.get("OFFRAMP_" + name.replace("-", "_").upper()):
        return told
    try:
        found = re.search(rf"""(?m)^\s*{name}\s*=\s*["']?([^"'#\n]*)""", pathlib.Path(taken.get("--config") or environment["OFFRAMP_CONFIG"]).read_text())
    except (KeyError, OSError, UnicodeDecodeError):
        return ""
    return found[1].strip() if found else ""
