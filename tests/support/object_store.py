"""An S3 server (moto) behind a front that counts, holds and refuses requests."""

import logging
import threading

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

WATCHDOG_SECONDS = 120


class ObjectStore:
    """
    Owns: the server, in a thread, and its bucket `bucket`, which it empties at its end. Use as a context. `refuse`: a
    function of (method, key) that returns a status such as "503 Slow Down", or None. `hold`: a function of (method,
    key); a held request waits for release().
    """

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._lock = threading.Lock()
        self._held, self._released = threading.Event(), threading.Event()
        self._bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self.stored = []  # keys of successful PUTs, in order
        self.refuse = self.hold = lambda method, key: None
        self.ignores_conditions = False
        self.environment = {
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
        }

    def __enter__(self):
        self._bucket.create_bucket("bucket", "us-east-1")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._bucket.reset()

    def objects(self, prefix, own=False):
        """{name: bytes} below the prefix. `own`: also Offramp's hidden objects."""
        keys = self._bucket.buckets["bucket"].keys
        names = {key[len(prefix) + 1 :]: keys[key].value for key in keys if key.startswith(f"{prefix}/")}
        return {name: value for name, value in names.items() if own or not name.startswith(".offramp-")}

    def put(self, key, value):
        """Stores another program's object."""
        self._bucket.put_object("bucket", key, value)

    def remove(self, key):
        self._bucket.delete_object("bucket", key)

    def wait_for_held(self):
        if not self._held.wait(WATCHDOG_SECONDS):
            raise AssertionError("no request came that is held")

    def release(self):
        """Lets held requests go on, and holds no more."""
        self.hold = lambda method, key: None
        self._released.set()
        self._held, self._released = threading.Event(), threading.Event()

    def _serve(self, request, start):
        method, key = request["REQUEST_METHOD"], request["PATH_INFO"].removeprefix("/bucket/")
        if self.hold(method, key):
            released = self._released
            self._held.set()
            released.wait(WATCHDOG_SECONDS)
        if status := self.refuse(method, key):
            request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
            start(status, [("Content-Type", "text/xml"), ("Connection", "close")])
            return [b"<Error><Code>Refused</Code><Message>by the test</Message></Error>"]
        if self.ignores_conditions:
            request.pop("HTTP_IF_NONE_MATCH", None)

        answered = []
        with self._lock:  # moto checks a condition and stores in two steps
            body = list(self._application(request, lambda *given: answered.append(given)))
            status, headers = answered[-1][:2]
            if method == "PUT" and status.startswith("200"):
                self.stored.append(key)
        start(status, headers)
        return body
