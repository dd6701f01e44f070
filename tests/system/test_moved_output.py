"""
A moved output folder: results go to the folder with which the run began, and files elsewhere do not count as done.
"""

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.support.done_items import items_of_checkpoint
from tests.support.gate import Gate
from tests.support.launched_job import JobWorld
from tests.system.test_resume import InWorlds

COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --batch 4 --batches-per-slab 1".split(),
    *"--status-seconds 0.05".split(),
)
PICTURES = (*COPY, "--batches", "60", "--copy-outputs", "5x24x32")
MASKS = (*PICTURES, "--processor", "mask-png")
RECORDS = (*PICTURES, "--processor", "records")
CHECKSUMS = (*PICTURES, "--processor", "checksum")
SEVERAL = (*PICTURES, "--processor", "npy,mask-png")
ROWS = (*COPY, "--batches", "60", "--copy-outputs", "48", "--processor", "embeddings-sqlite")
MOVED = "was moved, unmounted or replaced while this run wrote to it"


def take_away(folder):
    folder.rename(folder.with_name(folder.name + "-away"))


def replace_by_an_empty_one(folder):
    take_away(folder)
    folder.mkdir()


def replace_by_a_link_to_another(folder):
    take_away(folder)
    other = folder.with_name(folder.name + "-other")
    other.mkdir()
    folder.symlink_to(other)


def put_back(folder):
    """Moves the folder back; removes files that were created in its place."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        folder.rename(folder.with_name(folder.name + "-since"))
    folder.with_name(folder.name + "-away").rename(folder)


class InMovedFolders(InWorlds):
    def begin(self, world, folder, do, slabs=12):
        """Starts a run, calls do(folder) after `slabs` slabs, and lets the run end. Returns the exit code."""
        with world.gate() as gate:
            world.start()
            gate.let(slabs)
            world.until(lambda: world.status().get("done_samples", 0) >= 4 * (slabs - 4), "some samples done")
            do(folder)
            gate.open()
            return world.wait()

    def assert_ends_and_goes_on(self, flags, do, below="", says=MOVED, back=put_back):
        world = self.world(*flags)
        folder = world.output / below if below else world.output
        self.assertEqual(self.begin(world, folder, do), 73, world.logs())
        self.assertIn(says, world.logs())
        self.assertIn("--resume", world.summary()["failure"])
        back(folder)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        samples = world.summary()["samples"]
        self.assertGreater(samples["done_before"], 0)
        self.assertEqual(samples["done_before"] + samples["released"], 240)
        self.assertEqual(world.results(), self.undisturbed(*flags))


class Outputs(InMovedFolders):
    def test_a_moved_folder_ends_the_run_and_resume_works_once_it_is_back(self):
        for flags in (MASKS, RECORDS, ROWS, CHECKSUMS):
            with self.subTest(processor=flags[-1]):
                self.assert_ends_and_goes_on(flags, take_away)

    def test_another_one_in_its_place_gets_nothing(self):
        for flags in (MASKS, RECORDS, ROWS, CHECKSUMS):
            with self.subTest(processor=flags[-1]):
                self.assert_ends_and_goes_on(flags, replace_by_an_empty_one)
        self.assert_ends_and_goes_on(MASKS, replace_by_a_link_to_another)

    def test_results_noted_as_done_are_in_the_folder(self):
        world = self.world(*MASKS)
        self.assertEqual(self.begin(world, world.output, replace_by_an_empty_one), 73, world.logs())
        there = world.output.with_name("output-away")
        masks = {path.name for path in there.glob("*.png")}
        self.assertEqual(list(world.output.rglob("*.png")), [], "results were written into the other folder")
        self.assertGreaterEqual(len(masks), len(items_of_checkpoint(there)))

    def test_a_mount_that_is_gone_ends_the_run_which_continues_when_it_is_back(self):
        behind = pathlib.Path(tempfile.mkdtemp(prefix="offramp-behind-", dir="/tmp"))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", behind], check=True))

        def mount(folder):
            folder.mkdir(exist_ok=True)
            done = subprocess.run(["mount", "--bind", behind, folder], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.skipTest(f"cannot mount anything here: {done.stderr.strip()}")

        def unmount(folder):
            subprocess.run(["umount", "-l", folder], check=True)

        for flags in (MASKS, RECORDS):
            with self.subTest(processor=flags[-1]):
                subprocess.run(f"rm -rf {behind}/* {behind}/.offramp*", shell=True, check=True)
                world = self.world(*flags)
                mount(world.output)
                self.addCleanup(
                    lambda folder=world.output: subprocess.run(
                        ["umount", "-l", folder], capture_output=True, check=False
                    )
                )
                self.assertEqual(self.begin(world, world.output, unmount), 73, world.logs())
                self.assertIn(MOVED, world.logs())
                self.assertEqual(list(world.output.rglob("*.png")), [])
                mount(world.output)
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_file_system_that_is_gone_with_its_results_is_no_success(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-disk-", dir="/tmp"))
        self.addCleanup(folder.rmdir)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            self.skipTest(f"cannot mount anything here: {done.stderr.strip()}")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", folder], capture_output=True, check=False))
        world = self.world(*MASKS, output=folder)
        self.assertEqual(
            self.begin(world, folder, lambda _: subprocess.run(["umount", "-l", folder], check=True)), 73, world.logs()
        )
        self.assertEqual(list(folder.iterdir()), [], "results were written below the mount point")

    def test_a_lock_that_is_removed_ends_the_run(self):
        world = self.world(*MASKS)
        self.assertEqual(
            self.begin(world, world.output, lambda folder: (folder / ".offramp-lock").unlink()), 73, world.logs()
        )
        self.assertIn(".offramp-lock was removed or replaced", world.logs())
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*MASKS))

    def test_programs_started_after_the_move_write_to_no_other_folder(self):
        for kill in ("producer", "consumers"):
            with self.subTest(killed=kill):
                world = self.world(*MASKS)

                def replace_and_kill(folder, world=world, kill=kill):
                    status = world.status()
                    replace_by_an_empty_one(folder)
                    pids = [status["pid"]] if kill == "producer" else [each["pid"] for each in status["consumers"]]
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            Gate.kill(pid)

                self.assertEqual(self.begin(world, world.output, replace_and_kill), 73, world.logs())
                self.assertEqual(
                    [path.name for path in world.output.rglob("*") if path.is_file()],
                    [],
                    "something was written into the other folder",
                )
                put_back(world.output)
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), self.undisturbed(*MASKS))


class FoldersBelow(InMovedFolders):
    def test_a_processors_own_that_is_moved_or_replaced_ends_the_run(self):
        for do in (take_away, replace_by_an_empty_one):
            with self.subTest(do=do.__name__):
                self.assert_ends_and_goes_on(SEVERAL, do, "mask-png", "mask-png")

    def test_unmerged_segments_are_not_begun_anew(self):
        for do in (take_away, replace_by_an_empty_one):
            with self.subTest(do=do.__name__):
                self.assert_ends_and_goes_on(CHECKSUMS, do, ".offramp-segments", "was moved or replaced")

    def test_consumers_started_after_the_move_write_to_no_other_folder(self):
        for flags, below in ((SEVERAL, "mask-png"), (CHECKSUMS, ".offramp-segments")):
            with self.subTest(below=below):
                world = self.world(*flags)
                folder = world.output / below

                def move_and_kill(folder, world=world):
                    consumers = [each["pid"] for each in world.status()["consumers"]]
                    take_away(folder)
                    for pid in consumers:
                        with contextlib.suppress(ProcessLookupError):
                            Gate.kill(pid)

                self.assertEqual(self.begin(world, folder, move_and_kill), 73, world.logs())
                self.assertFalse(folder.exists(), "a folder was made in its place")
                put_back(folder)
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_merge_requires_the_consumers_folders_and_can_be_repeated(self):
        for processors, *series in (
            ("checksum", ".offramp-segments/checksum"),
            ("checksum,mask-rle", "checksum/.offramp-segments/checksum", "mask-rle/.offramp-segments/mask-rle"),
        ):
            for words in (("finish",), ("finish-own-run", "nothing"), ("finish-own-run", "ended")):
                with self.subTest(processors=processors, words=words):
                    self.assert_merge_can_be_repeated(processors, series, words)

    def assert_merge_can_be_repeated(self, processors, series, words):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        output, run_dir = folder / "output", folder / "run"
        segments = [output / each for each in series]
        for each in (*segments, run_dir / "live"):
            each.mkdir(parents=True)
        notes = run_dir / "live/result-folders"

        def finish():
            program = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"], "offramp-consumer")
            flags = ("--run-dir", run_dir, "--output", output, "--processor", processors)
            done = subprocess.run([program, *words, *flags], capture_output=True, text=True, timeout=60, check=False)
            return done.returncode, done.stdout + done.stderr

        noted = "".join(f"{each.stat().st_dev} {each.stat().st_ino} {each}\0" for each in segments)
        last = str(segments[-1].stat().st_ino)
        notes.write_text(noted.replace(f" {last} ", f" {last}0 "))
        for _ in range(2):
            code, printed = finish()
            self.assertEqual(73, code, printed)
            self.assertIn(f"{segments[-1]}, which this run has put results into, was moved or replaced", printed)
            self.assertTrue(segments[0].exists(), "it was merged")
        notes.write_text(noted)
        damaged = segments[-1] / "0-0-0.tsv"
        damaged.write_text("0\n")
        self.assertIn("is damaged", finish()[1])
        damaged.unlink()
        for _ in range(2):
            code, printed = finish()
            self.assertEqual(0, code, printed)
            self.assertFalse(notes.exists() or any(each.exists() for each in segments))

    def test_the_folder_of_write_path(self):
        world = self.world(*PICTURES, "--processor", "write", "--write-path")
        files = world.folder / "files"
        world.flags = (*world.flags, str(files))
        self.assertEqual(self.begin(world, files, replace_by_an_empty_one), 73, world.logs())
        put_back(files)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(len(list(files.rglob("*.bin"))), 240)


# Unlocks every lock that this process can name, on import and with each slab; waits at the gate.
UNLOCKS = """
import fcntl, os, time

def unlock():
    for number in os.listdir("/proc/self/fd"):
        try:
            fcntl.flock(int(number), fcntl.LOCK_UN)
        except OSError:
            pass

unlock()

def save(slab, gate, entered):
    unlock()
    open(entered, "w").close()
    while os.path.exists(gate):
        time.sleep(0.01)
    for sample, values in slab:
        yield sample, ".txt", sample.key.encode()
"""


class Locks(InMovedFolders):
    @unittest.skipIf(not importlib.util.find_spec("numpy"), "a processor in Python needs NumPy")
    def test_a_users_code_cannot_give_back_the_outputs_lock(self):
        world = self.world(*COPY, "--batches", "6", "--copy-outputs", "48")
        post, gate, entered = (world.folder / name for name in ("post.py", "gate", "entered"))
        post.write_text(UNLOCKS)
        gate.touch()
        world.flags = (
            *world.flags,
            "--consumer-python",
            sys.executable,
            "--processor",
            f"{post}:save",
            "--processor-option",
            f"gate={gate},entered={entered}",
        )
        world.start()
        world.until(entered.exists, "a slab at work")
        second = self.world(*MASKS, output=world.output)
        self.assertEqual(second.start().wait(), 85, second.logs())
        self.assertIn(f"run {world.run_id()}", second.logs())
        gate.unlink()
        self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(len(list(world.output.glob("*.txt"))), 24)

    def test_no_program_that_runs_a_users_code_inherits_the_lock(self):
        world = self.world(*MASKS)
        with world.gate() as gate:
            world.start()
            gate.let(1)
            gate.entered_by(2)
            lock = (world.output / ".offramp-lock").stat()
            kept = world.launcher.pid
            own = {pid: self.descriptions_of(pid, lock) for pid in world.processes()}
            self.assertTrue(own[kept], "the launcher has the lock")
            for pid, found in own.items():
                if pid != kept and found:
                    self.assertFalse(found & own[kept], f"process {pid} has the launcher's open file")
            self.assertGreaterEqual(
                sum(map(bool, own.values())), 4, "launcher, producer and consumers each hold the lock"
            )
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())

    @staticmethod
    def descriptions_of(pid, lock):
        """The open file descriptions of the lock in a process, named by the pid that the kernel shows for the lock."""
        found = set()
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), lock):
                    locks = pathlib.Path(f"/proc/{pid}/fdinfo/{number}").read_text()
                    found |= {
                        line.split()[5] for line in locks.splitlines() if line.startswith("lock:") and "FLOCK" in line
                    }
        return found


class Shards(InMovedFolders):
    def test_a_shard_is_recorded_when_its_results_are_where_a_merge_finds_them(self):
        one = self.world(*MASKS)
        self.assertEqual(one.start().wait(), 0, one.logs())
        for do in (take_away, replace_by_an_empty_one):
            with self.subTest(do=do.__name__):
                world = self.enterContext(JobWorld(*MASKS))
                code, printed = world.init(2)
                self.assertEqual(code, 0, printed)
                with world.gate() as gate:
                    world.shard(0)
                    gate.let(12)
                    world.until(lambda world=world: world.status().get("done_samples", 0) >= 32, "some samples done")
                    do(world.output)
                    gate.open()
                    self.assertEqual(world.wait(), 75, world.logs())
                self.assertFalse((world.job / "done/0.json").exists(), "it was recorded as done")
                put_back(world.output)
                for index in (0, 1):
                    self.assertEqual(world.shard(index).wait(), 0, world.logs())
                code, printed = world.merge()
                self.assertEqual(code, 0, printed)
                self.assertEqual(world.results(), one.results())
