"""Waits for processes of a test, with a watchdog."""

import time

WATCHDOG_SECONDS = 120


def wait_for(look, what):
    """The first true value of look(); fails the test after the watchdog's timeout."""
    end = time.monotonic() + WATCHDOG_SECONDS
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.005)
    return found


def put_away(process):
    """Kills the process if it is alive, and closes its output."""
    process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
