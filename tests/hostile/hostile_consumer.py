"""
A hostile consumer: a separate process that attacks a run over its real sockets.

    hostile_consumer.py RUN_DIR NAME [--rounds N] [--seed N] [--rate MESSAGES_A_SECOND]

NAME is one of: guest, bytes, messages, member, flood. Prints "done" after N rounds, then keeps its slabs and waits to
be killed. flood continues until it is killed or the run ends, and prints the number of messages sent.
"""

import argparse
import pathlib
import random
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.hostile import wire  # noqa: E402
from tests.hostile.zmtp import COMMAND, GREETING, LONG, MORE, Connection, frame, ready  # noqa: E402

OTHERS = range(1, 12)
ADMISSION_BITS = 24  # of a session number; the bits above belong to the run
SLABS = range(0, 8)
MOST_BEHIND = 0.1  # seconds


class Hostile:
    def __init__(self, run_dir, seed):
        self.run_dir, self.random = pathlib.Path(run_dir), random.Random(seed)
        self.work, self.free_list = wire.sockets_of(run_dir)
        self.nonce = wire.nonce_of(run_dir)
        self.will_do = wire.work_of(run_dir)

    def bytes(self, rounds):
        """Opens connections that do not speak ZeroMQ, or that stop in the middle of its handshake."""
        for _ in range(rounds):
            for path in (self.work, self.free_list):
                noise = self.random.randbytes(self.random.randrange(1, 400))
                beginning = self.random.choice(
                    (
                        b"",
                        GREETING[: self.random.randrange(1, 64)],
                        GREETING,
                        GREETING + ready(b"DEALER"),
                        GREETING + ready(b"PUB"),
                        GREETING + frame(b"\x05ERROR\xff" + noise, COMMAND),
                    )
                )
                with Connection(path, None) as connection:
                    try:
                        connection.raw(beginning + noise)
                        connection.raw(
                            bytes([self.random.randrange(256) | LONG])
                            + struct.pack(">Q", self.random.getrandbits(64))
                            + noise
                        )
                    except OSError:
                        pass  # the run closed the connection in mid-message

    def messages(self, rounds):
        """
        Sends messages that are invalid, cut, too long, of other versions, of several frames, or from unknown senders.
        """
        run, record = self.nonce, (wire.ticket(0, 1, 1), wire.COMPLETED)
        good = [
            wire.hello(run, self.will_do),
            wire.releases(run, 1, 1, record),
            wire.credit(run, 1, 4),
            wire.disconnect(run, 1),
            wire.answer(run, 7),
        ]
        other = run ^ 1
        bad = [
            b"",
            b"\0",
            self.random.randbytes(100),
            wire.message(run, wire.HELLO, magic=1),
            wire.message(run, 99),
            wire.message(run, wire.CREDIT, count=300),
            wire.message(run, wire.RELEASES, bytes(16), count=256),
            wire.message(run, wire.DISCONNECT, bytes(8), length=0xFFFFFFFF),
            wire.message(run, wire.TICKETS, bytes(16)),
            wire.hello(run, self.will_do ^ 1),
            wire.hello(run, self.will_do, holding=9),
            wire.message(run, wire.HELLO, bytes(48), version=wire.VERSION + 1),
            wire.hello(other, self.will_do),
            wire.releases(other, 1, 1, record),
            wire.credit(other, 1, 4),
            wire.disconnect(other, 1),
            wire.answer(other, 7),
        ]
        for _ in range(rounds):
            for path, kind in ((self.work, b"DEALER"), (self.free_list, b"PUSH")):
                with Connection(path, kind) as connection:
                    for body in bad + good[1:]:
                        connection.send(body)
                    for body in good:
                        connection.send(body[: self.random.randrange(len(body))])
                        flipped = bytearray(body)
                        flipped[self.random.randrange(len(flipped))] ^= 1 << self.random.randrange(8)
                        if path == self.free_list or flipped[6:8] != bytes(body[6:8]):
                            connection.send(bytes(flipped))
                        connection.send(body, body)
                with Connection(path, kind) as connection:
                    try:
                        connection.raw(frame(bytes(wire.MOST_BYTES + 1)))  # the socket drops it, with the connection
                        connection.raw(frame(bytes(wire.MOST_BYTES + 1), MORE))
                    except OSError:
                        pass

    def join(self, work, window=1):
        work.send(wire.hello(self.nonce, self.will_do, window))
        while True:
            kind, body = wire.parse(work.receive())
            if kind == wire.CHALLENGE:
                work.send(wire.answer(self.nonce, struct.unpack("<Q", body)[0]))
            elif kind == wire.WELCOME:
                return struct.unpack_from("<Q", body)[0]
            elif kind == wire.REFUSED:
                why = body[8:].split(bytes(1))[0].decode()
                raise ConnectionError(why) if why == wire.ENDED else SystemExit(f"refused: {why}")

    def guest(self, _rounds):
        """Joins as a valid consumer that requests no slab, in whose name others may send messages."""
        self._keep = Connection(self.work, b"DEALER")
        self.join(self._keep, window=0)

    def member(self, rounds):
        """
        Joins as a valid consumer that sends false releases of its slabs and others. It returns its slabs, and keeps the
        last ones.
        """
        work = Connection(self.work, b"DEALER")
        free_list = Connection(self.free_list, b"PUSH")
        session, sequence = self.join(work), 0
        others = [
            other
            for other in ((session >> ADMISSION_BITS << ADMISSION_BITS) | admission for admission in OTHERS)
            if other != session
        ]
        for _ in range(rounds):
            kind, body = 0, b""
            while kind != wire.TICKETS:
                kind, body = wire.parse(work.receive())
            epoch, slab, generation, attempt = wire.tickets_of(body)[0]
            false_releases = [
                (wire.ticket(slab, generation, attempt + 1), wire.COMPLETED),
                (wire.ticket(slab, generation, 0), wire.RETURNED),
                (wire.ticket(slab, generation + 1, attempt), wire.COMPLETED),
                (wire.ticket(slab, generation - 1, attempt), wire.COMPLETED),
                (wire.ticket(slab, generation, attempt), 7),
                (wire.ticket(0xFFFFFFFF, generation, attempt), wire.COMPLETED),
            ]
            # Other consumers' slabs are easy to guess: there are few, and both numbers count from 1.
            false_releases += [
                (
                    wire.ticket(other, guess, tried, epoch=self.random.randrange(3)),
                    self.random.choice((wire.COMPLETED, wire.RETURNED)),
                )
                for other in SLABS
                if other != slab
                for guess in range(max(1, generation - 3), generation + 4)
                for tried in (1, 2, 3)
            ]
            self.random.shuffle(false_releases)
            for at in range(0, len(false_releases), 100):
                some = false_releases[at : at + 100]
                free_list.send(wire.releases(self.nonce, session, sequence + 1, *some))
                free_list.send(wire.releases(self.nonce, session, sequence + 1, *some))  # repeated
                free_list.send(wire.releases(self.nonce, session, sequence + 1000, *some))  # beyond a gap
                sequence += len(some)
                for other in others:
                    free_list.send(wire.releases(self.nonce, other, 1, *some))
                    free_list.send(wire.releases(self.nonce, other, sequence, *some))
            for other in others:
                work.send(wire.credit(self.nonce, other, 200))
                work.send(wire.disconnect(self.nonce, other))
            free_list.send(
                wire.releases(
                    self.nonce, session, sequence + 1, (wire.ticket(slab, generation, attempt, epoch), wire.RETURNED)
                )
            )
            sequence += 1
        self._keep = (work, free_list)

    def flood(self, rate):
        """
        Sends `rate` valid messages per second, half on each channel, without effect: a repeated release and a repeated
        credit.
        """
        work, free_list = Connection(self.work, b"DEALER"), Connection(self.free_list, b"PUSH")
        session = self.join(work, window=0)
        free_list.send(wire.releases(self.nonce, session, 1, (wire.ticket(0, 1, 1), wire.COMPLETED)))
        a_step = max(1, rate // 2 // 500)  # 500 steps per second
        kinds = (
            (work, frame(wire.credit(self.nonce, session, 0)) * a_step),
            (free_list, frame(wire.releases(self.nonce, session, 1, (wire.ticket(0, 1, 1), wire.COMPLETED))) * a_step),
        )
        began, sent, printed_at = time.monotonic(), 0, 0.0
        print("flooding", flush=True)
        while True:
            for connection, data in kinds:
                connection.raw(data)
                sent += a_step
            ahead = sent / rate - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -MOST_BEHIND:
                began -= ahead  # after a stop or a block, skip the missed messages
            if time.monotonic() > printed_at:
                printed_at = time.monotonic() + 0.1
                print(f"{sent} sent", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir")
    parser.add_argument("name", choices=("guest", "bytes", "messages", "member", "flood"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=100_000)
    options = parser.parse_args()
    try:
        hostile = Hostile(options.run_dir, options.seed)
        if options.name == "flood":
            hostile.flood(options.rate)
        getattr(hostile, options.name)(options.rounds)
        print("done", flush=True)
        signal.pause()
    except (ConnectionError, FileNotFoundError):
        print("the run has ended", flush=True)


if __name__ == "__main__":
    main()
