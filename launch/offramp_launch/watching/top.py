"""The command `top`: shows a run on a terminal, twice a second, with keys that scale or reload its consumers."""

import codecs
import contextlib
import importlib.util
import os
import select
import signal
import sys
import termios
import time

from offramp_launch import interrupts
from offramp_launch.arguments import take_values
from offramp_launch.exit_code import ExitCode, LaunchError, UsageError
from offramp_launch.progress import ENDS
from offramp_launch.run_dir import CONTROL_SOCKET, accepts_connections, find_live_run, read_object
from offramp_launch.screen import drawn_on
from offramp_launch.supervision.control import ControlClient
from offramp_launch.watching.diagnosis import sentence
from offramp_launch.watching.rates import Rates

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 2
NOTE_SECONDS = 5  # for the result of a key
KEYS = {"+": 1, "=": 1, "-": -1, "_": -1}
LEAVE_SCREEN = b"\x1b[?1049l\x1b[?25h"  # leaves the alternate screen and shows the cursor
# Replacements on a terminal without UTF-8.
IN_ASCII = dict(zip("·▄▒█━─▁▂▃▅▆▇–—…", ".=o#=-_.-+*%--~"))


def start(places, argv):
    """The exit code. Errors: LaunchError."""
    flags, rest = take_values(argv, ["--run-dir"])
    if rest and "--run-dir" not in flags and not rest[0].startswith("-"):
        flags["--run-dir"] = rest.pop(0)
    if rest:
        raise UsageError(f"top: unknown argument '{rest[0]}'", "See ./launch/offramp top --help")
    run_dir = find_live_run(places, flags.get("--run-dir"))
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError(
            "top needs a terminal for input and output", "Run ./launch/offramp status, with --json for programs"
        )
    if not importlib.util.find_spec("rich"):
        raise LaunchError(
            f"top needs the Python package rich, which is not installed for {sys.executable}",
            f"{sys.executable} -m pip install rich (Debian: apt install python3-rich); or run ./launch/offramp status",
        )
    interrupts.handle_all_signals()
    top = Top(run_dir)
    with Screen() as screen:
        top.watch(screen)
    print(top.final_messages())
    return int(ExitCode.OK)


class Screen:
    """
    The terminal, without echo or line buffering until the block ends, also by an exception. Owns: the terminal's
    settings. Borrows: standard input and output. Ctrl-Z, Ctrl-\\ and SIGTSTP are ignored: they would return to the
    shell with these settings. SIGQUIT acts like SIGTERM.
    """

    def __init__(self):
        from rich.console import Console
        from rich.live import Live

        codecs.register_error("in ASCII", in_ascii)
        output = drawn_on(sys.stdout)
        output.reconfigure(errors="in ASCII")
        self.console = Console(file=output)
        self._live = Live(
            console=self.console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._input, self._output = sys.stdin.fileno(), output.fileno()

    def __enter__(self):
        self._before = termios.tcgetattr(self._input)
        self._handlers = {
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, signal.SIG_IGN),
            signal.SIGQUIT: signal.signal(signal.SIGQUIT, lambda *_: signal.raise_signal(signal.SIGTERM)),
        }
        try:
            now = termios.tcgetattr(self._input)
            now[3] &= ~(termios.ICANON | termios.ECHO)
            now[6][termios.VSUSP] = now[6][termios.VQUIT] = b"\0"
            termios.tcsetattr(self._input, termios.TCSANOW, now)
            self._live.start()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_):
        self._restore()

    def _restore(self):
        try:
            with contextlib.suppress(OSError, ValueError):
                self._live.stop()
        finally:
            with contextlib.suppress(OSError):  # the terminal is gone
                os.write(self._output, LEAVE_SCREEN)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSANOW, self._before)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def show(self, lines):
        from rich.console import Group

        self._live.update(Group(*lines), refresh=True)

    def keys(self, seconds):
        """The keys typed within that time; None once the terminal is gone."""
        if not select.select([self._input], [], [], max(0, seconds))[0]:
            return ""
        try:
            typed = os.read(self._input, 64)
        except OSError:
            return None
        return typed.decode(errors="replace") if typed else None


def in_ascii(problem):
    """An error handler for codecs.register_error()."""
    return "".join(
        IN_ASCII.get(character, "?") for character in problem.object[problem.start : problem.end]
    ), problem.end


class Top:
    """
    Asks the run for its status and draws it. Owns: a connection to its launcher. Blocks: at most PATIENCE_SECONDS for
    an answer.
    """

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._client = None
        self._seen = Rates()
        self._document = {}
        self._note, self._noted = None, 0.0
        self._is_over = False

    def watch(self, screen):
        """Draws until the key q, or until the run is over."""
        from offramp_launch.watching.drawing import draw

        while not self._is_over:
            until = time.monotonic() + LOOK_SECONDS
            self._look()
            note = self._note if time.monotonic() < self._noted + NOTE_SECONDS else None
            screen.show(draw(self._document, self._seen, screen.console.width, screen.console.height, note))
            typed = "" if self._is_over else screen.keys(until - time.monotonic())
            if typed is None or "q" in typed:
                return
            for key in typed:
                self._press(key)

    def _look(self):
        try:
            self._document = self._ask({"do": "status"})
            self._seen.add(self._document, time.monotonic())
        except LaunchError as problem:
            self._is_over = not accepts_connections(self._run_dir / CONTROL_SOCKET)
            status = {**(self._document.get("status") or {}), **(read_object(self._run_dir / "status.json") or {})}
            is_finishing = not self._is_over and status.get("state") in ("draining", *ENDS)
            if self._is_over or is_finishing:
                self._document = {**self._document, "status": status, "finishing": is_finishing}
            if is_finishing:
                self._show_note("finishing: merging the results")
            else:
                self._show_note(problem.in_one_line(), True)

    def _ask(self, request):
        """Errors: LaunchError; the next request then opens a new connection."""
        try:
            self._client = self._client or ControlClient(self._run_dir, PATIENCE_SECONDS)
            return self._client.ask(request)
        except LaunchError as problem:
            if problem.code in (ExitCode.NO_SUCH_RUN, ExitCode.PROTOCOL):
                self._client = None
            raise

    def _press(self, key):
        try:
            if key in KEYS and self._document.get("consumers_wanted") is not None:
                answer = self._ask({"do": "scale", "consumers": self._document["consumers_wanted"] + KEYS[key]})
                self._document = answer
                ended = "; autoscaling is off: press f to turn it on" if answer.get("more") else ""
                self._show_note(f"{answer['before']} -> {answer['consumers']} consumers{ended}")
            elif key == "f" and self._document.get("consumers_wanted") is not None:
                bounds = (self._document.get("following") or {}).get("bounds", "auto")
                self._document = answer = self._ask({"do": "scale", "consumers": bounds})
                self._show_note(f"autoscaling on, within {(answer.get('following') or {}).get('bounds', bounds)}")
            elif key == "r":
                self._document = self._ask({"do": "reload"})
                self._show_note("reload: consumers are replaced one by one")
        except LaunchError as problem:
            self._show_note(problem.in_one_line(), True)

    def _show_note(self, text, is_alarm=False):
        self._note, self._noted = (text, is_alarm), time.monotonic()

    def final_messages(self):
        """The line that stays on the terminal."""
        words = sentence(self._document).text
        return f"run {self._document.get('run_id')}: {words}" + (
            f"; {self._run_dir}/summary.json" if self._is_over else ""
        )
