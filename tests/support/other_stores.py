"""
Google Cloud Storage and Azure Blob Storage, as far as obstore asks for them, in memory. Our own servers, written after
the documents of the XML API (cloud.google.com/storage/docs/xml-api) and of the Blob service
(learn.microsoft.com/rest/api/storageservices): no emulator on PyPI has Google's conditional PUT or Azure's protocol.
"""

import base64
import email.utils
import hashlib
import json
import re
import time
import typing
import urllib.parse
from xml.sax.saxutils import escape

from werkzeug.serving import WSGIRequestHandler

from tests.support.object_store import Front


class Kept(typing.NamedTuple):
    data: bytes
    headers: dict  # its type, and metadata as it came
    number: int  # of all that was stored


class WithHeaders(WSGIRequestHandler):
    """Names of metadata as they came: a WSGI environment makes '_' of '-'."""

    def make_environ(self):
        return {**super().make_environ(), "headers": dict(self.headers.items())}


class InMemory(Front):
    metadata = kind = ""  # headers of a PUT: the beginning of metadata's names, and the type

    def __init__(self):
        super().__init__()
        self._server.RequestHandlerClass = WithHeaders
        self._kept, self._parts, self._number = {}, {}, 0

    def put(self, key, value):
        """Stores another program's object."""
        self._keep(key, value, {})

    def remove(self, key):
        del self._kept[key]

    def _all(self):
        return [(key, kept.data) for key, kept in self._kept.items()]

    def _keep(self, key, data, headers):
        given = {name.lower(): value for name, value in headers.items()}
        kept = {name: value for name, value in given.items() if name.startswith(self.metadata)}
        self._number += 1
        kept["Content-Type"] = given.get(self.kind, "application/octet-stream")
        self._kept[key] = Kept(data, kept, self._number)
        return self._kept[key]

    def _answer(self, request):
        query = dict(urllib.parse.parse_qsl(request["QUERY_STRING"], keep_blank_values=True))
        bucket, _, key = request["PATH_INFO"].encode("latin1").decode().lstrip("/").partition("/")
        body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        method = request["REQUEST_METHOD"]
        if bucket != "bucket":
            status, headers, body = self._no_bucket()
        elif method in ("GET", "HEAD") and key:
            status, headers, body = self._get(self._kept.get(key))
        else:
            status, headers, body = self._change(method, key, query, body, request)
        headers = {"Content-Type": "application/xml", "Content-Length": str(len(body)), **headers}
        return status, list(headers.items()), [] if method == "HEAD" else [body]

    def _get(self, there):
        if there is None:
            return self._no_object()
        modified = {"Last-Modified": email.utils.formatdate(time.time(), usegmt=True)}
        return "200 OK", {**there.headers, **modified, **self._version(there)}, there.data

    def _named(self, query, size):
        """The objects of one page, and where the next begins; empty if none does."""
        names = sorted(key for key in self._kept if key.startswith(query.get("prefix", "")))
        most, page = int(query.get(size, 1000)), [name for name in names if name >= self._page_of(query)]
        return [(name, self._kept[name]) for name in page[:most]], (page[most:] or [""])[0]


class GoogleStore(InMemory):
    scheme, condition = "gs", "HTTP_X_GOOG_IF_GENERATION_MATCH"
    metadata, kind = "x-goog-meta-", "content-type"

    def __init__(self):
        super().__init__()
        account = {"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": True}
        self.environment = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, "gcs_base_url": self.endpoint})}

    def _change(self, method, key, query, body, request):
        there, upload = self._kept.get(key), query.get("uploadId")
        wanted = request.get(self.condition)
        if method == "PUT" and upload:
            self._parts[upload][1][int(query["partNumber"])] = body
            return "200 OK", {"ETag": query["partNumber"]}, b""
        if method == "POST" and "uploads" in query:
            upload = str(len(self._parts))
            self._parts[upload] = (request["headers"], {})
            return "200 OK", {}, _xml("InitiateMultipartUploadResult", UploadId=upload)
        if method == "POST" and upload:
            headers, parts = self._parts.pop(upload)
            kept = self._keep(key, b"".join(parts[number] for number in sorted(parts)), headers)
            tag = self._version(kept)["ETag"]
            return "200 OK", self._version(kept), _xml("CompleteMultipartUploadResult", ETag=tag)
        if method == "PUT" and wanted is not None and int(wanted) != (there.number if there else 0):
            return self._error(
                "412 Precondition Failed",
                "PreconditionFailed",
                "At least one of the pre-conditions you specified did not hold.",
            )
        if method == "PUT":
            return "200 OK", self._version(self._keep(key, body, request["headers"])), b""
        if method == "GET":
            return "200 OK", {}, self._listed(query)
        if there is None:
            return self._no_object()
        del self._kept[key]
        return "204 No Content", {}, b""

    def _version(self, kept):
        tag = hashlib.md5(kept.data, usedforsecurity=False).hexdigest()
        return {"ETag": f'"{tag}"', "x-goog-generation": str(kept.number)}

    @staticmethod
    def _page_of(query):
        return query.get("continuation-token", "")

    def _listed(self, query):
        page, following = self._named(query, "max-keys")
        found = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(kept.data)}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name, kept in page
        )
        token = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>" if following else ""
        return f"<ListBucketResult>{found}{token}</ListBucketResult>".encode()

    def _no_bucket(self):
        return self._error("404 Not Found", "NoSuchBucket", "The specified bucket does not exist.")

    def _no_object(self):
        return self._error("404 Not Found", "NoSuchKey", "The specified key does not exist.")

    @staticmethod
    def _error(status, code, message):
        return status, {}, b"<?xml version='1.0' encoding='UTF-8'?>" + _xml("Error", Code=code, Message=message)


class AzureStore(InMemory):
    scheme, condition = "az", "HTTP_IF_NONE_MATCH"
    metadata, kind = "x-ms-meta-", "x-ms-blob-content-type"

    def __init__(self):
        super().__init__()
        self.refusal = self._error("", "Refused", "by the test")[2]
        self.environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"nothing").decode(),
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    def _change(self, method, key, query, body, request):
        there, what = self._kept.get(key), query.get("comp")
        if method == "GET":
            return "200 OK", {}, self._listed(query)
        if what == "batch":
            return self._removed(body)
        if what == "block":
            self._parts[key, query["blockid"]] = body
            return "201 Created", {}, b""
        named = [name[len(self.metadata) :] for name in request["headers"] if name.lower().startswith(self.metadata)]
        if not all(name.isidentifier() for name in named):
            return self._error("400 Bad Request", "InvalidMetadata", "The metadata specified is invalid.")
        if there and request.get(self.condition) == "*":
            return self._error("409 Conflict", "BlobAlreadyExists", "The specified blob already exists.")
        wanted = request.get("HTTP_IF_MATCH")
        if wanted and (not there or wanted != self._version(there)["ETag"]):
            text = "The condition specified using HTTP conditional header(s) is not met."
            return self._error("412 Precondition Failed", "ConditionNotMet", text)
        if what == "blocklist":
            blocks = re.findall(r"<(?:Uncommitted|Latest)>([^<]*)<", body.decode())
            body = b"".join(self._parts.pop((key, block)) for block in blocks)
        return "201 Created", self._version(self._keep(key, body, request["headers"])), b""

    def _removed(self, body):
        """A batch of removals: each part is a request, and so is each part of the answer."""
        text, parts = body.decode(), ""
        numbers, names = re.findall(r"Content-ID: (\d+)", text), re.findall(r"DELETE /bucket/(\S+) ", text)
        for number, name in zip(numbers, names, strict=True):
            status = "202 Accepted" if self._kept.pop(urllib.parse.unquote(name), None) else "404 Not Found"
            parts += (
                f"--it\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n\r\n"
            )
        return "202 Accepted", {"Content-Type": "multipart/mixed; boundary=it"}, f"{parts}--it--\r\n".encode()

    def _version(self, kept):
        """A tag that is not of the bytes, as Azure's."""
        return {"ETag": f'"0x8D{kept.number:013X}"'}

    @staticmethod
    def _page_of(query):
        return query.get("marker", "")

    def _listed(self, query):
        page, following = self._named(query, "maxresults")
        found = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
            f"<Content-Length>{len(kept.data)}</Content-Length><Content-Type>{kept.headers['Content-Type']}</Content-Type>"
            f"<Etag>{self._version(kept)['ETag']}</Etag></Properties></Blob>"
            for name, kept in page
        )
        more = f"<NextMarker>{escape(following)}</NextMarker>"
        return f"<EnumerationResults><Blobs>{found}</Blobs>{more}</EnumerationResults>".encode()

    def _no_bucket(self):
        return self._error("404 Not Found", "ContainerNotFound", "The specified container does not exist.")

    def _no_object(self):
        return self._error("404 Not Found", "BlobNotFound", "The specified blob does not exist.")

    @staticmethod
    def _error(status, code, message):
        """Azure's documents begin with a byte order mark, and its messages have three lines."""
        text = f"{message}\nRequestId:00000000-0000-0000-0000-000000000000\nTime:2026-01-01T00:00:00.0000000Z"
        declared = '\ufeff<?xml version="1.0" encoding="utf-8"?>'.encode()
        return status, {"x-ms-error-code": code}, declared + _xml("Error", Code=code, Message=text)


def _xml(name, **values):
    return f"<{name}>{''.join(f'<{key}>{escape(value)}</{key}>' for key, value in values.items())}</{name}>".encode()
