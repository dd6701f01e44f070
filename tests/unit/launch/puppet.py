"""
Replaces the producer and the consumer. It connects to the test, sends its role, and obeys the test's orders, one JSON
object a line:

    {"exit": 3}   {"dies_of": "SIGTERM"}   {"status": {...}}   {"summary": {...}}   {"log": "text"}   {"meet": true}:
     publish its endpoint
    {"eats": true}: allocate memory until it is killed

It reports each SIGTERM and the end of its lifeline to the test, and exits on its own only when the lifeline ends. An
action "instead of a run", such as sweep, it carries out immediately.
"""

import json
import os
import selectors
import signal
import socket
import sys

KNOWN = (
    "run-dir",
    "run-id",
    "consumers",
    "output",
    "input",
    "processor",
    "model",
    "source",
    "batches",
    "lifeline-fd",
    "log-level",
    "consumer-user",
    "producer-restarts",
    "strategy",
    "log-format",
    "serve",
    "status-seconds",
    "slab-bytes",
    "config",
    "trace-dir",
)


def parse(argv):
    flags, rest = {}, list(argv)
    while rest:
        name = rest.pop(0).removeprefix("--")
        if name == "finish-own-run":
            flags["finish"] = f"finish {rest.pop(0)}"
        elif name in ("prepare-own-run", "prepare-own-work"):
            flags["prepare"] = f"prepare {'on ' if name == 'prepare-own-work' else ''}for {rest.pop(0)}"
        elif name in ("settings", "sweep", "prepare", "finish", "recover", "resume", "overwrite"):
            flags[name] = True
        elif name == "group":
            flags[name] = "\n".join(filter(None, (flags.get(name), rest.pop(0))))
        elif name in KNOWN:
            flags[name] = rest.pop(0)
        else:
            print(f"unknown flag --{name}", file=sys.stderr)
            sys.exit(64)
    return flags


def print_settings(role, flags):
    """A producer detects the processor for its model."""
    config = {
        "run-dir": "",
        "run-id": "",
        "consumers": 2,
        "output": "",
        "input": "",
        "processor": "auto",
        "model": "copy",
        "source": "synthetic",
        "batches": 3,
        "producer-restarts": 0,
        **flags,
    }
    config["consumers"] = 0 if config["consumers"] == "auto" else int(str(config["consumers"]).partition("..")[0])
    config["producer-restarts"] = int(config["producer-restarts"])
    if "status-seconds" in config:
        config["status-seconds"] = float(config["status-seconds"])
    config.pop("settings")
    found = {"processor": "checksum"} if role == "producer" and config["processor"] == "auto" else {}
    print(json.dumps({"version": "1.2.3", "settings": {**config, **found}, "given": config}))


class Puppet:
    def __init__(self, role, argv, flags):
        self._run_dir = flags["run-dir"]
        self._test = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._test.connect(os.environ["PUPPET_SOCKET"])
        self._send(
            {
                "role": role,
                "program": os.environ["PUPPET_PROGRAM"],
                "pid": os.getpid(),
                "argv": argv,
                "uid": os.getuid(),
                "groups": [os.getgid(), *os.getgroups()],
            }
        )
        self._selector = selectors.DefaultSelector()
        self._lifeline = int(flags["lifeline-fd"])
        self._inbox, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        self._wakeup = wakeup
        signal.set_wakeup_fd(wakeup.fileno())
        signal.signal(signal.SIGTERM, lambda *_: None)
        self._selector.register(self._inbox, selectors.EVENT_READ, self._on_signal)
        self._selector.register(self._test, selectors.EVENT_READ, self._on_order)
        self._selector.register(self._lifeline, selectors.EVENT_READ, self._on_lifeline)
        self._orders = b""
        self._send({"ready": True})

    def run(self):
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _send(self, what):
        self._test.sendall(json.dumps(what).encode() + b"\n")

    def _on_signal(self):
        for number in self._inbox.recv(16):
            self._send({"signal": signal.Signals(number).name})

    def _on_lifeline(self):
        if not os.read(self._lifeline, 1):
            self._send({"lifeline": "ended"})
            sys.exit(86)

    def _on_order(self):
        received = self._test.recv(65536)
        if not received:
            sys.exit(1)
        *lines, self._orders = (self._orders + received).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, order):
        if "status" in order:
            self._write("status.json", order["status"])
        if "summary" in order:
            self._write("summary.json", order["summary"])
        if "meet" in order:
            with open(os.path.join(self._run_dir, "live/endpoint"), "w", encoding="utf-8") as file:
                stage = os.path.basename(os.path.dirname(os.environ["PUPPET_SOCKET"]))
                file.write(
                    f"offramp-endpoint=1\nrun_id={stage}\nnonce=00000000000000aa\nproducer_pid={os.getpid()}\nepoch=1\n"
                )
        if "log" in order:
            print(order["log"], file=sys.stderr, flush=True)
        self._send({"obeyed": True})
        if "dies_of" in order:
            number = signal.Signals[order["dies_of"]]
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if "eats" in order:
            eaten = []
            while True:
                eaten.append(b"x" * (1 << 24))
        if "exit" in order:
            sys.exit(order["exit"])

    def _write(self, name, value):
        path = os.path.join(self._run_dir, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(path + ".new", path)


def main():
    role, *argv = sys.argv[1:]
    if argv in (["--version"], ["--help"], ["--help-all"]):
        print(f"offramp-{role} 1.2.3")
        return
    flags = parse(argv)
    if flags.get("settings"):
        print_settings(role, flags)
    elif errand := next((name for name in ("sweep", "prepare", "finish") if flags.get(name)), None):
        with open(os.environ["PUPPET_ERRANDS"], "a", encoding="utf-8") as errands:
            value = flags[errand]
            errands.write(f"{role} {errand if value is True else value}\n")
        if flags.get("prepare") and "PUPPET_PREPARES_UNTIL" in os.environ:
            with open(os.environ["PUPPET_PREPARES_UNTIL"] + ".pid", "w", encoding="utf-8") as file:
                file.write(f"{os.getpid()}\n")
            with open(os.environ["PUPPET_PREPARES_UNTIL"], encoding="utf-8") as door:
                door.read()
        fails = os.environ.get("PUPPET_FINISH_FAILS_FOR", "").split()  # names of groups; empty: for all
        is_meant = not fails or flags.get("group", "").partition("=")[0] in fails
        if flags.get("finish") and "PUPPET_FINISH_FAILURE" in os.environ and is_meant:
            print(os.environ["PUPPET_FINISH_FAILURE"], file=sys.stderr)
            sys.exit(73)
    else:
        Puppet(role, argv, flags).run()


main()
