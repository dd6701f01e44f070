"""Where rows go: what --sink says, and the password in it, which no program's arguments, file or line on the screen may show."""

import re
import urllib.parse

from offramp_launch.exit_code import ExitCode, LaunchError

FLAG, VARIABLE = "--sink", "OFFRAMP_SINK"
PASSWORD_VARIABLE = "PGPASSWORD"        # libpq's
CREDENTIALS = re.compile(r"^(postgres(?:ql)?://[^:@/?]*):([^@/]*)@")
PARAMETER = re.compile(r"([?&])password=([^&]*)(&|$)")
NO_PORT = re.compile(r"[^/?]*:\d*[^\d,/?]")
KEY_WORD = re.compile(r"(?:^|(?<=\s))password\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)\s*")


def is_postgres(text):
    return text.startswith(("postgres://", "postgresql://")) or ("://" not in text and "=" in text)


def without_password(sink):
    """(the sink without its password, the password or nothing). Errors: LaunchError where it cannot be told where the password ends."""
    if "://" not in sink:
        found = KEY_WORD.search(sink)
        if not found:
            return sink, None
        return KEY_WORD.sub("", sink).strip(), re.sub(r"\\(.)", r"\1", found[1][1:-1] if found[1].startswith("'") else found[1])
    password = None
    if found := CREDENTIALS.match(sink):
        password = urllib.parse.unquote(found[2])
        sink = f"{found[1]}@{sink[found.end():]}"
    if found := PARAMETER.search(sink):
        password = urllib.parse.unquote(found[2])
        sink = sink[:found.start()] + (found[1] if found[3] else "") + sink[found.end():]
    rest = re.sub(r"^[^@/?]*@", "", sink.partition("://")[2])
    if "@" in rest.partition("?")[0] or ("@" in rest and NO_PORT.match(rest)):
        raise LaunchError("--sink has an '@', '/' or '?' within user or password", "Write these as %40, %2F and %3F, or give the password in PGPASSWORD", ExitCode.USAGE)
    return sink, password


def hide_password(arguments, environment):
    """The arguments without the password of a --sink; it, and that of OFFRAMP_SINK, go to the environment, where libpq finds it."""
    hidden, is_sink = [], False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if is_sink or (name == FLAG and equals):
            sink = _hide(argument if is_sink else value, environment)
            argument = sink if is_sink else f"{FLAG}={sink}"
        is_sink = not is_sink and argument == FLAG
        hidden.append(argument)
    if environment.get(VARIABLE) and FLAG not in (argument.partition("=")[0] for argument in arguments):
        environment[VARIABLE] = _hide(environment[VARIABLE], environment)
    return hidden


def settle(config, environment):
    """The flags that put a sink without its password in the place of one that a --config file has with it; changes `config` alike."""
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
