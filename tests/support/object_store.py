"""An S3 server (moto) behind a front that counts, holds and refuses requests."""

import logging
import threading

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

WATCHDOG_SECONDS = 120


class Front:
    """
    Owns: a server, in a thread, with one bucket, `bucket`. Use as a context. `refuse`: a function of (method, key) that
    returns a status such as "503 Slow Down", or None. `hold`: a function of (method, key); a held request waits for
    release().
    """

    scheme = condition = ""  # of URLs; the request header that makes a PUT conditional, as in a WSGI environment
    refusal = b"<Error><Code>Refused</Code><Message>by the test</Message></Error>"

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._lock = threading.Lock()
        self._held, self._released = threading.Event(), threading.Event()
        self.stored = []  # keys of successful PUTs, in order
        self.refuse = self.hold = lambda method, key: None
        self.ignores_conditions = False
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def objects(self, prefix, own=False):
        """{name: bytes} below the prefix. `own`: also Offramp's hidden objects."""
        names = {key[len(prefix) + 1 :]: data for key, data in self._all() if key.startswith(f"{prefix}/")}
        return {name: data for name, data in names.items() if own or not name.startswith(".offramp-")}

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
            return [self.refusal]
        if self.ignores_conditions:
            request.pop(self.condition, None)

        with self._lock:  # a store checks a condition and stores in one step
            status, headers, body = self._answer(request)
            if method == "PUT" and status.startswith("20"):
                self.stored.append(key)
        start(status, headers)
        return body


class ObjectStore(Front):
    """S3 by moto. Empties the bucket at its end."""

    scheme, condition = "s3", "HTTP_IF_NONE_MATCH"

    def __init__(self):
        super().__init__()
        self._application = DomainDispatcherApplication(create_backend_app)
        self._bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self.environment = {
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def __enter__(self):
        self._bucket.create_bucket("bucket", "us-east-1")
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._bucket.reset()

    def put(self, key, value):
        """Stores another program's object."""
        self._bucket.put_object("bucket", key, value)

    def remove(self, key):
        self._bucket.delete_object("bucket", key)

    def _all(self):
        return [(key, kept.value) for key, kept in self._bucket.buckets["bucket"].keys.items()]

    def _answer(self, request):
        answered = []
        body = list(self._application(request, lambda *given: answered.append(given)))
        return *answered[-1][:2], body
