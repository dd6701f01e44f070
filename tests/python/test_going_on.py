"""A killed loop resumes with resume=True: results equal an undisturbed run, and other work is refused."""

import concurrent.futures
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

import offramp
from loops import BATCHES, ROWS, Loops, processes_of, results
from offramp._checkpoint import MOST_RANGES, Checkpoint, Comparison, Done, DoneBatches, hash_of
from world import needs_numpy, wait_for


@needs_numpy
class Killed(Loops):
    def test_at_each_step(self):
        cases = (
            (("before 0",), BATCHES),
            (("submitted 1",), 0),
            # four slabs are full, and two batches wait for their copy
            (
                ("submitted 6", "b000-0", "b001-0"),
                BATCHES - 4,
            ),
            (("accepted 1",), 0),
            (("accepted 7",), 0),
            ((f"draining {4 * (BATCHES - 2)}", "b011-3"), 1),
            (("drained",), 0),
        )

        def disturbed(case):
            (dies, *gates), least = case
            place = self.place(dies.replace(" ", "-"))
            place.killed(dies, *gates)
            return dies, least, place.resume(), place.results()

        undisturbed = self.undisturbed()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for dies, least, submitted, found in pool.map(disturbed, cases):
                with self.subTest(dies):
                    self.assertTrue(least <= submitted <= BATCHES, submitted)
                    self.assertEqual(undisturbed, found)

    def test_recorded_batches_are_not_repeated(self):
        self.work.killed(f"draining {4 * (BATCHES - 1)}", "b011-3")
        noted = self.work.output / ".offramp-egress"
        done = sum(
            end - begin for line in noted.read_text().splitlines()[1:] for begin, end, _ in json.loads(line)["done"]
        )
        self.assertEqual(BATCHES - done // ROWS, self.work.resume())
        before = self.work.results()
        self.assertEqual(0, self.work.resume(), "all of it is done")
        self.assertEqual(before, self.work.results())

    def test_twice_and_a_torn_checkpoint(self):
        self.work.die("accepted 3")
        with open(self.work.output / ".offramp-egress", "ab") as file:
            file.write(b'{"done": [[0, 48, "00')
        self.work.killed("accepted 2", resume=True)
        self.work.resume()
        self.assertEqual(self.undisturbed(), self.work.results())

    def test_new_batches_after_the_others_are_added(self):
        self.work.run(batches=5)
        self.assertEqual(BATCHES - 5, self.work.resume())
        self.assertEqual(self.undisturbed(), self.work.results())

    def test_other_work_is_refused_and_both_are_shown(self):
        self.work.run(batches=5, identity={"weights": "v1"})
        before = self.work.results()
        for options, batches, text in (
            (
                {"identity": {"weights": "v2"}},
                5,
                r"""identity was '\{"weights": "v1"\}' and is '\{"weights": "v2"\}'""",
            ),
            ({"identity": {"weights": "v1"}, "processor": "npy"}, 5, "processor was '.*post.py:save' and is 'npy'"),
            (
                {"identity": {"weights": "v1"}, "tensors": {"values": ("float32", (4, 7))}, "device": "cpu"},
                5,
                r"values was 'float32\(6,\)' and is 'float32\(7,\)'",
            ),
            ({"identity": {"weights": "v1"}}, 3, "the loop gave 12 items, and the earlier run finished items up to 19"),
        ):
            with self.subTest(options):
                printed = self.work.run(batches=batches, code=1, resume=True, **options)
                self.assertRegex(printed.splitlines()[-1], f"BadArgument: .*{text}")
                self.assertEqual(before, self.work.results())

    def test_a_run_with_own_consumers_resumes(self):
        options = {"run_dir": str(self.run_dir), "resume": True}
        reader = """
            import sys, offramp
            keys = [sample.key for slab in offramp.Consumer(sys.argv[1]) for sample in slab.samples]
            print(len(keys))
        """
        loop = self.work.loop_with(options, dies="noted 5")
        wait_for(lambda: (self.run_dir / "live/endpoint").exists(), "a run")
        consumer = self.python(reader, self.run_dir)
        loop.wait(120)
        self.assertEqual(-signal.SIGKILL, loop.returncode, loop.communicate()[1])
        consumer.kill()  # else it waits for another producer
        loop = self.work.loop_with(options)
        wait_for(lambda: str(loop.pid) in self.text_of("live/endpoint"), "the next run")
        read = self.end(self.python(reader, self.run_dir))
        self.end(loop)
        self.assertEqual(int(read), ROWS * self.work.submitted())
        self.assertLess(int(read), ROWS * BATCHES)


@needs_numpy
class Dropping(Loops):
    def test_dropped_batches_are_repeated_by_a_resumed_loop(self):
        gate = self.work.close_gate("k0")
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        options = {
            "output": self.work.output,
            "processor": f"{self.post}:save",
            "consumers": 1,
            "when_full": "drop",
            "slabs": 2,
            "samples_per_slab": 1,
        }
        batches = [([f"k{number}"], number) for number in range(2000)]
        with offramp.Egress(**options) as egress:
            for keys, number in egress.pending(batches):
                egress.submit(self.values(number), keys)
            wait_for(lambda: egress.stats().samples_dropped == len(batches) - 2, "that all but two are dropped")
            wait_for(
                lambda: len(egress._checkpoint._submitted) + len(egress._checkpoint._open) <= 2,
                "that nothing more is kept",
            )
            gate.unlink()
        made = self.work.results()
        with offramp.Egress(**{**options, "when_full": "wait"}, resume=True) as egress:
            submitted = 0
            for keys, number in egress.pending(batches[:40]):
                egress.submit(self.values(number), keys)
                submitted += 1
        self.assertLessEqual(38, submitted)
        self.assertEqual(
            {f"k{number}.bin" for number in range(40)} | set(made) - {"records.jsonl"},
            set(self.work.results()) - {"records.jsonl"},
        )

    def test_a_resumed_loop_repeats_what_waited_and_was_dropped(self):
        gate = self.work.close_gate("k0")
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        options = {"output": self.work.output, "processor": f"{self.post}:save", "consumers": 1}
        batches = [([f"k{number}"], number) for number in range(500)]
        with offramp.Egress(**options, when_full="drop-oldest", slabs=4, samples_per_slab=1) as egress:
            for keys, number in egress.pending(batches):
                egress.submit(self.values(number), keys)
            wait_for(lambda: egress.stats().samples_dropped > 0, "that some are dropped")
            gate.unlink()
        made = set(self.work.results()) - {"records.jsonl"}
        self.assertIn("k499.bin", made, "the last batch was the newest")
        self.assertLess(len(made), len(batches))
        with offramp.Egress(**options, resume=True) as egress:
            submitted = set()
            for keys, number in egress.pending(batches):
                egress.submit(self.values(number), keys)
                submitted |= {f"{key}.bin" for key in keys}
        every = {f"k{number}.bin" for number in range(500)}
        self.assertEqual(every - made, submitted)
        self.assertEqual(every, set(self.work.results()) - {"records.jsonl"})

    def values(self, number):
        import numpy

        return numpy.full((1, 3), number, "float32")


@needs_numpy
class Moved(Loops):
    def test_a_moved_output_ends_the_loop_which_resumes_later(self):
        for empty_one in (False, True):
            with self.subTest(empty_one=empty_one):
                place = self.place(f"moved-{empty_one}")
                away = place.output.with_name("away")
                gates = [place.close_gate(key) for key in ("b006-0", "b007-0")]
                loop = place.loop()
                noted = place.output / ".offramp-egress"
                wait_for(
                    lambda noted=noted, loop=loop: (
                        loop.poll() is not None or noted.exists() and b'\n{"done"' in noted.read_bytes()
                    ),
                    "something done",
                )
                self.assertIsNone(loop.poll(), loop.poll() is not None and loop.communicate())
                place.output.rename(away)
                if empty_one:
                    place.output.mkdir()
                for gate in gates:
                    gate.unlink()
                printed = self.end(loop, 1)
                self.assertIn("was moved, unmounted or replaced", printed)
                wait_for(lambda place=place: not processes_of(place.folder), "that its consumers are gone")
                self.assertEqual(
                    {},
                    results(place.output) if place.output.exists() else {},
                    "results were written into the other folder",
                )
                if place.output.exists():
                    shutil.rmtree(place.output)
                done = sum(
                    end - begin
                    for line in (away / ".offramp-egress").read_text().splitlines()[1:]
                    for begin, end, _ in json.loads(line)["done"]
                )
                self.assertLessEqual(done, len([name for name in results(away) if name.endswith(".bin")]))
                away.rename(place.output)
                self.assertLess(place.resume(), BATCHES)
                self.assertEqual(self.undisturbed(), place.results())


class Pending(unittest.TestCase):
    """Skipped batches and detected differences."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-python-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def checkpoint(self, resume=True):
        return Checkpoint(self.folder, {"identity": "a"}, "work", resume)

    def note(self, *batches):
        """Records completed batches: (first item, samples, keys)."""
        checkpoint = self.checkpoint(False)
        checkpoint.require_same([["x", "float32", [4, 2]]])
        for batch in batches:
            checkpoint.submitted(*batch)
        checkpoint.completed([(first, first + samples) for first, samples, _ in batches])
        checkpoint.write()
        checkpoint.close()

    def skipped(self, *batches):
        comparison = Comparison(self.checkpoint())
        return [comparison.skips(*batch) for batch in batches]

    def test_another_loops_new_checkpoint_stays(self):
        one, other = (Checkpoint(self.folder, {"identity": "a"}, work, False) for work in ("one", "other"))
        for checkpoint in (one, other):
            checkpoint.begin(in_place=False)
        new = os.path.join(self.folder, ".offramp-egress.new")
        one.close()
        with open(new, encoding="utf-8") as file:
            self.assertEqual("other", json.loads(file.read())["work"])
        other.close()
        self.assertEqual([], os.listdir(self.folder))

    def test_only_finished_batches_are_skipped(self):
        self.note((0, 4, b"a"), (4, 4, b"b"), (12, 2, b"d"))
        self.assertEqual(
            [True, True, False, True, False],
            self.skipped((0, 4, b"a"), (4, 4, b"b"), (8, 4, b"c"), (12, 2, b"d"), (14, 4, b"e")),
        )

    def test_other_keys_order_or_sizes_are_detected(self):
        self.note((0, 4, b"a"), (4, 4, b"b"))
        for batches, text in (
            (((0, 4, b"a"), (4, 4, b"x")), "items 0 to 7 are done, and they had other keys"),
            (((0, 4, b"b"), (4, 4, b"a")), "had other keys"),
            (((0, 8, b"ab"),), "had other keys"),
            (((0, 5, b"a"), (5, 5, b"b")), "items 5 to 9 is partly done"),
        ):
            with self.subTest(batches), self.assertRaisesRegex(offramp.BadArgument, text):
                self.skipped(*batches)

    def test_a_key_between_finished_ones_is_named(self):
        for name in ("a.nii.gz", "c.nii.gz"):
            pathlib.Path(self.folder, name).touch()
        self.note((0, 1, b"a\0"), (1, 1, b"c\0"))
        with self.assertRaisesRegex(offramp.BadArgument, r"other keys: the loop now gives 'b', which has no result\. "):
            self.skipped((0, 1, b"a\0"), (1, 1, b"b\0"))
        pathlib.Path(self.folder, "b.nii.gz").touch()  # all keys have results
        with self.assertRaisesRegex(offramp.BadArgument, r"they had other keys\. "):
            self.skipped((0, 1, b"a\0"), (1, 1, b"b\0"))
        for name in "abc":
            pathlib.Path(self.folder, f"{name}.nii.gz").unlink()
        with self.assertRaisesRegex(offramp.BadArgument, r"they had other keys\. "):
            self.skipped((0, 1, b"a\0"), (1, 1, b"b\0"))

    def test_a_batch_is_done_once_all_its_items_are(self):
        checkpoint = self.checkpoint(False)
        checkpoint.submitted(0, 4, b"a")
        checkpoint.submitted(4, 4, b"b")
        checkpoint.completed([(0, 3)])
        checkpoint.completed([(5, 8)])
        checkpoint.write()
        self.assertEqual(self.checkpoint().earlier.list(), [])
        checkpoint.completed([(3, 4)])
        checkpoint.write()
        self.assertEqual([Done(0, 4, hash_of(0, b"a"))], self.checkpoint().earlier.list())
        checkpoint.completed([(4, 5)])
        checkpoint.write()
        self.assertEqual([(0, 8)], [each[:2] for each in self.checkpoint().earlier.list()])
        checkpoint.close()

    def test_a_batch_whose_tensors_were_changed_is_not_done(self):
        checkpoint = self.checkpoint(False)
        for first in (0, 4, 8):
            checkpoint.submitted(first, 4, b"a")
        checkpoint.changed(4)
        checkpoint.completed([(0, 12)])
        checkpoint.write()
        checkpoint.close()
        self.assertEqual([(0, 4), (8, 12)], [each[:2] for each in self.checkpoint().earlier.list()])

    def test_dropped_batches_are_forgotten_and_not_done(self):
        checkpoint = self.checkpoint(False)
        for number in range(6):
            checkpoint.submitted(4 * number, 4, b"a")
        checkpoint.completed([(0, 4), (6, 8)], [(4, 6), (12, 24)])  # part of the second, and the last three
        checkpoint.completed([(8, 12), (12, 14)])
        checkpoint.write()
        checkpoint.close()
        self.assertEqual([(0, 4), (8, 12)], [each[:2] for each in self.checkpoint().earlier.list()])
        self.assertEqual(([], {}, 0), (checkpoint._firsts, checkpoint._open, len(checkpoint._submitted)))

    def test_a_loop_that_drops_for_days_needs_bounded_memory(self):
        """Counts entries for repeated groups of three batches: one done, one dropped, one changed."""
        with unittest.mock.patch("offramp._checkpoint.MOST_RANGES", 1000):
            checkpoint, most = self.checkpoint(False), 0
            for number in range(0, 300_000, 3):
                for first in range(number, number + 3):
                    checkpoint.submitted(first, 1, b"a")
                checkpoint.changed(number + 2)
                checkpoint.completed([(number, number + 1), (number + 2, number + 3)], [(number + 1, number + 2)])
                most = max(
                    most,
                    len(checkpoint._submitted)
                    + len(checkpoint._open)
                    + len(checkpoint._firsts)
                    + len(checkpoint._done.list()),
                )
                if number % 300 == 0:
                    checkpoint.write()
            checkpoint.write()
            checkpoint.close()
            self.assertLess(most, 2000)
            self.assertLess(os.path.getsize(f"{self.folder}/.offramp-egress"), 3 << 20)
            earlier = self.checkpoint().earlier
            self.assertEqual([True, False, False], [earlier.around(299_997 + more) is not None for more in range(3)])

    def test_beyond_the_limit_the_shortest_ranges_are_forgotten(self):
        done = DoneBatches()
        done.add(Done(0, 1000, 7))
        for number in range(3 * MOST_RANGES):
            done.add(Done(2000 + 4 * number, 2001 + 4 * number, 1))
            self.assertLess(len(done.list()), 2 * MOST_RANGES) if number % 1000 == 0 else None
        kept = done.list()
        self.assertEqual([Done(0, 1000, 7), Done(2000 + 4 * number, 2001 + 4 * number, 1)], [kept[0], kept[-1]])
        self.assertEqual(kept, sorted(kept))
        self.assertIsNone(done.around(2000))

    def test_a_durable_checkpoint_accepts_folders_that_cannot_be_flushed(self):
        fsync = os.fsync

        def flush(file):
            if os.path.isdir(f"/proc/self/fd/{file}"):
                raise OSError(problem, os.strerror(problem))
            fsync(file)

        for problem, refused in ((errno.EINVAL, False), (errno.EIO, True), (errno.EROFS, True)):
            checkpoint = Checkpoint(self.folder, {"identity": "a"}, "work", False, durable=True)
            with self.subTest(errno.errorcode[problem]), unittest.mock.patch("os.fsync", flush):
                with self.assertRaises(offramp.CannotWrite) if refused else contextlib.nullcontext():
                    checkpoint.begin(in_place=True)
            checkpoint.close()

    def test_a_replacing_folder_gets_no_checkpoint(self):
        for how in ("appended", "rewritten"):
            with self.subTest(how):
                checkpoint = self.checkpoint(False)
                checkpoint.begin(in_place=True)
                shutil.move(self.folder, f"{self.folder}-away")
                os.mkdir(self.folder)
                checkpoint.submitted(0, 4, b"a")
                checkpoint.completed([(0, 4)])
                checkpoint._bytes = 1 << 30 if how == "rewritten" else checkpoint._bytes
                with self.assertRaisesRegex(offramp.CannotWrite, "another folder has its name.*resume=True"):
                    checkpoint.write()
                self.assertEqual([], os.listdir(self.folder))
                os.rmdir(self.folder)
                shutil.move(f"{self.folder}-away", self.folder)
                self.assertEqual([], self.checkpoint().earlier.list(), "nothing was recorded")
                checkpoint.write()
                checkpoint.close()
                self.assertEqual([(0, 4)], [each[:2] for each in self.checkpoint().earlier.list()])

    def test_launchers_lock_is_shared_but_not_by_a_forked_child(self):
        lock = os.path.join(self.folder, ".offramp-lock")
        launcher = os.open(lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(launcher, fcntl.LOCK_SH)
        checkpoint = self.checkpoint(False)
        checkpoint.begin(in_place=True)
        os.close(launcher)  # it died

        def is_free():
            with open(lock) as another:
                try:
                    fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

        self.assertFalse(is_free())
        ends, keeps = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(keeps)
            os.read(ends, 1)
            os._exit(0)
        checkpoint.close()
        self.assertTrue(is_free(), "the child has the lock")
        os.close(keeps)
        os.waitpid(child, 0)
        os.close(ends)

    def test_a_partial_write_replaces_nothing_and_is_reported(self):
        self.note(*((number * 8, 4, b"a") for number in range(4000)))
        limited = """
            import resource, signal, sys
            import offramp
            from offramp._checkpoint import Checkpoint

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            checkpoint = Checkpoint(sys.argv[1], {"identity": "a"}, "work", True)
            if sys.argv[2] == "appended":
                checkpoint.begin(in_place=True)
            written = 30_000 if sys.argv[2] == "rewritten" else checkpoint._file.tell() + 10
            resource.setrlimit(resource.RLIMIT_FSIZE, (written, written))
            checkpoint.submitted(4, 4, b"b")
            checkpoint.completed([(4, 8)])
            try:
                checkpoint.write()
            except offramp.CannotWrite as problem:
                print(problem)
            checkpoint.close()
        """
        for how in ("rewritten", "appended"):
            with self.subTest(how):
                printed = subprocess.run(
                    [sys.executable, "-B", "-c", textwrap.dedent(limited), self.folder, how],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                self.assertIn("cannot be written: File too large", printed)
                self.assertEqual(4000, len(self.checkpoint().earlier.list()))
                self.assertEqual([".offramp-egress"], os.listdir(self.folder))

    def test_a_second_loop_leaves_the_file_to_the_first(self):
        self.note((0, 4, b"a"))
        first, second = self.checkpoint(), self.checkpoint()
        first.begin(in_place=True)
        second.begin(in_place=False)  # while the first loop still runs
        first.submitted(4, 4, b"b")
        first.completed([(4, 8)])
        first.write()
        second.close()
        first.close()
        self.assertEqual([(0, 8)], [each[:2] for each in self.checkpoint().earlier.list()])

    def test_ranges_merge_in_any_order(self):
        for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (0, 2, 1, 1, 3)):
            done = DoneBatches()
            for number in order:
                done.add(Done(number * 2, number * 2 + 2, number))
            self.assertEqual([Done(0, 8, 6)], done.list())

    def test_unknown_lines_are_ignored_and_other_files_refused(self):
        self.note((0, 4, b"a"))
        path = f"{self.folder}/.offramp-egress"
        with open(path, "ab") as file:
            # the last line is incomplete
            file.write(b'nonsense\n{"done": 3}\n{"done": [[9, 3, "00"]]}\n[]\n{"done": [[4, 8, "1"]]}')
        self.assertEqual([(0, 4)], [each[:2] for each in self.checkpoint().earlier.list()])
        for text in (
            b"",
            b"my notes\n",
            b"[]\n",
            b'{"offramp_egress": 9, "work": "w", "identity": {}, "tensors": []}\n',
        ):
            with self.subTest(text), open(path, "wb") as file:
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(offramp.BadArgument, "is not a checkpoint of an Egress"):
                    self.checkpoint()

    @needs_numpy
    def test_a_number_of_samples_may_be_numpys(self):
        import numpy

        egress = offramp.Egress(f"{self.folder}/run")
        self.assertEqual([[1, 2]], list(egress.pending([[1, 2]], keys=lambda batch: numpy.int64(len(batch)))))
        egress.close()

    def test_batches_have_keys_or_a_number_of_samples(self):
        egress = offramp.Egress(f"{self.folder}/run")
        self.assertEqual([(["a"], 1), (("b", "c"), 2)], list(egress.pending([(["a"], 1), (("b", "c"), 2)])))
        self.assertEqual([{"key": "ab"}], list(egress.pending([{"key": "ab"}], keys=lambda batch: list(batch["key"]))))
        self.assertEqual([[1, 2], []], list(egress.pending([[1, 2], []], keys=len)))
        with self.assertRaisesRegex(offramp.BadArgument, "keys returned -1 for a batch"):
            list(egress.pending([0], keys=lambda batch: -1))
        for batch, kind, text in (
            ({"key": "a"}, offramp.BadArgument, "Pass keys=, to return its keys"),
            ("ab", offramp.BadArgument, "keys=len"),
        ):
            with self.subTest(batch), self.assertRaisesRegex(kind, text):
                list(egress.pending([batch]))
        for keys, text in (
            (["a"], r"keys is \['a'\]. Give a function"),
            (lambda batch: None, "keys is None. Give a list"),
            (lambda batch: {"a", "b"}, "keys is a set, which is unordered"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                list(egress.pending([0], keys))
        egress.close()

    @needs_numpy
    def test_batches_that_pending_did_not_yield_are_refused(self):
        import numpy

        def rows(number):
            return numpy.zeros((number, 2), "float32")

        egress = offramp.Egress(f"{self.folder}/run", slabs=8, resume=True)
        given = egress.pending([(["a", "b"], 0), (["c"], 0), (["d"], 0), (["e"], 0)])
        next(given)
        for keys, text in (
            (["a"], "Submit each batch of pending.. once, whole"),
            (["b", "a"], "with the same keys"),
            (None, "has not yielded"),
            (["c", "d"], "has not yielded"),
        ):
            with self.subTest(keys), self.assertRaisesRegex(offramp.BadArgument, text):
                egress.submit(rows(len(keys or "ab")), keys)
        with self.assertRaisesRegex(offramp.BadArgument, "pending.. numbers the items"):
            egress.submit(rows(2), ["a", "b"], items=[0, 1])
        egress.submit(rows(2), ["a", "b"])
        with self.assertRaisesRegex(offramp.BadArgument, "was submitted before"):
            egress.submit(rows(2), ["a", "b"])
        next(given), next(given), next(given)
        egress.submit(rows(1), ("d",))  # skips one
        with self.assertRaisesRegex(offramp.BadArgument, "in its order"):
            egress.submit(rows(1), ["c"])
        egress.submit(rows(1), ["e"])
        self.assertEqual(4, egress.stats().samples_submitted)
        egress.close()

    def test_pending_may_be_called_for_several_loaders(self):
        checkpoint = Checkpoint(f"{self.folder}/run", {"identity": "null", "processor": ""}, "work", False)
        os.mkdir(checkpoint.folder, 0o700)
        for first, key in ((0, b"a"), (1, b"b"), (2, b"c")):
            checkpoint.submitted(first, 1, key + b"\0")
        checkpoint.completed([(0, 3)])
        checkpoint.write()
        checkpoint.close()
        egress = offramp.Egress(checkpoint.folder, resume=True)
        self.assertEqual([], list(egress.pending([(["a"], 1)])))
        with self.assertRaisesRegex(
            offramp.BadArgument, "the loop gave 1 items, and the earlier run finished items up to 2"
        ):
            egress.drain()
        self.assertEqual([(["d"], 4)], list(egress.pending([(["b"], 2), (["c"], 3), (["d"], 4)])))
        egress.close()
        egress = offramp.Egress(checkpoint.folder, resume=True)
        self.assertEqual([], list(egress.pending([(["a"], 1), (["b"], 2)])))
        with self.assertRaisesRegex(offramp.BadArgument, "had other keys"):
            list(egress.pending([(["x"], 3)]))
        egress.close()

    @needs_numpy
    def test_once_the_checkpoint_is_writable_batches_are_accepted(self):
        import numpy

        run_dir, rows = pathlib.Path(self.folder, "run"), numpy.ones((1, 2), "float32")
        noted = run_dir / ".offramp-egress"
        egress = offramp.Egress(run_dir, slabs=2, resume=True, samples_per_slab=1)
        egress.submit(rows, ["a"])
        noted.rename(f"{noted}-away")
        noted.mkdir()  # the file cannot be replaced
        egress._checkpoint._bytes = 1 << 30  # forces a rewrite
        reader = subprocess.Popen(
            [sys.executable, "-c", "import sys, offramp\nfor slab in offramp.Consumer(sys.argv[1]): pass", str(run_dir)]
        )
        self.addCleanup(reader.wait)
        self.addCleanup(egress.close)
        wait_for(lambda: egress._run._completions.problem, "that the checkpoint cannot be written")
        with self.assertRaisesRegex(offramp.CannotWrite, "cannot be written: Is a directory"):
            egress.submit(rows, ["b"])
        noted.rmdir()
        egress.submit(rows, ["b"])
        egress.drain()
        egress.close()
        self.assertEqual(3, len(noted.read_text().splitlines()))

    @needs_numpy
    def test_without_keys_batches_are_not_confused(self):
        import numpy

        egress = offramp.Egress(f"{self.folder}/run", slabs=8, resume=True)
        given = egress.pending([[0] * 2, [1] * 2, [2] * 3, [3] * 3], keys=len)
        next(given), next(given)  # skips the first one
        with self.assertRaisesRegex(offramp.BadArgument, "Submit each batch before you take the next one"):
            egress.submit(numpy.ones((2, 2), "float32"))
        self.assertEqual(0, egress.stats().samples_submitted)
        next(given)
        egress.submit(numpy.ones((3, 2), "float32"))
        next(given)
        egress.submit(numpy.ones((3, 2), "float32"))
        self.assertEqual(6, egress.stats().samples_submitted)
        egress.close()
