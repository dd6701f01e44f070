"""
Replaces the ladder's program, the producer and the consumer while a ladder runs its rungs. It writes the files of a run
with round numbers immediately. The environment controls it: FAKE_DIFFERS, FAKE_FAILS and FAKE_HANGS each name a rung,
and FAKE_LOG is the file to which it appends its command lines.
"""

import json
import os
import pathlib
import select
import signal
import sys

from made_ladder import LIMITS, write_check, write_run

DEVICE = {
    "kind": os.environ.get("FAKE_DEVICE", "cpu"),
    "name": "a fake",
    "driver_version": 13000,
    "runtime_version": 13000,
    "pcie_generation": 5,
    "pcie_width": 16,
}
SETTINGS = {
    "model": "deeplabv3-resnet50",
    "batch": 2,
    "image-size": 64,
    "precision": "auto",
    "memory-format": "auto",
    "synthetic-on": "host",
    "slabs": 4,
    "processor": "write",
    "write-copy": True,
}


def main():
    role, *argv = sys.argv[1:]
    flags = {flag: value for flag, value in zip(argv, [*argv[1:], ""]) if flag.startswith("--")}
    with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps([role, *argv]) + "\n")
        if "UNDER_NSYS" in os.environ:
            log.write(json.dumps(["under nsys", role]) + "\n")
    if "--version" in flags:
        print(f"offramp-{role} fake")
    elif argv[:1] == ["probe"]:
        print(json.dumps({"device": DEVICE, "cores": 2}))
    elif argv[:1] == ["settings"]:
        print(json.dumps({"version": "fake", "settings": SETTINGS}))
    elif argv[:1] not in (["sweep"], ["finish"]):
        sys.exit(produce(flags) if role == "ladder" else consume(flags))


def produce(flags):
    rung = "async-pageable" if "--allow-unpinned" in flags else flags["--strategy"]
    if rung == os.environ.get("FAKE_FAILS"):
        return 83
    if rung == os.environ.get("FAKE_HANGS"):
        return wait_for_the_end(flags)
    batches, warmup = int(flags["--batches"]), int(flags["--warmup-batches"])
    summary = {"limits": LIMITS if "--measure-limits" in flags else None}
    if "--trace-dir" in flags:
        summary = write_run(pathlib.Path(flags["--trace-dir"]), rung, batches - warmup, warmup, 2)
    if flags["--processor"] == "checksum":
        write_check(pathlib.Path(flags["--output"]), differs=rung == os.environ.get("FAKE_DIFFERS"))
    pathlib.Path(flags["--run-dir"], "summary.json").write_text(json.dumps(summary))
    return 0


def consume(flags):
    """The fake producer writes all results, so a consumer waits only if the run hangs."""
    if "FAKE_HANGS" in os.environ:
        wait_for_the_end(flags)
    return 0


def wait_for_the_end(flags):
    """Waits for SIGTERM or the launcher's end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda *_: None)
    with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(["waits", os.getpid()]) + "\n")
    select.select([reader] + ([int(flags["--lifeline-fd"])] if "--lifeline-fd" in flags else []), [], [])
    return 130


main()
