"""
An output folder belongs to one piece of work: nothing that a run does, and no kill, changes an earlier run's results.
"""

import os
import pathlib
import signal

from tests.system.test_resume import InWorlds

COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --copy-bytes 64KiB --copy-outputs 8 --batch 8".split(),
    *"--batches-per-slab 1 --status-seconds 0.05".split(),
)
ALL = (*COPY, "--processor", "checksum,npy,embeddings-sqlite")
BIN = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute()
WRITE = (*COPY, "--processor", "write", "--write-path", "{output}/files")
# Failpoints at which programs of a run with --overwrite are killed: the producer before and after its checkpoint,
# consumers in mid-run.
KILLED_AT = ("run.first_result#1", "run.begun#1", "sink.commit#1", "sink.commit#9", "sink.committed#9")


def changed(flags, name, value):
    at = flags.index(name)
    return (*flags[: at + 1], value, *flags[at + 2 :])


class Overwrite(InWorlds):
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

    @staticmethod
    def aside(world):
        """The folder that the last run with --overwrite renamed."""
        return world.output.with_name(f"{world.output.name}.before-{world.run_id()}")

    def test_work_in_the_output_is_refused_unless_asked(self):
        for flags in (
            ALL,
            (*COPY, "--processor", "npy"),
            WRITE,
            (*COPY, "--processor", "checksum", "--strategy", "sequential"),
        ):
            with self.subTest(flags=flags[-1]):
                world, before = self.finished(*flags)
                first = world.run_id()
                world.flags = (*flags, "--batches", "2")
                self.refused(
                    world.start(),
                    64,
                    f"the results of run {first}, which has finished",
                    "--resume",
                    "--overwrite",
                    "--output",
                )
                self.assertFalse(list(world.run_dir.glob("logs/producer*")), "nothing was started")
                self.assertEqual(world.results(), before)
                self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
                self.assertIn(str(self.aside(world)), world.logs())
                self.assertEqual(world.results(), self.undisturbed(*world.flags))
                self.assertEqual(world.results(self.aside(world)), before)

    def test_written_files_that_were_broken_off_are_continued(self):
        flags = (*WRITE, "--batches", "40")
        world = self.world(*flags)
        self.break_off(world, samples=80, slabs=10)
        self.refused(world.start(), 64, "of 320 items of run", "which has not finished")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80 - 32)
        self.assertEqual(world.results(), self.undisturbed(*flags))

    def test_a_written_folder_elsewhere_follows_the_same_rule(self):
        world = self.world(*COPY, "--processor", "write", "--write-path", "{output}-files", "--batches", "2")
        folder = world.output.with_name("output-files")
        self.assertEqual(world.start().wait(), 0, world.logs())
        before = world.results(folder)
        self.assertTrue(before)
        self.assertEqual(world.start("--overwrite").wait(), 0, world.logs())
        self.assertEqual(world.results(folder.with_name(f"output-files.before-{world.run_id()}")), before)
        world.output = world.folder / "another"
        world.flags = (*COPY, "--processor", "write", "--write-path", str(folder), "--batches", "2")
        for more in ((), ("--overwrite",)):
            self.refused(world.start(*more), 64, f"--write-path {folder} is not empty")
        self.assertEqual(world.results(folder), before)

    def test_a_run_that_cannot_start_touches_nothing(self):
        world, before = self.finished(*ALL)
        checkpoint = (world.output / ".offramp-checkpoint").read_bytes()
        for name, value in (
            ("--model", "no-such"),
            ("--model", "/nowhere/tpyo.pt2"),
            ("--copy-bytes", "10TiB"),
            ("--processor", "checksum,npy,embeddings-sqlit"),
        ):
            for more in ((), ("--overwrite",), ("--resume",)):
                world.flags = changed(ALL, name, value)
                self.assertNotEqual(world.start(*more).wait(), 0, world.logs())
                self.assertEqual(world.results(), before, f"{name} {value} {more}")
                self.assertEqual((world.output / ".offramp-checkpoint").read_bytes(), checkpoint)
        world.flags = (*ALL, "--batches", "4")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertEqual(world.summary()["samples"]["done_before"], 32)

    def test_a_failed_start_keeps_the_work_of_an_interrupted_run(self):
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

    def test_a_processor_that_cannot_read_the_model_puts_the_results_back(self):
        world, before = self.finished(*COPY, "--processor", "npy")
        for processor in ("mask-png", "npy,mask-png"):
            world.flags = (*COPY, "--processor", processor, "--batches", "4")
            self.refused(world.start("--overwrite"), 64, "cannot read any output of the model", "float16 [8, 8]")
            self.assertEqual(world.results(), before)
            self.assertFalse(self.aside(world).exists())

    def test_an_interrupted_run_continues_beside_the_former_results(self):
        world, before = self.finished(*ALL)
        world.flags = (*ALL, "--batches", "400", "--seed", "7")
        with world.gate() as gate:
            world.start("--overwrite")
            world.interrupt_behind(gate, slabs=10, samples=80)
            self.refused(world, 130, "--resume")
        aside = self.aside(world)
        self.assertEqual(world.results(aside), before)
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        self.assertGreaterEqual(world.summary()["samples"]["done_before"], 80)
        self.assertEqual(world.results(), self.undisturbed(*world.flags))
        self.assertEqual(world.results(aside), before)

    def killed_at(self, world, failpoint, *flags):
        """Starts a run whose programs die once at the failpoint; returns when all have ended."""
        once = world.folder / f"once-{world.runs}"
        once.mkdir()
        plain = world.environment
        world.environment = {
            **plain,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": f"{failpoint}:kill",
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        world.start(*flags, "--producer-restarts", "0").wait()
        world.environment = plain
        self.assertTrue(any(once.iterdir()), f"{failpoint} was not reached\n{world.logs()}")

    def test_former_results_outlive_a_program_killed_at_each_step(self):
        for failpoint in KILLED_AT:
            with self.subTest(failpoint):
                world, before = self.finished(*ALL)
                world.flags = (*ALL, "--batches", "40", "--seed", "7")
                self.killed_at(world, failpoint, "--overwrite")
                aside = self.aside(world)
                self.assertEqual(world.results(aside if failpoint != KILLED_AT[0] else world.output), before)
                self.assertEqual(
                    aside.exists(), failpoint != KILLED_AT[0], "without a result they have their name again"
                )
                if world.summary().get("exit") != 0:  # otherwise another consumer continued
                    self.assertEqual(
                        world.start("--resume" if aside.exists() else "--overwrite").wait(), 0, world.logs()
                    )
                self.assertEqual(world.results(), self.undisturbed(*world.flags))

    def test_files_of_others_are_refused_and_stay(self):
        world = self.world(*COPY, "--processor", "npy", "--batches", "2")
        mine = world.output / "notes" / "mine.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("precious\n")
        for more in ((), ("--resume",), ("--overwrite",)):
            self.refused(world.start(*more), 64, "holds notes/mine.txt, which is of no Offramp run")
            self.assertEqual([path for path in world.output.rglob("*") if path.is_file()], [mine])


class Finishing(InWorlds):
    """The launcher is asked to end, or is killed, while it merges outputs."""

    FLAGS = (*COPY, "--processor", "checksum", "--batches", "40")

    def in_the_merge(self):
        """A world whose launcher waits for the merging program, which is stopped in mid-merge."""
        world = self.world(*self.FLAGS)
        once = world.folder / "once"
        once.mkdir()
        world.environment = {
            **world.environment,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": "merge.write#1:stop",
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        world.start()
        world.until(
            lambda: (once / "merge.write").exists() and (once / "merge.write").read_text().endswith("\n"), "the merge"
        )
        world.environment = {
            key: value
            for key, value in world.environment.items()
            if not key.startswith(("LD_PRELOAD", "OFFRAMP_FAILPOINT"))
        }
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
