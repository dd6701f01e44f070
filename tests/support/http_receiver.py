"""
An HTTP server that receives posted results and misbehaves on request. As a program it prints its port, stores bodies as
files in the folder of the URL's path, and ends with its standard input.
"""

import hashlib
import http.server
import pathlib
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

# Outcomes of a request other than an answer.
FAULTS = ("500", "503 later", "429 later", "408", "dropped", "cut", "answer lost", "hang")
# Answers that arrive byte by byte and never end while the receiver lives.
DRIPPING = ("drip", "drip headers")


def make_certificate(folder):
    """(certificate, key): files in `folder` of a self-signed server at 127.0.0.1."""
    certificate, key = f"{folder}/certificate.pem", f"{folder}/key.pem"
    subprocess.run(
        [
            *"openssl req -x509 -newkey rsa:2048 -nodes -out".split(),
            certificate,
            "-keyout",
            key,
            *"-days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1".split(),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return certificate, key


class Receiver:
    """
    Counts results that arrive at `url`. Use as a context. `fault(number, headers)` decides about a request: ""
    (accepted), one of FAULTS, or the status of its answer. With listening=False connections are refused until listen().
    `identity`, the files of a certificate and its key, enables TLS.
    """

    def __init__(self, fault=lambda number, headers: "", listening=True, identity=None):
        self.fault = fault
        self.requests = 0
        self.seen = {}  # arrival times by idempotency key, in monotonic seconds
        self.arrived = {}  # accepted bodies by idempotency key
        self.headers = {}  # of the last request per key
        self.lock = threading.Lock()
        self.over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self), bind_and_activate=False)
        self._server.server_bind()
        if identity:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*identity)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = (
            f"{'https' if identity else 'http'}://127.0.0.1:{self._server.server_address[1]}/in?token=of-the-query"
        )
        self._thread = None
        if listening:
            self.listen()

    def listen(self):
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.over.set()
        if self._thread:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def take(self, headers, body):
        with self.lock:
            key = headers["Idempotency-Key"]
            self.arrived.setdefault(key, []).append(body)
            self.headers[key] = dict(headers)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True  # idle connections do not delay the end

    def handle_error(self, request, client_address):
        """Clients that are killed leave broken pipes."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler_of(receiver):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept
        disable_nagle_algorithm = True

        def do_POST(self):
            with receiver.lock:
                number = receiver.requests
                receiver.requests += 1
                receiver.seen.setdefault(self.headers["Idempotency-Key"], []).append(time.monotonic())
            fault = receiver.fault(number, self.headers)
            length = int(self.headers["Content-Length"])
            if fault == "dropped":
                self.rfile.read(min(length, 10))
                return self.hang_up()
            body = self.rfile.read(length)
            if len(body) < length:
                return self.hang_up()
            if fault == "hang":
                receiver.over.wait()
                return self.hang_up()
            if fault in DRIPPING:
                return self.drip(fault, body)
            if fault in ("", "cut", "answer lost"):
                receiver.take(self.headers, body)
            if fault == "answer lost":
                return self.hang_up()
            if fault == "cut":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf an ans")
                return self.hang_up()
            status = int(fault.split()[0]) if fault else 200
            text = f"answer {status} to {self.headers.get('Authorization', 'nobody')}".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            if fault.endswith("later"):
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(text)

        def drip(self, fault, body):
            if fault == "drip":
                receiver.take(self.headers, body)
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n" + (b"\r\n" if fault == "drip" else b"Slow: ")
            )
            while not receiver.over.wait(0.05):
                self.wfile.write(b"x")
            self.hang_up()

        def hang_up(self):
            self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler


def _keeping_files():
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if len(body) == int(self.headers["Content-Length"]):
                self.answer(self.keep(body))

        def keep(self, body):
            folder = pathlib.Path(urllib.parse.unquote(self.path))
            file = folder / self.headers["Idempotency-Key"]
            with lock:  # a second request finds the complete file
                if not folder.is_dir():
                    return 410
                if file.exists() and file.read_bytes() != body:
                    file = file.with_suffix(".differs-" + hashlib.sha256(body).hexdigest()[:16])
                if not file.exists():
                    file.write_bytes(body)
            return 200

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _keeping_files()
