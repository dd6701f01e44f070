"""Takes the launcher's flags out of a command line; the rest goes to the programs unchanged."""

import os
import pathlib
import re

from offramp_launch.exit_code import UsageError

URL = "--http-url"
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def take_values(argv, names):
    """Splits argv into ({name: value} of the named flags, the rest). The last `--name VALUE` or `--name=VALUE` wins."""
    taken, rest = take_all(argv, names)
    return dict(taken), rest


def take_all(argv, names):
    """As take_values, for flags that may be repeated: ([(name, value)], the rest)."""
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
                raise UsageError(f"{name} needs a value", "See ./launch/offramp help")
        taken.append((name, value))
    return taken, rest


def folder_given(text, flag="--output"):
    """The absolute path of a folder for results. Errors: LaunchError (USAGE) for a URL."""
    if scheme := SCHEME.match(os.fspath(text)):
        raise UsageError(
            f"{flag} '{text}' is a URL, and {scheme[0]} is not supported here",
            "Give a local folder, and copy the results from there",
        )
    return pathlib.Path(text).absolute()


def names_in(argv):
    """The names of all flags in argv, whose values may be among them."""
    return {word.partition("=")[0] for word in argv}


def given_among(names, argv, config):
    """Those of the `names` that argv has, or that the settings have from elsewhere, but for the usual --strategy."""
    usual, given = {"--strategy": "streams"}, names_in(argv)
    return [name for name in names if name in given or config.get(name[2:]) and config[name[2:]] != usual.get(name)]


def words_of(values):
    """The flags of {name: value} as words, without those whose value is None."""
    return [word for name, value in values.items() if value is not None for word in (name, str(value))]


def take_switch(argv, name):
    """Splits argv into (whether the switch is given, the rest)."""
    return name in argv, [argument for argument in argv if argument != name]


def without_values(argv, names):
    """argv without the named flags and their values: the launcher sets these, and programs accept a flag once."""
    return take_values(argv, names)[1]


def without_switches(argv, names):
    """argv without the named switches, also as `--name=VALUE`."""
    return [word for word in argv if word.partition("=")[0] not in names]


def shown(argv):
    """argv for people and logs, without header values and URL queries, which may be secret."""
    taken, rest = take_values(argv, ("--http-header", URL))
    for name, value in taken.items():
        secret = not value.startswith("@") if name != URL else "?" in value
        hidden = value if not secret else "@FILE" if name != URL else value.partition("?")[0] + "?QUERY"
        rest += [name, hidden]
    return rest


def to_type_again(argv):
    """shown(argv) for a suggested command. Its placeholder URL, which no program accepts, is the user's to fill in."""
    taken, rest = take_values(shown(argv), (URL,))
    return [
        *rest,
        *(word for name, value in taken.items() for word in (name, "URL" if value.endswith("?QUERY") else value)),
    ]


def hide_query(argv, environment):
    """Moves a URL with a query, which may be secret, from argv to the environment, which process lists do not show."""
    taken, rest = take_values(argv, (URL,))
    if "?" not in taken.get(URL, ""):
        return argv
    environment["OFFRAMP_HTTP_URL"] = taken[URL]
    return rest


def refuse(rest, command, page="help"):
    """Errors: LaunchError (USAGE) for the first of the words that `command` does not know. `page`: the help to read."""
    if rest:
        raise UsageError(f"{command} does not accept '{rest[0]}'", f"See ./launch/offramp {page}")


def parse(argv, command, values=(), switches=(), page="help"):
    """{flag: value, or True for a switch}. Errors: LaunchError (USAGE) for any other word."""
    flags, rest = take_values(argv, values)
    refuse([word for word in rest if word not in switches], command, page)
    return {**flags, **dict.fromkeys(rest, True)}


def count(text, what):
    """A whole number, zero or more."""
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{what} is '{text}', which is not a whole number", "Give a number such as 4")
    return int(text)


def setting_given(name, argv, environment=os.environ):
    """A setting's text from flag, variable or settings file; empty where it is not given."""
    taken = take_values(argv, (f"--{name}", "--config"))[0]
    if given := taken.get(f"--{name}") or environment.get("OFFRAMP_" + name.replace("-", "_").upper()):
        return given
    try:
        found = re.search(
            rf"""(?m)^\s*{name}\s*=\s*(?:\"{{3}}([^"]*)|"([^"\n]*)|'([^'\n]*)|([^"'#\n]*))""",
            pathlib.Path(taken.get("--config") or environment["OFFRAMP_CONFIG"]).read_text(),
        )
    except (KeyError, OSError, UnicodeDecodeError):
        return ""
    return next(filter(None, found.groups()), "").strip() if found else ""
