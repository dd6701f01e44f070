"""
Loops over generated batches, for tests that kill them: LOOP is the program, POST the function that its consumers run.

The loop's arguments: those of its Egress, as Python; the number of batches; where it kills itself; the folder of its
notes.
"""

import os
import pathlib
import shlex
import signal
import subprocess
import sys

from offramp._library import library
from tests.support.compiled import build_folder
from tests.support.waiting import put_away
from world import ROOT, World, wait_for

LAUNCHER = [sys.executable, "-E", "-s", "-B", str(ROOT / "launch" / "offramp_launch")]
BATCHES, ROWS = 12, 4
# Writes a file and a record of each sample. Waits while the test has a gate for the key.
POST = """
import os, time

def save(slab):
    for sample, values in slab:
        while os.path.exists(f"{os.environ['GATES']}/{sample.key}"):
            time.sleep(0.01)
        yield sample, ".bin", values.tobytes()
        yield sample, {"sum": float(values.sum())}
"""
LOOP = """
import os, pathlib, signal, sys, threading, time
import numpy, offramp

options, batches, dies, folder = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def batch(number):
    return [f"b{number:03}-{row}" for row in range(4)], numpy.arange(24, dtype="float32").reshape(4, 6) + number

def until(samples):
    while egress.stats().samples_completed < samples:
        time.sleep(0.001)

def die_when(samples):
    until(samples)
    die()

def until_the_checkpoint_has_batches():
    given = eval(f"dict({options})")
    while b'\\n{"done"' not in pathlib.Path(given.get("output", given["run_dir"]), ".offramp-egress").read_bytes():
        time.sleep(0.001)

def note(text):
    with open(f"{folder}/noted", "a") as file:
        print(text, file=file)

with offramp.Egress(slabs=4, samples_per_slab=4, **eval(f"dict({options})")) as egress:
    submitted = 0
    note("egress")
    for keys, values in egress.pending(batch(number) for number in range(int(batches))):
        if dies == f"before {submitted}":
            die()
        egress.submit({"values": values * 2}, keys)
        submitted += 1
        if dies == f"submitted {submitted}":
            die()
        if dies == f"accepted {submitted}":
            until(4 * submitted)
            die()
        if dies == f"noted {submitted}":
            until(4 * submitted)
            until_the_checkpoint_has_batches()
            die()
    note(f"submitted {submitted}")
    if dies.startswith("draining"):
        threading.Thread(target=die_when, args=(int(dies.split()[1]),), daemon=True).start()
    if dies == "drained":
        egress._run.drain(None)
        die()
"""


class Loops(World):
    made = None

    def setUp(self):
        super().setUp()
        self.post = self.folder / "post.py"
        self.post.write_text(POST)
        self.work = self.place("work")

    def place(self, name):
        return LoopFolder(self, self.folder / name)

    def undisturbed(self):
        """The results of an undisturbed loop, the same for all tests."""
        if Loops.made is None:
            place = self.place("undisturbed")
            place.run()
            Loops.made = place.results()
        return Loops.made


class LaunchedLoops(Loops):
    """`offramp run` with the loop, or another program, as its producer."""

    def setUp(self):
        super().setUp()
        self.at_a_place("work")

    def at_a_place(self, name):
        self.work = self.place(name)
        self.work.environment["OFFRAMP_BIN_DIR"] = str(pathlib.Path(library()._name).resolve().parents[1] / "bin")
        self.work.environment["OFFRAMP_BUILD_DIR"] = build_folder(self.folder)

    def program(self, dies="", batches=BATCHES, options=""):
        (self.folder / "loop.py").write_text(LOOP)
        return shlex.join(
            [sys.executable, str(self.folder / "loop.py"), options, str(batches), dies, str(self.work.folder)]
        )

    def launch(self, *flags, program=None, place=None):
        place = place or self.work
        process = subprocess.Popen(
            [
                *LAUNCHER,
                "run",
                "--producer",
                self.program() if program is None else program,
                "--processor",
                f"{self.post}:save",
                "--consumers",
                "2",
                "--output",
                str(place.output),
                "--run-dir",
                str(place.run_dir),
                "--consumer-python",
                sys.executable,
                *flags,
            ],
            env=self.work.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(put_away, process)
        return process

    def log(self):
        file = self.work.run_dir / "logs" / "producer.log"
        return file.read_text() if file.exists() else ""


class LoopFolder:
    """A folder for successive loops into one output."""

    def __init__(self, test, folder):
        self._test = test
        self.folder, self.output, self.run_dir = folder, folder / "out", folder / "run"
        self.gates = folder / "gates"
        self.gates.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "GATES": str(self.gates)}

    def close_gate(self, key):
        gate = self.gates / key
        gate.touch()
        return gate

    def loop(self, batches=BATCHES, dies="", **more):
        """Starts a loop with its own consumers. `more`: further arguments of its Egress."""
        given = {
            "output": str(self.output),
            "processor": f"{self._test.post}:save",
            "consumers": 2,
            "run_dir": str(self.run_dir),
            **more,
        }
        return self.loop_with(given, batches, dies)

    def loop_with(self, given, batches=BATCHES, dies=""):
        options = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return self._test.python(LOOP, options, batches, dies, self.folder, env=self.environment)

    def run(self, batches=BATCHES, code=0, **more):
        """Runs a loop to its end and returns its output."""
        return self._test.end(self.loop(batches, **more), code)

    def killed(self, dies, *gates, **more):
        """Lets the loop kill itself there, and waits until its consumers have finished."""
        self.die(dies, *gates, **more)
        wait_for(lambda: not processes_of(self.folder), "that the consumers of the dead loop are gone")

    def die(self, dies, *gates, **more):
        closed = [self.close_gate(key) for key in gates]
        self._test.end(self.loop(dies=dies, **more), -signal.SIGKILL)
        for gate in closed:
            gate.unlink()

    def resume(self):
        """Resumes the loop and returns the number of batches that it submits."""
        self.run(resume=True)
        return self.submitted()

    def submitted(self):
        return int((self.folder / "noted").read_text().splitlines()[-1].removeprefix("submitted "))

    def results(self):
        return results(self.output)


def processes_of(folder):
    """Offramp's processes that have this folder in their arguments."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if (
            process.name.isdecimal()
            and int(process.name) != os.getpid()
            and os.fsencode(folder) in command
            and b"offramp" in command
        ):
            found.append(int(process.name))
    return found


def results(output):
    """Names and bytes of all files except Offramp's own."""
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file() and not path.name.startswith(".offramp-")
    }
