"""
A loop's forked children (the workers of a DataLoader) live on when it dies: the next loop gets its directory, and no
memory stays in use.
"""

import json
import os
import pathlib
import shlex
import signal
import sys

from loops import LaunchedLoops, processes_of
from tests.support.waiting import WATCHDOG_SECONDS
from world import World, needs_numpy

SAMPLES, BATCH, DIES_AT = 400, 4, 20

# Batches come from two forked workers. The first life kills itself in mid-run; its workers do not notice for a while.
LOADING = f"""
import multiprocessing, os, pathlib, signal, sys, time
import numpy, offramp

SAMPLES, BATCH = {SAMPLES}, {BATCH}

def sample(number):
    return f"s{{number:03}}", numpy.full(6, number, "float32")

def batch(first):
    keys, values = zip(*[sample(first + row) for row in range(BATCH)])
    return list(keys), numpy.stack(values)

def batches():
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            yield from pool.imap(batch, range(0, SAMPLES, BATCH))
    else:
        class Numbers:
            def __len__(self):
                return SAMPLES // BATCH
            def __getitem__(self, number):
                return batch(number * BATCH)
        yield from DataLoader(Numbers(), batch_size=None, num_workers=2, multiprocessing_context="fork", collate_fn=lambda made: made)

life = pathlib.Path(sys.argv[1])
first = not life.exists()
life.touch()
with offramp.Egress(slabs=4, samples_per_slab=BATCH, tensors={{"values": ("float32", (BATCH, 6))}}, device="cpu") as egress:
    if first and os.fork() == 0:
        signal.pause()      # a child that never notices
        os._exit(0)
    for number, (keys, values) in enumerate(egress.pending(batches())):
        if first and number == {DIES_AT}:
            os.kill(os.getpid(), signal.SIGKILL)
        egress.submit({{"values": numpy.asarray(values)}}, keys)
"""


@needs_numpy
class Launched(LaunchedLoops):
    def test_a_loop_whose_workers_outlive_it_is_restarted(self):
        program = self.folder / "loading.py"
        program.write_text(LOADING)
        self.addCleanup(self.kill_left, program)
        launcher = self.launch(program=shlex.join([sys.executable, str(program), str(self.folder / "life")]))
        printed, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, launcher.returncode, printed + self.log())
        self.assertIn("the program is started again", printed)
        summary = json.loads((self.work.run_dir / "summary.json").read_text())
        self.assertEqual(1, summary["producer_restarts"])
        self.assertEqual(
            {f"s{number:03}.bin" for number in range(SAMPLES)},
            {name for name in self.work.results() if name.endswith(".bin")},
        )

    def kill_left(self, program):
        for process in processes_of(program):
            os.kill(process, signal.SIGKILL)


class Asleep(World):
    """A program's child sleeps, and the program is killed."""

    OPENS = """
        import os, signal, sys, threading, offramp
        egress = offramp.Egress(sys.argv[1], tensors={"values": ("float32", (4, 1 << 18))}, samples_per_slab=4, slabs=8, device="cpu")
        begun, begin = os.pipe()
        if (child := os.fork()) == 0:
            os.write(begin, b"x")
            signal.pause()
        os.read(begun, 1)
        print(child, flush=True)
        signal.pause()
    """
    # The next one in the directory.
    FOLLOWS = """
        import sys, offramp
        with offramp.Egress(sys.argv[1], tensors={"values": ("float32", (4, 4))}, samples_per_slab=4, device="cpu"):
            print("open")
    """

    def test_its_directory_is_free_and_its_memory_is_released(self):
        program = self.python(self.OPENS, self.run_dir)
        child = int(self.read_line(program))
        self.addCleanup(os.kill, child, signal.SIGKILL)
        program.kill()
        program.wait()
        self.assertEqual("open\n", self.end(self.python(self.FOLLOWS, self.run_dir)))
        self.require_no_memory_left([program.pid])
        self.assertEqual([], self.runs_of(child))

    def runs_of(self, process):
        """Its mappings and open files of runs."""
        mapped = [
            line
            for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines()
            if "/dev/shm/offramp-" in line
        ]
        opened = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{process}/fd").iterdir()]
        return mapped + [
            name
            for name in opened
            if name.startswith(("socket:", "/dev/shm", str(self.folder))) or name == "anon_inode:[eventpoll]"
        ]
