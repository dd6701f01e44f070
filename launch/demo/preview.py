"""Shows the newest mask of a run at http://127.0.0.1:8765, for an optional group of one consumer (--group)."""

import html
import http.server
import struct
import threading
import zlib

PAGE = "<meta charset=utf-8><meta http-equiv=refresh content=1><h1>%s</h1><img src=mask.png width=512>"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(grays):
    head = struct.pack(">IIBBBBB", *grays.shape[::-1], 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in grays))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class show:
    def __init__(self, port="8765"):  # --processor-option port=8765
        newest = self.newest = {"/": PAGE.encode() % b"waiting for a mask"}

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path in newest else 404)
                self.end_headers()
                self.wfile.write(newest.get(self.path, b""))

            def log_message(self, *_): ...  # a page asks each second

        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def __call__(self, slab):
        for sample, scores in list(slab)[-1:]:  # scores of background and thing; those of the last sample
            self.newest["/mask.png"] = png(scores.argmax(0).astype("uint8") * 255)
            self.newest["/"] = (PAGE % html.escape(sample.key)).encode()
