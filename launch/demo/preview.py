"""Shows the newest mask of a run at http://127.0.0.1:8765, for an optional group of one consumer (--group)."""

import html
import http.server
import struct
import threading
import zlib

PAGE = "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=1><h1>%s</h1><img src=mask.png width=512>"


def png(grays):
    head = struct.pack(">IIBBBBB", *grays.shape[::-1], 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in grays))
    picture = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b"")):
        picture += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return picture


class Newest(http.server.BaseHTTPRequestHandler):
    answers = {"/": PAGE.encode() % b"waiting for a mask"}
    log_message = lambda *_: None  # a page asks each second

    def do_GET(self):
        self.send_response(200 if self.path in self.answers else 404)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "image/png")
        self.end_headers()
        self.wfile.write(self.answers.get(self.path, b""))


class Server(http.server.ThreadingHTTPServer):
    allow_reuse_port = True  # a reload starts the next consumer before this one ends (Python 3.11)


class show:
    def __init__(self, port="8765"):
        server = Server(("127.0.0.1", int(port)), Newest)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def __call__(self, slab):
        for sample, scores in list(slab)[-1:]:  # scores of background and thing, of the last sample
            Newest.answers["/mask.png"] = png(scores.argmax(0).astype("uint8") * 255)
            Newest.answers["/"] = (PAGE % html.escape(sample.key)).encode()
