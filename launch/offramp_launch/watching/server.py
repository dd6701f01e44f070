"""
The HTTP server of --http: GET and HEAD only. It is a separate process, so that clients cannot affect the run. It asks
the launcher for the status, like `offramp status`.
"""

import base64
import contextlib
import hashlib
import http.client
import http.server
import io
import json
import re
import socket
import threading
import time

from offramp_launch.exit_code import LaunchError
from offramp_launch.progress import ENDS
from offramp_launch.supervision.control import ControlClient
from offramp_launch.watching.address import names_this_machine
from offramp_launch.watching.diagnosis import silent_after
from offramp_launch.watching.exposition import OPEN_METRICS, PROMETHEUS, text_of
from offramp_launch.watching.metrics import families_of
from offramp_launch.watching.rates import Rates, SHARE_SECONDS
from offramp_launch.watching.view import view_of

REQUEST_SECONDS = 10  # for a request to come
SEND_SECONDS = 5  # for a client to take what it is sent
NEWS_SECONDS = 0.5  # between two checks of /events
QUIET_SECONDS = 15  # until /events sends a comment, as a sign of life
LONGEST_HEAD = 16384  # bytes of a request
TEXT, JSON, HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"
MOST, MOST_STREAMS = 64, 32  # connections, and streams among them


class Connections:
    """
    A bounded number of connections, with one request each. A new one replaces the oldest that is not a stream.

    Borrows: the sockets, each until leave(). Thread: any. Blocks: never. A connection whose request is still to come is
    replaced first; one that is being answered only if all others are answered, too, or are streams.
    """

    def __init__(self, most=MOST, most_streams=MOST_STREAMS):
        """`most_streams` must be less than `most`."""
        self._most, self._most_streams = most, most_streams
        self._lock = threading.Lock()
        self._waiting, self._answered, self._streams = {}, {}, {}  # each in order of arrival

    def admit(self, connection):
        with self._lock:
            if sum(map(len, (self._waiting, self._answered, self._streams))) >= self._most:
                oldest = next(iter(self._waiting or self._answered))
                self._forget(oldest)
                with contextlib.suppress(OSError):  # its thread wakes and closes it
                    oldest.shutdown(socket.SHUT_RDWR)
            self._waiting[connection] = True

    def _forget(self, connection):
        return any([each.pop(connection, False) for each in (self._waiting, self._answered, self._streams)])

    def begin_answer(self, connection):
        """Does nothing if the connection was dropped."""
        with self._lock:
            if self._forget(connection):
                self._answered[connection] = True

    def begin_stream(self, connection):
        """False if there are too many streams, or the connection was dropped."""
        with self._lock:
            if len(self._streams) >= self._most_streams or not self._forget(connection):
                return False
            self._streams[connection] = True
            return True

    def leave(self, connection):
        with self._lock:
            self._forget(connection)

    def has_streams(self):
        with self._lock:
            return bool(self._streams)


class Server(http.server.ThreadingHTTPServer):
    """
    Owns: the listening socket, and a thread for each connection. Borrows: the source. Blocks: serve_forever(). `page`:
    HTML with inline scripts. Errors: none that a client can cause.
    """

    daemon_threads = True

    def __init__(self, listener, source, page, is_loopback):
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.source, self.page, self.is_loopback = source, page, is_loopback
        self.bound_to = listener.getsockname()[0]
        self.policy = policy_of(page)
        self.connections = Connections()

    def process_request(self, request, client_address):
        self.connections.admit(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self.connections.leave(request)
            raise

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request, client_address):
        """Logs nothing: the client is gone, or sent arbitrary data."""


class Head(io.BufferedIOBase):
    """A request's input stream that fails if the head is longer than LONGEST_HEAD. Borrows: the stream."""

    def __init__(self, stream):
        self._stream, self._left = stream, LONGEST_HEAD

    def close(self):
        self._stream.close()

    def readline(self, size=-1):
        left = self._left + 1
        line = self._stream.readline(left if size is None or size < 0 else min(size, left))
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("head")
        return line


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request and closes the connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = REQUEST_SECONDS
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        self.rfile = Head(self.rfile)

    def version_string(self):
        return "offramp"

    def log_message(self, *_):
        """Requests are not logged."""

    def handle(self):
        try:
            self.handle_one_request()
        except http.client.LineTooLong:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", "GET"
            self.send_error(414)

    def parse_request(self):
        if not super().parse_request():
            return False
        self.server.connections.begin_answer(self.connection)
        self.connection.settimeout(SEND_SECONDS)
        host = self.headers.get("Host")
        if host is None and self.request_version == "HTTP/1.1":
            self._answer(400, "Host header missing\n")
            return False
        if host is not None and self.server.is_loopback and not names_this_machine(host, self.server.bound_to):
            self._answer(
                403, "this server accepts only local clients that use the names localhost, 127.0.0.1 or [::1]\n"
            )
            return False
        return True

    def send_error(self, code, message=None, explain=None):
        """Called by http.server for a bad request. The answer does not repeat the request."""
        self._answer(code, f"{http.client.responses.get(code, 'refused')}\n")

    def do_GET(self):
        path = self.path.partition("?")[0]
        answers = {
            "/": lambda: self._answer(200, self.server.page, HTML),
            "/metrics": self._metrics,
            "/livez": lambda: self._health(alive),
            "/readyz": lambda: self._health(ready),
            "/status.json": self._status,
            "/events": self._events,
        }
        if path not in answers:
            self._answer(404, f"not found; available: {', '.join(answers)}\n")
            return
        try:
            answers[path]()
        except NoAnswer as problem:
            self._answer(503, f"{problem}\n")

    do_HEAD = do_GET

    def _refuse_method(self):
        self._answer(405, "use GET or HEAD\n", Allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse_method

    def _metrics(self):
        open_metrics = "application/openmetrics-text" in self.headers.get("Accept", "")
        document = self.server.source.document()
        try:
            text = text_of(families_of(document, time.time()), open_metrics)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            self._answer(500, f"cannot compute metrics from the status: {problem!r}\n")
            return
        self._answer(200, text, OPEN_METRICS if open_metrics else PROMETHEUS)

    def _health(self, judge):
        try:
            well, why = judge(self.server.source.document(), time.monotonic_ns())
        except NoAnswer as problem:
            well, why = False, str(problem)
        self._answer(200 if well else 503, f"{why}\n")

    def _status(self):
        self._answer(200, as_line(self.server.source.document()) + b"\n", JSON)

    def _events(self):
        if self.command == "HEAD":
            self._answer(200, "", "text/event-stream")
            return
        if not self.server.connections.begin_stream(self.connection):
            self._answer(503, "too many clients of /events; try again later\n", **{"Retry-After": "5"})
            return
        self._head(200, "text/event-stream")
        sent, quiet_since = None, time.monotonic()
        while True:
            is_last = self.server.source.is_over.is_set()
            try:
                event, news = b"", as_line(self.server.source.document())
            except NoAnswer as problem:
                event, news = b"event: away\n", as_line({"error": str(problem)})
            if news != sent:
                self.wfile.write(event + b"data: " + news + b"\n\n")
                sent, quiet_since = news, time.monotonic()
            elif time.monotonic() - quiet_since >= QUIET_SECONDS:
                self.wfile.write(b": alive\n\n")
                quiet_since = time.monotonic()
            if is_last:
                return
            self.server.source.is_over.wait(NEWS_SECONDS)

    def _answer(self, code, body, kind=TEXT, **headers):
        body = body.encode(errors="replace") if isinstance(body, str) else body
        self._head(code, kind, **headers, **{"Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, code, kind, **headers):
        self.send_response(code)
        fixed = {
            "Content-Type": kind,
            "Content-Security-Policy": self.server.policy,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Connection": "close",
        }
        for name, value in {**fixed, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def policy_of(page):
    """A Content-Security-Policy that allows the page's own scripts only, so that status data stays text."""
    scripts = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)
    ]
    return (
        f"default-src 'none'; script-src {' '.join(scripts) or repr('none')}; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def serve(server, commands):
    """Serves until `commands` is closed. Each line is a final document, which open streams have a moment to send."""
    threading.Thread(target=server.serve_forever, args=(3600,), name="accept", daemon=True).start()
    for line in commands:
        server.source.set_final(json.loads(line))
    server.source.is_over.set()
    deadline = time.monotonic() + 1
    while server.connections.has_streams() and time.monotonic() < deadline:
        time.sleep(0.02)


KEPT_SECONDS = 0.25
PATIENCE_SECONDS = 2
AGAIN_SECONDS = 1  # after a request that failed


class NoAnswer(Exception):
    """The launcher did not answer; the text is the reason."""


class Source:
    """
    Asks the run's launcher, until set_final(). Owns: a connection to its control socket. `is_over`: an event: the
    document no longer changes. Thread: any. Blocks: for one answer, at most PATIENCE_SECONDS. Concurrent callers share
    the answer.
    """

    def __init__(self, run_dir):
        self._run_dir = run_dir
        self._lock = threading.Lock()
        self._client = None
        self._rates = Rates(2 * SHARE_SECONDS)
        self._answer = self._problem = None
        self._until = 0.0  # no new request before this time
        self._final = None  # the document after the launcher's loop has ended
        self.is_over = threading.Event()

    def document(self):
        """Errors: NoAnswer."""
        if self._final is not None:
            return self._final
        with self._lock:
            if time.monotonic() >= self._until:
                self._ask()
            if self._problem:
                raise NoAnswer(self._problem)
            return self._answer

    def _ask(self):
        began, self._problem = time.monotonic(), None
        try:
            document = self._asked()
            self._answer = {**document, "view": view_of(document, self._rates, began)}
        except LaunchError as problem:
            self._client, self._problem = None, problem.in_one_line()
        self._until = (time.monotonic() + AGAIN_SECONDS) if self._problem else began + KEPT_SECONDS

    def _asked(self):
        """Reconnects once if the launcher has dropped the connection."""
        if self._client is not None:
            try:
                return self._client.ask({"do": "status"})
            except LaunchError:
                self._client = None
        self._client = ControlClient(self._run_dir, PATIENCE_SECONDS)
        return self._client.ask({"do": "status"})

    def set_final(self, document):
        """Replaces the launcher's answers. Has its own history, as another thread may hold the lock and wait."""
        self._final = {**document, "view": view_of(document, Rates(), time.monotonic())}


def as_line(document):
    return json.dumps(document, separators=(",", ":")).encode()


TAKE_OVER_SECONDS = (
    600  # from a producer's death to its replacement's first report: that opens the input and loads the model
)


def alive(document, now):
    """(whether the run is alive, why). `now`: by the clock of `now_ns`, as the time of day may step."""
    if document.get("finishing"):
        return True, "the programs have ended; the launcher merges the results"
    reports = [
        (f"{name}: ", each) for name, each in (document.get("workers") or {}).items() if each.get("run_dir")
    ] or [("", document)]
    found = [(well, f"{whose}{why}") for whose, each in reports for well, why in [producer_alive(each, now)]]
    return next((each for each in found if not each[0]), found[0])


def producer_alive(report, now):
    """(whether, why) of one producer's run."""
    status = report.get("status") or {}
    if report.get("taking_over"):
        died = report.get("taking_over_since_ns")
        if died is None or now - died < TAKE_OVER_SECONDS * 1e9:
            return True, "another producer takes over"
        return False, f"a producer died {(now - died) / 1e9:.0f} s ago, and its replacement has not reported"
    if not status:
        return True, "the producer is starting"
    if status.get("state") in ENDS:
        return True, f"the run has {status['state']}" if status["state"] != "abandoned" else "the run was abandoned"
    age = (now - (status.get("now_ns") or now)) / 1e9
    if age < silent_after(report):
        return True, "the producer reports"
    return False, f"the producer has not reported for {age:.0f} s (status.json is from {status.get('time')})"


def ready(document, now):
    """(whether the run works and a consumer takes slabs, why)."""
    well, why = alive(document, now)
    status = document.get("status") or {}
    if not well:
        return False, why
    if document.get("ending"):
        return False, "the run is being stopped"
    if document.get("finishing") or status.get("state") != "running":
        return False, f"the run is {status.get('state') or 'starting'}"
    if not any(
        consumer.get("ready") and not consumer.get("stalled") and not consumer.get("end")
        for consumer in status.get("consumers") or []
    ):
        return False, "no consumer takes slabs"
    return True, "the run and its consumers take work"
