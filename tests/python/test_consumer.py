"""Python consumers of another process's run: their data, their end, and slabs that are not accepted."""

import ctypes
import importlib.util
import json
import math
import mmap
import os
import pathlib
import signal
import sys
import threading
import unittest
import warnings

import offramp
from offramp import _abi, _consumer
from offramp._memory import Mappings
from world import ROOT, World, needs_numpy, wait_for

# Batches of 8 samples; sample r of batch b has the values b * 1000 + r, as uint16 beside its index.
PRODUCER = """
    import sys, time, numpy, offramp
    run_dir, batches, consumers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with offramp.Egress(run_dir, {"values": ("float32", (8, 50)), "index": ("uint16", (8,))}, "cpu", name="made up", samples_per_slab=8, max_failures=100) as egress:
        while egress.stats().consumers < consumers:       # a consumer that connects after the end cannot know the outcome
            time.sleep(0.01)
        for batch in range(batches):
            numbers = batch * 1000 + numpy.arange(8)
            egress.submit({"values": numpy.repeat(numbers.astype("float32")[:, None], 50, axis=1), "index": numbers.astype("uint16")},
                          [f"b{batch}/r{row}" for row in range(8)])
        print("submitted", flush=True)
        try:
            egress.drain()
        except offramp.ConsumersFailed as problem:
            print(problem.code, problem)
        stats = egress.stats()
        print(stats.samples_completed, stats.samples_dead_lettered)
        egress.close()
"""
COUNTING = """
    import sys, offramp
    def count(slab):
        for sample, tensors in slab:
            assert (tensors["values"] == tensors["index"]).all()
            print(sample.key, int(tensors["index"]), flush=True)
    offramp.Consumer(sys.argv[1]).run(count)
"""


def fail(slab):
    raise ZeroDivisionError(slab.samples[0].key)


def expected(batches):
    return sorted(f"b{batch}/r{row} {batch * 1000 + row}" for batch in range(batches) for row in range(8))


def states_of(pid):
    """The states of a process's threads."""
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/stat")
    return {file.read_text().rpartition(")")[2].split()[0] for file in files}


@needs_numpy
class Consumers(World):
    def produce(self, batches, consumers=0):
        """Starts a producer, which submits once `consumers` are connected, and waits for its run."""
        producer = self.python(PRODUCER, self.run_dir, batches, consumers)
        self.addCleanup(self.require_no_memory_left, [producer.pid])
        wait_for(lambda: f"producer_pid={producer.pid}\n" in self.text_of("live/endpoint"), "the run")
        return producer

    def finish(self, producer, batches):
        """Processes the remaining slabs with another consumer."""
        printed = self.end(self.python(COUNTING, self.run_dir)).splitlines()
        self.read_line(producer)
        self.assertEqual(f"{8 * batches} 0\n", self.end(producer))
        return printed

    def released_samples(self):
        status = self.run_dir / "status.json"
        return json.loads(status.read_text())["released_samples"] if status.exists() else 0

    def test_each_sample_is_seen_once_by_one_of_two_processes(self):
        producer = self.produce(40, consumers=2)
        consumers = [self.python(COUNTING, self.run_dir) for _ in range(2)]
        self.read_line(producer)
        self.assertEqual("320 0\n", self.end(producer))
        self.assertEqual(
            expected(40), sorted(line for consumer in consumers for line in self.end(consumer).splitlines())
        )

    def test_a_loop_reads_the_submitted_data(self):
        import numpy

        producer = self.produce(3)
        seen = []
        for slab in offramp.Consumer(self.run_dir):
            self.assertEqual("made up", slab.name)
            self.assertEqual(["values", "index"], [info.name for info in slab.tensors])
            self.assertEqual(("float32", (len(slab), 50), (50, 1)), (slab.tensors[0].dtype.name, *slab.tensors[0][2:]))
            self.assertEqual((numpy.uint16, (len(slab),)), (slab["index"].dtype, slab["index"].shape))
            self.assertIs(slab["index"], slab["index"])
            for array in (slab["values"], slab["values"][1:], numpy.asarray(slab["values"])):
                with self.assertRaises(ValueError):
                    array[0] = 1
                with self.assertRaises(ValueError):
                    array.flags.writeable = True
            with self.assertRaisesRegex(KeyError, "no tensor 'logits'. It has values, index"):
                slab["logits"]
            self.assertTrue(slab.still_current())
            slab.progress()
            for sample, tensors in slab:
                self.assertEqual(
                    (sample.batch, sample.item), (int(sample.key[1]), sample.batch * 8 + int(sample.key[-1]))
                )
                self.assertEqual(slab.samples[sample.row], sample)
                seen.append(f"{sample.key} {tensors['index']}")
        self.assertEqual(expected(3), sorted(seen))
        self.assertEqual(50, len(tensors["values"].tolist()), "views bound after the loop can still be read")
        self.read_line(producer)
        self.assertEqual("24 0\n", self.end(producer))

    def test_no_read_of_a_slab_faults(self):
        """The mapping already contains the pages, up to 4096 for 16 MiB."""
        kernel = tuple(map(int, os.uname().release.split(".")[:2]))
        if kernel < (5, 14):
            self.skipTest("a kernel without MADV_POPULATE_READ")
        reader = self.python(
            """
            import resource, sys, offramp
            for slab in offramp.Consumer(sys.argv[1]):
                values = slab["output"]
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                values.max()
                print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        """,
            self.run_dir,
        )
        import numpy

        with offramp.Egress(self.run_dir, slabs=3) as egress:
            for _ in range(3):
                egress.submit(numpy.zeros((4, 1 << 20), "float32"))
        faults = [int(line) for line in self.end(reader).split()]
        self.assertEqual(3, len(faults))
        self.assertLess(max(faults), 64, faults)

    def test_a_slab_after_its_turn_raises_turn_over(self):
        producer = self.produce(2)
        slabs = list(offramp.Consumer(self.run_dir))
        for use in (
            lambda slab: slab["values"],
            lambda slab: slab.samples,
            lambda slab: slab.tensors,
            list,
            len,
            offramp.Slab.progress,
            offramp.Slab.still_current,
        ):
            with self.assertRaisesRegex(offramp.TurnOver, "turn is over"):
                use(slabs[0])
        self.assertIn("after its turn", repr(slabs[0]))
        self.read_line(producer)
        self.assertEqual("16 0\n", self.end(producer))

    def test_a_function_that_keeps_a_view_fails_its_slab(self):
        producer = self.produce(1)
        keeper = self.python(
            """
            import sys, offramp
            kept = []
            try:
                offramp.Consumer(sys.argv[1]).run(lambda slab: kept.append(slab["values"][2:4]))
            except offramp.ViewKept as problem:
                print(problem)
            print(kept[0].sum() >= 0)      # the memory is still mapped
        """,
            self.run_dir,
        )
        printed = self.end(keeper)
        self.assertIn(
            "kept a view of its slab's tensor 'values'. Copy data that you keep: numpy.array(view)\nTrue", printed
        )
        self.assertEqual(expected(1), sorted(self.finish(producer, 1)))

    def test_a_loop_that_keeps_views_issues_a_warning(self):
        producer = self.produce(4)
        kept = []
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for slab in offramp.Consumer(self.run_dir):
                kept.append(slab["index"])
                values = slab["values"]  # noqa: F841 - bound beyond the slab's turn, like all variables of a loop
        self.assertEqual([offramp.KeptViewWarning], [each.category for each in seen])
        self.assertIn("'index' is still referenced", str(seen[0].message))
        self.read_line(producer)
        self.assertEqual("32 0\n", self.end(producer))

    def test_retry_returns_the_slab(self):
        producer = self.produce(2)

        def fail_with_retry(slab):
            raise offramp.Retry("the sink is away")

        consumer = offramp.Consumer(self.run_dir)
        with self.assertRaisesRegex(offramp.Retry, "the sink is away"):
            consumer.run(fail_with_retry)
        seen = []
        self.assertTrue(consumer.run(lambda slab: seen.extend(sample.key for sample, _ in slab)))
        self.assertEqual([line.split()[0] for line in expected(2)], sorted(seen))
        self.read_line(producer)
        self.assertEqual("16 0\n", self.end(producer))

    def test_slab_of_a_failed_function_goes_to_another_consumer(self):
        producer = self.produce(1)
        consumer = offramp.Consumer(self.run_dir)
        with self.assertRaisesRegex(ZeroDivisionError, "b0/r0"):
            consumer.run(fail)
        self.assertEqual(expected(1), self.finish(producer, 1))

    def test_the_loop_continues_after_failed_and_reject(self):
        producer = self.produce(3)
        calls = []

        def fail_once(slab):
            calls.append(slab.samples[0].key)
            if calls.count("b0/r0") == 1 and calls[-1] == "b0/r0":
                raise offramp.Failed("not today")
            if calls[-1] == "b1/r0":
                raise offramp.Reject("never")

        self.assertTrue(offramp.Consumer(self.run_dir).run(fail_once))
        self.assertEqual({"b0/r0": 2, "b1/r0": 1, "b2/r0": 1}, {key: calls.count(key) for key in calls})
        self.read_line(producer)
        self.assertEqual(
            "84 8 samples were dead-lettered, since post-processing failed: samples 'b1/r0' to 'b1/r7': a consumer rejected it: never. "
            f"Inspect them: {ROOT}/launch/offramp dead-letters list --run-dir {self.run_dir}\n16 8\n",
            self.end(producer),
        )

    def test_leaving_a_loop_returns_its_slab(self):
        producer = self.produce(3)
        consumer = offramp.Consumer(self.run_dir)
        for slab in consumer:
            first = slab.samples[0].key
            break
        with self.assertRaisesRegex(offramp.TurnOver, "turn is over"):
            len(slab)
        with self.assertRaises(ZeroDivisionError):
            for slab in consumer:
                1 / 0
        seen = [sample.key for slab in consumer for sample, _ in slab]
        self.assertIn(first, seen)
        self.assertEqual([line.split()[0] for line in expected(3)], sorted(seen))
        self.assertEqual([], [thread.name for thread in threading.enumerate() if thread.name.startswith("offramp")])
        self.read_line(producer)
        self.assertEqual("24 0\n", self.end(producer))

    def test_producers_death_is_reported_even_after_another_run_starts(self):
        for when, message in (
            ("once the other run is there", "another run uses its directory now"),
            ("before", "the producer is dead"),
        ):
            with self.subTest(f"it sees the death {when}"):
                self.run_dir = self.folder / when
                killed = self.produce(1, consumers=2)
                consumer = self.python(
                    """
                    import sys, offramp
                    try:
                        list(offramp.Consumer(sys.argv[1]))
                    except (offramp.NoSuchRun, offramp.ProducerGone) as problem:
                        print(problem)
                """,
                    self.run_dir,
                )
                wait_for(lambda: '"consumers": [\n  {' in self.text_of("status.json"), "that the run admits it")
                if when != "before":
                    consumer.send_signal(signal.SIGSTOP)
                    wait_for(lambda: states_of(consumer.pid) == {"T"}, "that all its threads have stopped")
                killed.kill()
                killed.wait()
                if when == "before":
                    self.assertIn(message, self.end(consumer))
                other = self.produce(1, consumers=1)
                if when != "before":
                    consumer.send_signal(signal.SIGCONT)
                    self.assertIn(message, self.end(consumer))
                self.finish(other, 1)

    def test_stop_ends_the_loop_after_the_current_slab(self):
        producer = self.produce(3)
        consumer = offramp.Consumer(self.run_dir)
        done = []
        for slab in consumer:
            done.extend(sample.key for sample, _ in slab)
            consumer.stop()
        self.assertFalse(consumer.run(done.append), "run() returns immediately after stop()")
        self.assertEqual(24, len(done) + len(self.finish(producer, 3)))

    def test_ctrl_c_ends_a_waiting_loop_and_run(self):
        egress = offramp.Egress(self.run_dir, {"values": ("float32", (1, 1))}, "cpu")
        self.addCleanup(egress.close)
        waiting = """
            import sys, offramp
            print("begun", flush=True)
            {}
        """
        for use in ("list(offramp.Consumer(sys.argv[1]))", "offramp.Consumer(sys.argv[1]).run(print)"):
            consumer = self.python(waiting.format(use), self.run_dir)
            self.read_line(consumer)
            wait_for(lambda: egress.stats().consumers == 1, "a consumer")
            consumer.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", self.end(consumer, -signal.SIGINT))
            wait_for(lambda: egress.stats().consumers == 0, "no consumer")

    def test_second_ctrl_c_while_a_loop_ends_returns_the_slab(self):
        """At each line of _leave(): the thread ends, the slab is returned, and the consumer can run again."""
        producer = self.produce(1)
        consumer = offramp.Consumer(self.run_dir)
        leave = _consumer._Loop._leave.__code__
        for line in {line for _, _, line in leave.co_lines() if line and line > leave.co_firstlineno}:
            interrupted = []

            def interrupt(frame, event, argument):
                if frame.f_code is leave and frame.f_lineno == line and event == "line" and not interrupted:
                    interrupted.append(line)
                    raise KeyboardInterrupt
                return interrupt

            loop = iter(consumer)
            next(loop)
            sys.settrace(interrupt)
            try:
                loop.close()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            wait_for(lambda: not consumer._running.locked(), "the end of a loop that was interrupted in _leave()")
        self.assertEqual(expected(1), self.finish(producer, 1))

    def test_interpreter_exits_with_an_abandoned_loop(self):
        producer = self.produce(1)
        self.end(
            self.python("import sys, offramp; loop = iter(offramp.Consumer(sys.argv[1])); next(loop)", self.run_dir)
        )
        self.end(
            self.python(
                """
            import sys, threading, offramp
            begun = threading.Event()
            def read():
                for slab in offramp.Consumer(sys.argv[1]):
                    begun.set()
                    threading.Event().wait()
            threading.Thread(target=read, daemon=True).start()
            begun.wait()
        """,
                self.run_dir,
            )
        )
        self.assertEqual(expected(1), self.finish(producer, 1))

    def test_a_forked_child_cannot_use_the_consumer(self):
        producer = self.produce(1)
        consumer = offramp.Consumer(self.run_dir)
        for _ in consumer:
            child = os.fork()
            if child == 0:
                try:
                    consumer.run(print)
                except offramp.WrongProcess:
                    os._exit(0)
                os._exit(1)
            self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        self.read_line(producer)
        self.assertEqual("8 0\n", self.end(producer))


class WithoutARun(World):
    def test_a_run_that_is_not_there_is_reported(self):
        with self.assertRaisesRegex(offramp.NoSuchRun, str(self.run_dir)):
            list(offramp.Consumer(self.run_dir, wait_for_run=0.01))

    def test_one_loop_at_a_time(self):
        with offramp.Egress(self.run_dir, {"values": ("float32", (1, 1))}, "cpu"):
            consumer = offramp.Consumer(self.run_dir)
            reading = threading.Thread(target=lambda: list(consumer))
            reading.start()
            wait_for(lambda: consumer._running.locked(), "that it runs")
            with self.assertRaisesRegex(offramp.BadArgument, "runs already"):
                next(iter(consumer))
            consumer.stop()
            reading.join()


@needs_numpy
class HandMadeSlab(unittest.TestCase):
    """Hand-made slabs: empty rows, strides, types that NumPy lacks."""

    def slab(self, tensors, holes, bytes_of=b"", rows=()):
        """`rows`: of tensors whose samples differ, (offset, shape) each."""
        memory = mmap.mmap(-1, mmap.PAGESIZE)
        memory.write(bytes_of)
        place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        made = (_abi.Tensor * len(tensors))()
        self.kept = [memory, made]
        for tensor, (name, dtype, shape, strides) in zip(made, tensors):
            tensor.name, tensor.dims, tensor.data = name, len(shape), place
            tensor.dtype = _abi.DTypeCode(*dtype, 1)
            tensor.shape, tensor.strides = (
                (ctypes.c_int64 * len(shape))(*shape),
                (ctypes.c_int64 * len(shape))(*strides),
            )
            if _abi.VARIABLE in shape:
                tensor.data, tensor.rows = None, (_abi.Row * len(rows))()
                for row, (offset, own) in zip(tensor.rows, rows):
                    row.bytes, row.shape = math.prod(own) * dtype[1] // 8, (ctypes.c_int64 * len(own))(*own)
                    row.data = place + offset if row.bytes else None
        samples = (_abi.Sample * len(holes))()
        keys = [ctypes.create_string_buffer(f"k{row}".encode()) for row in range(len(holes))]
        for row, (sample, empty) in enumerate(zip(samples, holes)):
            sample.key, sample.key_bytes, sample.row, sample.item, sample.empty = (
                ctypes.addressof(keys[row]),
                2,
                row,
                70 + row,
                empty,
            )
        self.kept += [samples, keys]
        given = _abi.Slab(
            ctypes.sizeof(_abi.Slab),
            ctypes.sizeof(_abi.Sample),
            ctypes.sizeof(_abi.Tensor),
            ctypes.addressof(samples),
            len(holes),
            len(tensors),
            ctypes.addressof(made),
            b"made up",
        )
        return offramp.Slab(None, None, given, Mappings())

    def test_empty_rows_are_skipped(self):
        slab = self.slab([(b"values", (1, 8), (4, 2), (2, 1))], (1, 0, 1, 0), bytes(range(8)))
        self.assertEqual([("k1", 71, 0, 1, ""), ("k3", 73, 0, 3, "")], [tuple(sample) for sample in slab.samples])
        self.assertEqual([("k1", [2, 3]), ("k3", [6, 7])], [(sample.key, values.tolist()) for sample, values in slab])
        self.assertEqual((2, (4, 2)), (len(slab), slab["values"].shape))

    def test_strides_are_the_producers(self):
        slab = self.slab(
            [(b"values", (0, 16), (1, 2, 3), (6, 1, 2))],
            (0,),
            b"".join(value.to_bytes(2, "little") for value in range(6)),
        )
        self.assertEqual([[[0, 2, 4], [1, 3, 5]]], slab["values"].tolist())

    def test_rows_may_differ_and_lie_anywhere(self):
        """With gaps, in any order; an empty one has no address."""
        slab = self.slab(
            [(b"values", (0, 16), (4, _abi.VARIABLE, _abi.VARIABLE), ())],
            (0, 1, 0, 0),
            b"".join(value.to_bytes(2, "little") for value in range(100)),
            [(80, (2, 3)), (0, (0, 0)), (8, (1, 2)), (0, (5, 0))],
        )
        self.assertEqual(((4, None, None), ()), slab.tensors[0][2:])
        self.assertEqual(
            [("k0", [[40, 41, 42], [43, 44, 45]]), ("k2", [[4, 5]]), ("k3", [[]] * 5)],
            [(sample.key, values.tolist()) for sample, values in slab],
        )
        self.assertEqual([(2, 3), (0, 0), (1, 2), (5, 0)], [values.shape for values in slab["values"]])
        self.assertEqual([False] * 4, [values.flags.writeable for values in slab["values"]])
        if importlib.util.find_spec("torch"):
            self.assertEqual(
                [each.tolist() for each in slab["values"]], [each.tolist() for each in slab.torch("values")]
            )
        empty = self.slab([(b"values", (4, 16), (2, _abi.VARIABLE), ())], (0, 0), rows=[(0, (0,))] * 2)
        if importlib.util.find_spec("torch"):
            self.assertEqual([[], []], [values.tolist() for values in empty.torch("values")])

    def test_a_slab_with_only_empty_rows_yields_nothing(self):
        slab = self.slab([(b"values", (2, 32), (2,), (1,))], (1, 1))
        self.assertEqual(([], 0), (list(slab), len(slab)))

    def test_bfloat16_is_ml_dtypes_or_an_error_that_names_it(self):
        slab = self.slab([(b"values", (4, 16), (2,), (1,))], (0, 0), b"\x80\x3f\x00\x40")
        self.assertEqual("bfloat16", slab.tensors[0].dtype.name)
        try:
            import ml_dtypes
        except ImportError:
            with self.assertRaisesRegex(offramp.BadArgument, "ml_dtypes"):
                slab["values"]
        else:
            self.assertEqual(
                (ml_dtypes.bfloat16, [1.0, 2.0]), (slab["values"].dtype, slab["values"].astype("float32").tolist())
            )
            self.assertFalse(slab["values"].flags.writeable)
            rows = self.slab([(b"values", (4, 16), (1, _abi.VARIABLE), ())], (0,), b"\x80\x3f", [(0, (1,))])["values"]
            self.assertEqual(
                [(ml_dtypes.bfloat16, [1.0])], [(row.dtype, row.astype("float32").tolist()) for row in rows]
            )

    def test_unsupported_element_type_is_reported(self):
        with self.assertRaisesRegex(offramp.Protocol, "type code 5 with 64 bits"):
            self.slab([(b"values", (5, 64), (1,), (1,))], (0,))["values"]
