"""The project's messages (common/wire/messages.hpp), encoded by hand, so that they can be wrong."""

import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAGIC = 0x4D46464F
VERSION = int(re.search(r"kMessageVersion = (\d+)", (ROOT / "common/wire/messages.hpp").read_text())[1])
MOST_BYTES = 16 * 1024
HELLO, CHALLENGE, ANSWER, WELCOME, REFUSED, CREDIT, TICKETS, RELEASES, RELEASE_ACK, DRAIN, DISCONNECT = range(1, 12)
COMPLETED, RETURNED = 1, 2
ENDED = "the run has ended"  # text of a refusal
FREE_TEXT = b"\0" * 16


HEADER_BYTES = 24


def message(run, kind, body=b"", records=(), version=VERSION, magic=MAGIC, count=None, length=None):
    data = body + b"".join(records)
    header = struct.pack(
        "<IHHIIQ",
        magic,
        version,
        kind,
        HEADER_BYTES + len(data) if length is None else length,
        len(records) if count is None else count,
        run,
    )
    return header + data


def hello(run, work, window=1, holding=0, token=0):
    return message(run, HELLO, struct.pack("<QQQQII", token, 0, 0, work, holding, window) + FREE_TEXT)


def answer(run, secret):
    return message(run, ANSWER, struct.pack("<Q", secret))


def credit(run, session, window):
    return message(run, CREDIT, struct.pack("<QII", session, window, 0))


def disconnect(run, session):
    return message(run, DISCONNECT, struct.pack("<Q", session))


def ticket(slab, generation, attempt, epoch=1):
    return struct.pack("<IIQII", epoch, slab, generation, attempt, 0)


def releases(run, session, first_sequence, *records, **wrongly):
    """`records`: (ticket, kind)."""
    return message(
        run,
        RELEASES,
        struct.pack("<QQ", session, first_sequence),
        [which + struct.pack("<II", kind, 0) for which, kind in records],
        **wrongly,
    )


def parse(data):
    """(kind, body with records)"""
    return struct.unpack_from("<H", data, 6)[0], data[HEADER_BYTES:]


def tickets_of(body):
    """[(epoch, slab, generation, attempt)] of a Tickets message."""
    return [struct.unpack_from("<IIQI", body, at) for at in range(16, len(body), 24)]


def work_of(run_dir):
    """The work that the run's consumers announce in their first message."""
    return int(
        re.search(r"# consumers' work ([0-9a-f]{16})", (pathlib.Path(run_dir) / "live/settings.toml").read_text())[1],
        16,
    )


def sockets_of(run_dir):
    """The work channel's path, and the free-list channel's."""
    epoch = int(re.search(r"epoch=(\d+)", (pathlib.Path(run_dir) / "live/endpoint").read_text())[1])
    name = f"{nonce_of(run_dir) + epoch & 0xFFFFFFFF:08x}"
    return [pathlib.Path(run_dir) / f"live/{channel}-{name}.sock" for channel in ("work", "free")]


def nonce_of(run_dir):
    return int(re.search(r"nonce=([0-9a-f]{16})", (pathlib.Path(run_dir) / "live/endpoint").read_text())[1], 16)
