"""
An object store's prefix, opened by the package obstore. Each object that a run stores has the name of the run's work in
its metadata, so that a second delivery of a slab recognizes the first one's objects.
"""

import contextlib
import datetime
import hashlib
import importlib
import mimetypes
import os
import random
import re
import time
from typing import NamedTuple

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
URL = re.compile(rf"(?:{'|'.join(SCHEMES)})://", re.IGNORECASE)
WORK = "offrampwork"  # in an object's metadata; Azure accepts no '-' there
PATIENCE_SECONDS = 20  # as --http-patience-seconds
LONGEST_WAIT_SECONDS = 5
CONNECT_SECONDS, REQUEST_SECONDS = 5, 30
SMALL = 1 << 20  # bytes. A request for more gets more time
SLOWEST = 256 << 10  # bytes per second of one request, of which a consumer has 8 at a time
LARGE = 1 << 30  # bytes. Larger files are stored in parts; S3 takes at most 5 GiB as a whole
PART, PARTS_AT_A_TIME = 64 << 20, 4
NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound")
STATUS = re.compile(r"status code: (\d{3})")
MAY_PASS = frozenset({408, 425, 429})  # and 5xx
NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")  # asked last, for credentials
OF_CREDENTIALS = re.compile(r"performing token request|: (Expired|Invalid)Token\b")  # refused with 400, too


class Vendor(NamedTuple):
    """What messages name."""

    place: str
    bucket: str
    server: str
    credentials: str


S3 = Vendor(
    "s3://BUCKET/PREFIX", "bucket", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws"
)
GOOGLE = Vendor("gs://BUCKET/PREFIX", "bucket", "GOOGLE_BASE_URL", "GOOGLE_APPLICATION_CREDENTIALS")
AZURE = Vendor(
    "az://CONTAINER/PREFIX",
    "container",
    "AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
)


class Refused(Exception):
    """The store refuses every request of this kind: no permission, no such bucket."""


class Unavailable(Exception):
    """The store gives no answer, or asks for another try; several tries failed."""


class Failed(Exception):
    """The store cannot take this object; others may succeed."""


class _MayPass(Exception):
    """One try failed."""


def library():
    """obstore. Errors: LaunchError (CONFIG) without it."""
    try:
        return importlib.import_module("obstore")
    except ImportError as problem:
        raise LaunchError(
            f"results in an object store need the Python package obstore: {problem}",
            "pip install obstore, or pip install 'offramp[stores]'",
            ExitCode.CONFIG,
        ) from problem


class Store:
    """
    `url`: s3://BUCKET/PREFIX, gs://, az://. Credentials and endpoint come from the environment; boto3, if installed,
    reads ~/.aws. Thread: any. Blocks: on the network, up to `patience` seconds longer than one request takes, which is
    REQUEST_SECONDS, and more for large files. Errors: Refused, Unavailable, Failed; the constructor: LaunchError.
    """

    def __init__(self, url, patience=PATIENCE_SECONDS):
        self._library, self._patience = library(), patience
        self.url = url.rstrip("/")
        try:
            self._credentials = _credentials(url)
            self._store = self._open(REQUEST_SECONDS)
        except Exception as problem:  # obstore's, and boto3's
            raise UsageError(
                f"--output {url} cannot be opened: {reason_of(problem)}",
                f"Give {vendor_of(url).place}, and credentials: {vendor_of(url).credentials}",
            ) from problem
        self._stores = {SMALL: self._store}  # by bytes of a request: obstore has one time limit per store

    def _open(self, seconds):
        first, longest, whole = (datetime.timedelta(seconds=value) for value in (0.1, 1, 10))
        backoff = {"init_backoff": first, "max_backoff": longest, "base": 2}
        return importlib.import_module("obstore.store").from_url(
            re.sub("^az:", "azure:", self.url, flags=re.IGNORECASE),  # before 0.9.2 it ignores the prefix of az://
            client_options={"allow_http": True, "connect_timeout": f"{CONNECT_SECONDS}s", "timeout": f"{seconds}s"},
            retry_config={"max_retries": 2, "retry_timeout": whole, "backoff": backoff},
            **self._credentials,
        )

    def _store_for(self, size):
        """The store whose requests have time for `size` bytes, rounded up to a power of two."""
        most = max(SMALL, 1 << (size - 1).bit_length())
        if most not in self._stores:
            self._stores[most] = self._open(REQUEST_SECONDS + most // SLOWEST)
        return self._stores[most]

    def read(self, name):
        """An object's bytes; None without it."""
        return self._insist(lambda: bytes(self._library.get(self._store, name).bytes()), otherwise=None)

    def names(self, most):
        """The names of the first objects below the prefix."""

        def look():
            page: list = next(iter(self._library.list(self._store, chunk_size=most)), [])
            return [found["path"] for found in page[:most]]

        return self._insist(look)

    def remove(self, name):
        self._insist(lambda: self._library.delete(self._store, name), otherwise=None)

    def create(self, name, data, work):
        """False, and stores nothing, where the object exists."""
        try:
            self._insist(lambda: self._put(name, data, work, "create"))
        except _exists() as problem:
            # an earlier try may have succeeded, and its answer was lost
            if self.read(name) == data:
                return True
            if self.read(name) is None:  # two writers at a time: the store refuses one of them
                raise Unavailable(reason_of(problem)) from problem
            return False
        return True

    def store_file(self, name, path, work):
        """Stores a file. Equal bytes stay, others of this work are replaced. Errors: Failed for another work's."""
        self._insist(lambda: self._store_once(name, path, work))

    def _store_once(self, name, path, work):
        if os.path.getsize(path) > LARGE:
            self._require_own(name, self._head(name), work)
            self._library.put(
                self._store_for(PART),
                name,
                path,
                attributes=_attributes(name, work),
                use_multipart=True,
                chunk_size=PART,
                max_concurrency=PARTS_AT_A_TIME,
            )
            return
        try:
            self._put(name, path, work, "create")
            return
        except _exists():
            there = self._head(name)
        if there is None:
            raise _MayPass(f"'{name}' is stored and removed by others at the same time")
        self._require_own(name, there, work)
        if self._has_bytes_of(path, name, there):
            return
        version = {key: there.meta[key] for key in ("e_tag", "version") if there.meta[key] is not None}
        try:
            self._put(name, path, work, version)
        except (self._library.exceptions.PreconditionError, _exists()) as problem:
            raise _MayPass(reason_of(problem)) from problem

    def _put(self, name, data, work, mode):
        size = len(data) if isinstance(data, bytes) else os.path.getsize(data)
        return self._library.put(
            self._store_for(size), name, data, attributes=_attributes(name, work), mode=mode, use_multipart=False
        )

    def _head(self, name):
        try:
            return self._library.get(self._store, name, options={"head": True})
        except FileNotFoundError:
            return None

    def _has_bytes_of(self, path, name, there):
        """By the tag if it is an MD5, as on S3 and Google, else by the bytes."""
        with open(path, "rb") as file:
            digest = _md5(iter(lambda: file.read(1 << 20), b""))
        if (there.meta["e_tag"] or "").strip('"') == digest:
            return True
        size = os.path.getsize(path)
        with contextlib.suppress(FileNotFoundError):  # removed since
            return there.meta["size"] == size and digest == _md5(self._library.get(self._store_for(size), name))
        return False

    def _require_own(self, name, there, work):
        if there is not None and there.attributes.get(WORK) != work:
            raise Failed(f"{self.url}/{name} exists and is not of this work. It stays unchanged")

    def _insist(self, call, **otherwise):
        """Repeats a call that may succeed later. `otherwise`: the result if the object does not exist."""
        until, wait = time.monotonic() + self._patience, 0.1
        while True:
            try:
                return call()
            except _exists():
                raise
            except FileNotFoundError as problem:
                if "otherwise" in otherwise and not NO_BUCKET.search(str(problem)):
                    return otherwise["otherwise"]
                raise Refused(reason_of(problem)) from problem
            except self._library.exceptions.BaseError as problem:
                why = self._sorted(problem)
            except ValueError as problem:  # a name that obstore accepts for no object, such as one with a tab
                why = Failed(reason_of(problem))
            except _MayPass as problem:
                why = problem
            if not isinstance(why, _MayPass):
                raise why
            if time.monotonic() + wait > until:
                raise Unavailable(str(why))
            time.sleep(wait * random.uniform(0.5, 1))
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    def _sorted(self, problem):
        kinds = self._library.exceptions
        text = reason_of(problem)
        if any(host in text for host in NO_CREDENTIALS):
            return Refused(f"no credentials: {text}")
        if isinstance(problem, (kinds.PermissionDeniedError, kinds.UnauthenticatedError)):
            return Refused(text)
        status = int(found[1]) if (found := STATUS.search(text)) else 0
        if 400 <= status < 500 and status not in MAY_PASS and OF_CREDENTIALS.search(text):
            return Refused(text)
        if isinstance(problem, kinds.NotSupportedError) or status == 501:
            return Refused(text)
        if isinstance(problem, kinds.GenericError) and (not status or status >= 500 or status in MAY_PASS):
            return _MayPass(text)
        return Failed(text)


def flaw_of(url):
    """
    Why obstore would store elsewhere than the URL says, or why others would see credentials; empty for a proper URL.
    The text does not repeat the URL, which may contain a secret.
    """
    scheme, _, rest = url.partition("://")
    bucket = rest.partition("/")[0]
    if ":" in bucket or "@" in bucket and not scheme.lower().startswith("abfs"):  # Azure: abfs://CONTAINER@ACCOUNT
        return "user info or a port"
    if found := re.search(r"[?#%\x00-\x1f\x7f]|\s$", rest):
        return f"the character {found[0]!r}"
    return "a part '.' or '..'" if {".", ".."} & set(rest.split("/")) else ""


def vendor_of(url):
    return {"s": S3, "g": GOOGLE, "a": AZURE}[url[0].lower()]


def _exists():
    return library().exceptions.AlreadyExistsError


def _attributes(name, work):
    return {WORK: work, "Content-Type": mimetypes.guess_type(name)[0] or "application/octet-stream"}


def _credentials(url):
    """boto3's, where the environment has none: it reads ~/.aws and SSO sessions."""
    if not url.lower().startswith(("s3://", "s3a://")) or os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    with contextlib.suppress(Exception):  # boto3 is missing or finds nothing: obstore asks the machine's metadata
        from obstore.auth.boto3 import Boto3CredentialProvider

        return {"credential_provider": Boto3CredentialProvider()}
    return {}


def _md5(pieces):
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def reason_of(problem):
    """An error of obstore without its measurements and documents."""
    text = str(problem)
    first = re.sub(r" in [\d.]+\S*s\b(, after \d+ retries)?(, max_retries: \d+, retry_timeout: \S+)?", r"\1", text)
    first = re.split(r"\n|: (?=\ufeff?<)", first, maxsplit=1)[0].strip() or type(problem).__name__  # Azure's has a mark
    found = [each[1] for name in ("Code", "Message") if (each := re.search(rf"<{name}>([^<\n]*)", text))]
    return ": ".join([first, *found])
