"""
What something costs a live run: windows of one and the same run with it and without, by turns and short, so that what else the machine does falls on both. The
run is one of messages alone (offramp-message-bench), which other work disturbs most, with a launcher (`offramp consume`) and the program offramp-consumer; or
one of any flags.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch"))

from intervals import median_with_interval   # noqa: E402
from machine import describe_machine, programs_of   # noqa: E402
from offramp_launch.places import Places   # noqa: E402
from offramp_launch.supervision.control import ControlClient   # noqa: E402
from processes import end, end_on_sigterm, usage_of_all   # noqa: E402

OFFRAMP = str(ROOT / "launch" / "offramp")
ENDLESS = ("--batches", "10000000")


def programs():
    """The folder that has them."""
    return Places().programs()


class Run:
    """A live one. Owns: nothing. Blocks: at a page, until the next one is there."""

    def __init__(self, folder, launcher):
        self.folder, self.launcher = folder, launcher

    def page(self):
        return json.loads((self.folder / "status.json").read_text())

    def next_page(self):
        """The next that its producer tells: (samples done, the last of them when, CPU seconds of its programs)."""
        seen = self.page()["now_ns"]
        while (page := self.page())["now_ns"] == seen:
            time.sleep(0.002)
        return page["released_samples"], page["last_release_ns"], usage_of_all((page["pid"], *(each["pid"] for each in page["consumers"]))).cpu_seconds

    def ask(self, request):
        return ControlClient(self.folder).ask(request)


@contextlib.contextmanager
def live_run(flags=(), more=()):
    """
    A Run that goes on until it is left; its programs have worked for two seconds. `flags`: of `offramp run`; none: messages alone. `more`: of the command that
    watches it.
    """
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="offramp-cost-") as place, contextlib.ExitStack() as ends:
        folder = pathlib.Path(place, "run")
        log = ends.enter_context(open(pathlib.Path(place, "log"), "wb"))
        started = []

        def start(*command):
            process = subprocess.Popen(command, stdout=log, stderr=log)
            started.append(process)
            return process

        ends.callback(lambda: [end(process) for process in started])    # a run of messages first: its consumers and their launcher leave with it

        output = ("--output", str(pathlib.Path(place, "output")))
        if flags:
            launcher = start(OFFRAMP, "run", *flags, *ENDLESS, "--status-seconds", "0.1", "--run-dir", str(folder), *output, *more)
        else:
            folder.mkdir(mode=0o700)
            start(str(programs() / "offramp-message-bench"), "--run-dir", str(folder))
            launcher = start(OFFRAMP, "consume", "--run-dir", str(folder), "--consumers", "1", "--processor", "none", *output, *more)
        run = Run(folder, launcher.pid)
        wait_until_it_works(run, started, pathlib.Path(place, "log"))
        time.sleep(2)
        yield run


def wait_until_it_works(run, started, log):
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if run.page()["released_samples"] and run.page()["consumers"]:
                return
        if any(process.poll() is not None for process in started):
            raise SystemExit(f"the run ended before it began:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def figures(begin, end):
    """(samples a second, CPU seconds a sample) between two pages."""
    samples = end[0] - begin[0]
    return samples / (end[1] - begin[1]) * 1e9, (end[2] - begin[2]) / samples


def told(name, values):
    """A line, and what is kept of it."""
    middle, low, high = median_with_interval(values)
    print(f"{name}: {middle:.4f} [{low:.4f}, {high:.4f}]", flush=True)
    return {"median": round(middle, 5), "low": round(low, 5), "high": round(high, 5), "pairs": len(values)}


def about():
    """Machine and build, and how busy the machine was as it began."""
    described = describe_machine(programs())
    del described["probe"]
    return {"machine": {**described, "load": round(os.getloadavg()[0], 2), "date": time.strftime("%Y-%m-%d", time.gmtime())},
            "build": programs_of(programs(), ROOT, "OFFRAMP_REVISION")}


def keep(path, document):
    """As measured/ has them, where a path is given."""
    if path:
        pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")
