"""A gate in front of a run's slabs, so that the test and not the machine's speed sets the run's progress."""

import os
import pathlib
import select
import signal

WATCHDOG_SECONDS = 120


class Gate:
    """
    Faulty consumers with `environment` wait here in the middle of each slab. Use as a context; its end releases
    nothing.
    """

    def __init__(self, folder):
        entered, gate = pathlib.Path(folder, "entered"), pathlib.Path(folder, "gate")
        for fifo in (entered, gate):
            if not fifo.exists():
                os.mkfifo(fifo)
        # For reading and writing, so that opening does not block.
        self._entered = os.fdopen(os.open(entered, os.O_RDWR), "rb", buffering=0)
        self._gate = os.fdopen(os.open(gate, os.O_RDWR), "wb", buffering=0)
        self.environment = {"OFFRAMP_TEST_ENTERED": str(entered), "OFFRAMP_TEST_GATE": str(gate)}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._entered.close()
        self._gate.close()

    def entered(self):
        """
        Waits until a consumer begins a slab; returns its process and the slab's first item. Fails at the watchdog's
        timeout.
        """
        if not select.select([self._entered], [], [], WATCHDOG_SECONDS)[0]:
            raise AssertionError(f"no consumer began a slab in {WATCHDOG_SECONDS} s")
        pid, item = self._entered.readline().split()  # written atomically
        return int(pid), int(item)

    def entered_by(self, consumers):
        """Waits until `consumers` consumers have begun a slab, so that none of them connects after the end."""
        seen = set()
        while len(seen) < consumers:
            seen.add(self.entered()[0])

    def let(self, slabs):
        self._gate.write(b"g" * slabs)

    def open(self):
        """Lets every slab pass from now on."""
        self._gate.write(b"o")

    @staticmethod
    def kill(pid):
        """
        Kills a waiting consumer and waits for its death: until then it could consume a release that is meant for
        others.
        """
        pidfd = os.pidfd_open(pid)
        try:
            os.kill(pid, signal.SIGKILL)
            select.select([pidfd], [], [])
        finally:
            os.close(pidfd)
