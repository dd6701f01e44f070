"""The --sink setting, whose password no program arguments, file or message may show."""

import os
import re
import urllib.parse

from offramp_launch.arguments import names_in
from offramp_launch.exit_code import UsageError

FLAG, VARIABLE = "--sink", "OFFRAMP_SINK"
PASSWORD_VARIABLE = "PGPASSWORD"  # libpq's
CREDENTIALS = re.compile(r"^(postgres(?:ql)?://[^:@/?]*):([^@/]*)@")
PARAMETER = re.compile(r"([?&])password=([^&]*)(&|$)")
OTHERS = re.compile(r"(?:^|[?&\s])sslpassword\s*=")
FIRST_KEY_WORD = re.compile(r"\s*[a-z_]+\s*=")
NO_PORT = re.compile(r"[^/?]*:\d*[^\d,/?]")
KEY_WORD = re.compile(r"(?:^|(?<=\s))password\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)\s*")


def is_postgres(text):
    """Whether it is a PostgreSQL connection string, not a path, which may contain '='."""
    return text.startswith(("postgres://", "postgresql://")) or (
        bool(FIRST_KEY_WORD.match(text)) and not os.path.exists(text)
    )


def without_password(sink):
    """(the sink without its password, the password or None). Errors: LaunchError where a password cannot be removed."""
    if OTHERS.search(sink):
        raise UsageError(
            "--sink has an sslpassword, which process lists and logs would show",
            "Store the key without a password, or set it in pg_service.conf",
        )
    if "://" not in sink:
        found = KEY_WORD.findall(sink)
        if not found:
            return sink, None
        last = found[-1]  # libpq uses the last one
        return KEY_WORD.sub("", sink).strip(), re.sub(r"\\(.)", r"\1", last[1:-1] if last.startswith("'") else last)
    password = None
    if given := CREDENTIALS.match(sink):
        password = urllib.parse.unquote(given[2])
        sink = f"{given[1]}@{sink[given.end() :]}"
    while given := PARAMETER.search(sink):
        password = urllib.parse.unquote(given[2])
        sink = sink[: given.start()] + (given[1] if given[3] else "") + sink[given.end() :]
    rest = re.sub(r"^[^@/?]*@", "", sink.partition("://")[2])
    if "@" in rest.partition("?")[0] or ("@" in rest and NO_PORT.match(rest)):
        raise UsageError(
            "--sink has an '@', '/' or '?' within user or password",
            "Write these as %40, %2F and %3F, or give the password in PGPASSWORD",
        )
    return sink, password


def hide_password(arguments, environment):
    """Moves the passwords of --sink and OFFRAMP_SINK to the environment, for libpq. Returns the other arguments."""
    hidden, is_sink = [], False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if is_sink or (name == FLAG and equals):
            sink = _hide(argument if is_sink else value, environment)
            argument = sink if is_sink else f"{FLAG}={sink}"
        is_sink = not is_sink and argument == FLAG
        hidden.append(argument)
    if environment.get(VARIABLE) and FLAG not in names_in(arguments):
        environment[VARIABLE] = _hide(environment[VARIABLE], environment)
    return hidden


def resolve(config, environment):
    """Flags that replace the sink of a --config file by one without its password; also changes `config`."""
    sink = config.get("sink") or ""
    hidden = _hide(sink, environment)
    if hidden == sink:
        return []
    config["sink"] = hidden
    return [FLAG, hidden]


def _hide(sink, environment):
    sink, password = without_password(sink)
    if password:
        environment[PASSWORD_VARIABLE] = password
    return sink
