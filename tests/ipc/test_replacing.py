"""A run's results stay until a replacing run has finished; a kill at any point loses neither run's results."""

import os
import pathlib
import signal
import unittest

from tests.ipc.test_resume import InWorlds

COPY = ("--device", "cpu", "--model", "copy", "--consumers", "2", "--slabs", "4", "--copy-bytes", "64KiB", "--copy-outputs", "8", "--batch", "8",
        "--batches-per-slab", "1", "--status-seconds", "0.05")
ALL = (*COPY, "--processor", "checksum,npy,embeddings-sqlite")
BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
WRITE = (*COPY, "--processor", "write", "--write-path", "{output}/files")
MERGED = ("checksum/checksums.tsv", "embeddings-sqlite/embeddings.sqlite")
# Failpoints at which processes are killed: the producer before and after it notes replaceable results, consumers in mid-run, and the merging
# program before and after each step.
BEFORE_ITS_CHECKPOINT = (("run.first_result#1", 0), ("run.begun#1", 8))   # with the number of items of the previous run that are made again
IN_MID_RUN = ("sink.commit#1", "sink.commit#9", "sink.committed#9")
SWAP = [f"{name}#{nth}" for name, times in (("place.swap", 2), ("sink.replace", 3), ("sink.replaced", 3), ("place.swapped", 1)) for nth in range(1, times + 1)]


def changed(flags, name, value):
    at = flags.index(name)
    return (*flags[:at + 1], value, *flags[at + 2:])


class Replacing(InWorlds):
    maxDiff = None

    def finished(self, *flags, batches=4):
        """(a world with a finished run of `batches` batches, its results)"""
        world = self.world(*flags, "--batches", str(batches))
        self.assertEqual(world.start().wait(), 0, world.logs())
        return world, world.results()

    def refused(self, world, code, *texts):
        self.assertEqual(world.wait(), code, world.logs())
        for words in texts:
            self.assertIn(words, world.logs())

    def test_a_finished_run_is_replaced_only_on_request(self):
        for flags in (ALL, (*COPY, "--processor", "checksum"), (*COPY, "--processor", "npy"), (*COPY, "--processor", "embeddings-sqlite"),
                      WRITE, (*COPY, "--processor", "checksum", "--strategy", "sequential")):
            with self.subTest(flags=flags[-1]):
                world, before = self.finished(*flags)
                first = world.run_id()
                world.flags = (*flags, "--batches", "2")
                self.refused(world.start(), 64, first, "--resume", "--overwrite", "--output")
                self.assertFalse(list(world.run_dir.glob("logs-not-begun/producer*")), "nothing was started")
                self.assertEqual(world.results(), before)
                self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
                merged_or_all = {name: text for name, text in world.results().items() if not name.endswith((".npy", ".bin"))}
                fresh = self.undisturbed(*world.flags)
                self.assertEqual(merged_or_all, {name: text for name, text in fresh.items() if not name.endswith((".npy", ".bin"))})
                self.assertEqual({**world.results(), **fresh}, world.results(), "files of single samples are replaced during the run")
                self.assertEqual([], [path.name for path in world.output.rglob(".offramp-next*")])

    def test_output_written_to_a_device_needs_no_overwrite(self):
        world, _ = self.finished(*COPY, "--processor", "write", "--write-path", "/dev/null")
        self.assertEqual(world.start().wait(), 0, world.logs())

    def test_written_files_that_were_broken_off_are_continued(self):
        flags = (*WRITE, "--batches", "40")
        world = self.world(*flags)
        self.break_off(world, samples=80, slabs=10)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80 - 32)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_run_that_cannot_start_touches_nothing(self):
        world, before = self.finished(*ALL)
        checkpoint = (world.output / ".offramp-checkpoint").read_bytes()
        for name, value in (("--model", "no-such"), ("--model", "/nowhere/tpyo.pt2"), ("--copy-bytes", "10TiB"), ("--processor", "checksum,npy,embeddings-sqlit")):
            for more in ((), ("--overwrite",), ("--resume",)):
                world.flags = changed(ALL, name, value)
                self.assertNotEqual(world.start(*more).wait(), 0, world.logs())
                self.assertEqual(world.results(), before, f"{name} {value} {more}")
                self.assertEqual((world.output / ".offramp-checkpoint").read_bytes(), checkpoint)
        world.flags = (*ALL, "--batches", "4")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["done_before"], 32)

    def test_a_failed_start_keeps_the_checkpoint_of_an_interrupted_run(self):
        flags = (*ALL, "--batches", "40")
        world = self.world(*flags)
        self.break_off(world, samples=80, slabs=10)
        for more in ((), ("--overwrite",)):
            world.flags = changed(ALL, "--model", "no-such")
            self.assertNotEqual(world.start(*more).wait(), 0, world.logs())
        world.flags = flags
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80 - 32)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_an_interrupted_run_keeps_the_previous_results_and_continues(self):
        flags = changed(ALL, "--processor", "checksum,embeddings-sqlite")
        world, before = self.finished(*flags)
        world.flags = (*flags, "--batches", "400", "--seed", "7")
        with world.gate() as gate:
            world.start("--overwrite")
            world.interrupt_behind(gate, slabs=10, samples=80)
            self.refused(world, 130, "are unchanged", "--resume")
        self.assertEqual({name: world.results()[name] for name in MERGED}, {name: before[name] for name in MERGED})
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80)
        self.assertEqual(world.results(), self.undisturbed(*world.flags))

    @staticmethod
    def with_failpoint(world, order):
        """Programs that start from now on act once on the failpoint. Returns the folder that records it."""
        once = world.folder / f"once-{world.runs}"
        once.mkdir()
        world.environment = {**world.environment, "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"), "OFFRAMP_FAILPOINT": order,
                             "OFFRAMP_FAILPOINT_ONCE": str(once)}
        return once

    @staticmethod
    def without_failpoint(world):
        world.environment = {key: value for key, value in world.environment.items() if not key.startswith(("LD_PRELOAD", "OFFRAMP_FAILPOINT"))}

    def killed_at(self, world, failpoint, *flags, producer_restarts="0"):
        """Starts a run whose programs die at the failpoint; returns when all have ended."""
        once = self.with_failpoint(world, f"{failpoint}:kill")
        world.start(*flags, "--producer-restarts", producer_restarts).wait()
        self.without_failpoint(world)
        self.assertTrue(any(once.iterdir()), f"{failpoint} was not reached\n{world.logs()}")

    def test_killed_before_its_checkpoint_has_taken_the_previous_ones_place(self):
        for failpoint, again in BEFORE_ITS_CHECKPOINT:
            with self.subTest(failpoint):
                world, before = self.finished(*ALL)
                world.flags = (*ALL, "--batches", "4", "--seed", "7")
                self.killed_at(world, failpoint, "--overwrite")
                self.assertEqual(world.results(), before)
                world.flags = (*ALL, "--batches", "4")
                self.assertEqual(world.start("--resume").wait(), 0, "the previous run continues")
                self.assertEqual(world.summary()["samples"]["released"], again)
                self.assertEqual(world.results(), before)

    def test_killed_before_any_note_the_previous_run_is_made_whole_again(self):
        world, before = self.finished(*ALL)
        world.flags = (*ALL, "--batches", "4", "--seed", "7", "--consumers", "1")
        once = self.with_failpoint(world, "sink.committed#4:stop")    # after a slab's checksums and the files of its first items
        world.start("--overwrite")
        world.until(lambda: (once / "sink.committed").exists(), "some results")
        world.kill_everything()
        self.without_failpoint(world)
        replaced = {name for name, text in before.items() if world.results()[name] != text}
        self.assertTrue(replaced and all(name.endswith(".npy") for name in replaced), replaced)
        world.flags = (*ALL, "--batches", "2")
        self.refused(world.start(), 64, "which has finished", "--resume", "--overwrite")
        world.flags = (*ALL, "--batches", "4")
        self.assertEqual(world.start("--resume").wait(), 0, "the previous run continues")
        self.assertIn("items are processed again", world.logs())
        self.assertTrue(len(replaced) / 8 <= world.summary()["samples"]["released"] <= 32, world.summary()["samples"])
        self.assertEqual(world.results(), before)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["released"], 0)

    def test_an_unsuitable_processor_is_refused_before_it_replaces_anything(self):
        world, before = self.finished(*COPY, "--processor", "npy")
        checkpoint = (world.output / ".offramp-checkpoint").read_bytes()
        for processor in ("mask-png", "mask-rle", "cut-out", "overlay", "image", "npy,mask-png"):
            world.flags = (*COPY, "--processor", processor, "--batches", "4")
            self.refused(world.start("--overwrite"), 64, "cannot read any output of the model", "float16 [8, 8]")
            self.assertEqual(world.results(), before)
            self.assertEqual((world.output / ".offramp-checkpoint").read_bytes(), checkpoint)

    def test_a_successor_ignores_the_previous_runs_checkpoint(self):
        world, _ = self.finished(*ALL)
        self.killed_at(world, "run.first_result#1", "--overwrite", producer_restarts="3")
        self.assertEqual(world.summary()["samples"]["released"], 32, world.logs())

    def test_a_killed_run_continues_and_keeps_the_previous_one_until_its_end(self):
        for failpoint in IN_MID_RUN:
            with self.subTest(failpoint):
                world, before = self.finished(*ALL)
                world.flags = (*ALL, "--batches", "40", "--seed", "7")
                self.killed_at(world, failpoint, "--overwrite")
                if world.summary().get("exit") != 0:    # otherwise another consumer continued
                    self.assertEqual({name: world.results()[name] for name in MERGED}, {name: before[name] for name in MERGED})
                    self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.results(), self.undisturbed(*world.flags))

    def test_killed_between_two_steps_of_the_replacement_the_next_run_ends_it(self):
        world, before = self.finished(*ALL)
        for seed, failpoint in enumerate(SWAP, 1):
            with self.subTest(failpoint):
                flags = (*ALL, "--batches", "4", "--seed", str(seed))
                fresh = self.undisturbed(*flags)
                world.flags = flags
                self.killed_at(world, failpoint, "--overwrite")
                for name in MERGED:
                    self.assertIn(world.results().get(name), (before[name], fresh[name]), f"{name} belongs to neither run")
                if seed % 2:    # any next run finishes the replacement, even one that is then refused
                    self.refused(world.start(), 64, "which has finished")
                    self.assertEqual(world.results(), fresh)
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(world.summary()["samples"]["released"], 0, "everything was done before")
                self.assertEqual(world.results(), fresh)
                before = fresh

    def test_a_users_file_with_a_results_name_is_replaced_only_on_request(self):
        for name, flags in (("9.map0.npy", (*COPY, "--processor", "npy")), ("files/9.map0.bin", WRITE)):
            with self.subTest(name):
                world = self.world(*flags, "--batches", "2")
                mine = world.output / name
                mine.parent.mkdir(parents=True)
                mine.write_text("precious\n")
                for more in ((), ("--resume",)):
                    self.refused(world.start(*more), 64, f"{name} exists", "the item '9'", "--overwrite")
                    self.assertEqual([path for path in world.output.rglob("*") if path.is_file()], [mine])
                    self.assertEqual(mine.read_text(), "precious\n")
                self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
                self.assertEqual(world.results(), self.undisturbed(*world.flags))

    def test_a_users_own_file_and_other_processors_results_stay(self):
        world, before = self.finished(*COPY, "--processor", "checksum")
        world.flags = (*COPY, "--processor", "npy", "--batches", "2")
        self.assertEqual(world.start().wait(), 0, world.logs())
        self.assertEqual(world.results()["checksums.tsv"], before["checksums.tsv"])
        (world.output / "checksums.tsv").write_text("precious\n")
        world.flags = (*COPY, "--processor", "checksum", "--batches", "2")
        self.refused(world.start(), 64, "of --processor npy, which has finished")
        (world.output / ".offramp-checkpoint").unlink()
        for more in ((), ("--overwrite",)):
            self.refused(world.start(*more), 64, "checksums.tsv exists and was made by another program, but this run's results go there")
        self.assertEqual((world.output / "checksums.tsv").read_text(), "precious\n")


class Finishing(InWorlds):
    """The launcher is asked to end, or is killed, while it merges outputs."""

    FLAGS = (*COPY, "--processor", "checksum", "--batches", "40")

    def in_the_merge(self):
        """A world whose launcher waits for the merging program, which is stopped in mid-merge."""
        world = self.world(*self.FLAGS)
        once = world.folder / "once"
        once.mkdir()
        world.environment = {**world.environment, "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
                             "OFFRAMP_FAILPOINT": "merge.write#1:stop", "OFFRAMP_FAILPOINT_ONCE": str(once)}
        world.start()
        world.until(lambda: (once / "merge.write").exists() and (once / "merge.write").read_text().endswith("\n"), "the merge")
        world.environment = {key: value for key, value in world.environment.items() if not key.startswith(("LD_PRELOAD", "OFFRAMP_FAILPOINT"))}
        return world, int((once / "merge.write").read_text())

    def test_a_signal_waits_for_it_and_the_summary_is_written(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                world, merge = self.in_the_merge()
                world.launcher.send_signal(number)
                world.until(lambda: "merging the outputs" in world.logs(), "a message about the wait")
                os.kill(merge, signal.SIGCONT)
                self.assertEqual(world.wait(), 0, world.logs())
                self.assertEqual(world.summary()["samples"]["released"], 320)
                self.assertEqual(world.results(), self.undisturbed(*self.FLAGS))

    def test_a_second_signal_ends_it_and_costs_nothing(self):
        world, _ = self.in_the_merge()
        world.launcher.send_signal(signal.SIGTERM)
        world.until(lambda: "merging the outputs" in world.logs(), "a message about the wait")
        world.launcher.send_signal(signal.SIGTERM)
        self.assertEqual(world.wait(), 130, world.logs())
        self.assertEqual(world.summary()["samples"]["released"], 320)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.results(), self.undisturbed(*self.FLAGS))

    def test_a_running_merge_excludes_writers_after_its_launcher_died(self):
        world, merge = self.in_the_merge()
        world.launcher.send_signal(signal.SIGKILL)
        world.launcher.wait()
        world.start("--resume")
        world.until(lambda: "waiting for the last programs of run" in world.logs(), "a wait for the lock")
        self.assertFalse((world.output / "checksums.tsv").exists())
        os.kill(merge, signal.SIGCONT)
        self.assertEqual(world.wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["done_before"], 320)
        self.assertEqual(world.results(), self.undisturbed(*self.FLAGS))


if __name__ == "__main__":
    unittest.main()
