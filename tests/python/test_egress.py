"""Loops in Python: accepted and refused arguments of an Egress, how long it holds a batch, and its end."""

import collections
import gc
import json
import os
import pathlib
import re
import signal
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock
import warnings
import weakref

import offramp
from offramp._consumers import GiveUps
from offramp._run import Stats, WaitWarner
from world import DTYPES, WATCHDOG_SECONDS, World, needs_numpy, wait_for

# Prints each sample as a line of JSON.
READER = """
    import json, sys, offramp       # its output fits into a pipe, so the test reads it after the run
    for slab in offramp.Consumer(sys.argv[1]):
        infos = {info.name: info.dtype.name for info in slab.tensors}
        for sample in slab.samples:
            values = {name: slab[name][sample.row].tolist() for name in infos}
            print(json.dumps([sample.key, sample.item, infos, values]), flush=True)
"""


class Egresses(World):
    def reader(self):
        return self.python(READER, self.run_dir)

    def seen_by(self, reader):
        return {
            key: (item, types, values) for key, item, types, values in map(json.loads, self.end(reader).splitlines())
        }


class Stalled(unittest.TestCase):
    def warnings_of(self, warner):
        """(time, warning) of consumers that stall, make progress once after 300 s, and stall again."""
        messages = []
        for now in range(1, 400):
            with unittest.mock.patch("offramp._run.time") as clock, warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("default")
                clock.monotonic.return_value = float(now)
                stalled = 0 if now == 300 else 1
                warner.look(lambda: Stats(consumers=2, stalled=stalled))
            messages += [(now, str(each.message)) for each in seen]
        return messages

    def test_warnings_about_stalled_consumers_become_rarer(self):
        messages = self.warnings_of(WaitWarner({"run_dir": b"run", "visibility_timeout_seconds": 0.0}))
        self.assertEqual([1, 31, 61, 121, 241, 301, 331, 361], [now for now, _ in messages])
        self.assertRegex(
            messages[1][1],
            "^1 of 2 consumers made no progress, the first of them for more than 60.0 s, and kill_stalled is off. .*run/status.json",
        )

    def test_kill_stalled_warns_about_remaining_consumers(self):
        messages = self.warnings_of(
            WaitWarner({"run_dir": b"run", "visibility_timeout_seconds": 0.0, "kill_stalled": 1})
        )
        self.assertEqual([6, 36, 71, 141, 281, 306, 336, 371], [now for now, _ in messages])
        self.assertRegex(
            messages[0][1],
            "^1 of 2 consumers made no progress, .* for more than 35.0 s, and kill_stalled has not ended them: they are in this process",
        )


class Outage(unittest.TestCase):
    def test_warnings_about_an_unreachable_sink_become_rarer(self):
        messages, now = [], 0
        reasons = {5: "no route", 70: "refused", 200: "no route"}
        warner = WaitWarner({"run_dir": b"run", "visibility_timeout_seconds": 0.0}, lambda _: reasons.get(now, ""))
        for now in range(1, 400):
            with unittest.mock.patch("offramp._run.time") as clock, warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("default")
                clock.monotonic.return_value = float(now)
                warner.look(lambda: Stats(samples_submitted=9, samples_completed=3 if now < 150 else 4))
            messages += [(now, str(each.message)) for each in seen]
        self.assertEqual([5, 35, 65, 125, 200, 230, 260, 320], [now for now, _ in messages])
        self.assertRegex(messages[1][1], "^consumers cannot write 6 samples: no route. The loop waits, .*run/logs")
        self.assertRegex(messages[3][1], "^consumers cannot write 6 samples: refused")

    def test_an_outage_counts_only_in_the_wait_that_it_delays(self):
        plain = "[run] {}\n".format
        for form in (plain, lambda text: json.dumps({"level": "info", "message": text}) + "\n"):
            with tempfile.TemporaryFile() as output:
                warner = WaitWarner({"run_dir": b"run", "visibility_timeout_seconds": 0.0}, GiveUps(output).reason)

                def give_up(why):
                    for text in (
                        f"consumer-1: error: {why}",
                        "consumer-1 (pid 7) ended with exit code 75; starting it again in 1.0 s",
                    ):
                        output.write(form(text).encode())
                    output.flush()

                def warnings_at(now):
                    with (
                        unittest.mock.patch("offramp._run.time") as clock,
                        warnings.catch_warnings(record=True) as seen,
                    ):
                        warnings.simplefilter("default")
                        clock.monotonic.return_value = now
                        warner.look(lambda: Stats(samples_submitted=9))
                    return [str(each.message).partition(". ")[0] for each in seen]

                give_up("before the first wait")
                self.assertEqual([], warnings_at(1.0))
                warner.begin()
                give_up("before the second wait")
                self.assertEqual([], warnings_at(2.0))
                give_up("no route")
                self.assertEqual(["consumers cannot write 9 samples: no route"], warnings_at(3.0))


@needs_numpy
class Signals(Egresses):
    def test_offramps_threads_receive_no_signals_of_the_program(self):
        program = """
            import os, pathlib, signal, sys
            import numpy, offramp
            from offramp import _launched
            def blocked():
                found = {}
                for task in pathlib.Path("/proc/self/task").iterdir():
                    line = next(line for line in (task / "status").read_text().splitlines() if line.startswith("SigBlk"))
                    found[task.name] = int(line.split()[1], 16)
                return found
            own, mask = set(blocked()), signal.pthread_sigmask(signal.SIG_BLOCK, ())
            lifeline, kept = os.pipe()
            launched = _launched.Launched(_launched.LauncherSettings("", "", "", "", "", "", False), lifeline)
            with offramp.Egress(sys.argv[1], resume=True) as egress:
                egress.submit(numpy.zeros((2, 1), "float32"))
                slabs = iter(offramp.Consumer(sys.argv[1]))
                next(slabs)
                signals = (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGRTMIN)
                open_to = {thread: [number for number in signals if not mask >> number - 1 & 1] for thread, mask in blocked().items() if thread not in own}
                print(len(open_to) >= 7, sum(map(len, open_to.values())), mask == signal.pthread_sigmask(signal.SIG_BLOCK, ()))
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
                os.kill(os.getpid(), signal.SIGUSR1)
                print(signal.sigwait({signal.SIGUSR1}).name)
                slabs.close()
                egress.close()
        """
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.assertEqual("True 0 True\nSIGUSR1\n", self.end(self.python(program, self.run_dir, env=alone)))


@needs_numpy
class Batches(Egresses):
    def test_every_type_arrives_unchanged(self):
        import numpy

        made = {name: numpy.arange(12).reshape(3, 4).astype(name) for name in DTYPES}
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(made, ["a", "b", "c"])
        seen = self.seen_by(reader)
        self.assertEqual(["a", "b", "c"], sorted(seen))
        for row, key in enumerate("abc"):
            item, types, values = seen[key]
            self.assertEqual((row, {name: name for name in made}), (item, types))
            self.assertEqual({name: array[row].tolist() for name, array in made.items()}, values)

    def test_a_single_array_is_named_output_and_items_are_default_keys(self):
        import numpy

        reader = self.reader()
        with offramp.Egress(self.run_dir, device="cpu") as egress:
            egress.submit(numpy.float32([[1], [2], [3]]))
            egress.submit(numpy.float32([[4], [5]]), items=[70, numpy.int64(90)])
            egress.submit(numpy.float32([[6]]), keys=("ä/ö",))
        seen = self.seen_by(reader)
        self.assertEqual(
            {"0": 1, "1": 2, "2": 3, "70": 4, "90": 5, "ä/ö": 6},
            {key: values["output"][0] for key, (_, _, values) in seen.items()},
        )
        self.assertEqual(91, seen["ä/ö"][0])

    def test_its_state_is_shown(self):
        import numpy

        shown = rf"^<offramp.Egress in '{self.run_dir}', "
        with offramp.Egress(self.run_dir) as egress:
            self.assertRegex(repr(egress), shown + "waiting for its first batch, samples: 0 submitted, 0 completed>$")
            egress.submit({"x": numpy.zeros((4, 3), "float32")})
            self.assertRegex(repr(egress), shown + r"open, tensors: x float32 \(4, 3\), samples: 4 submitted, 0 comp")
            consumer = offramp.Consumer(self.run_dir)
            self.assertEqual(f"<offramp.Consumer of '{self.run_dir}'>", repr(consumer))
            for slab in consumer:
                self.assertEqual("<offramp.Slab, samples: 4, tensors: x float32 (4, 3)>", repr(slab))
                self.assertEqual(f"<offramp.Consumer of '{self.run_dir}', running>", repr(consumer))
                break
            self.assertEqual("<offramp.Slab, after its turn>", repr(slab))
            reader = self.reader()
        self.end(reader)
        self.assertRegex(repr(egress), shown + r"closed, tensors: .*, samples: 4 submitted, 4 completed>$")
        self.assertEqual((4, str(self.run_dir)), (egress.stats().samples_completed, egress.run_dir))

    def test_nested_outputs_are_flattened_without_none(self):
        import numpy

        named = collections.namedtuple("Named", "first second")
        one = numpy.ones((2, 1), "int8")
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(
                {
                    "logits": one,
                    "past": None,
                    "hidden_states": (one * 2, one * 3),
                    "inner": {"pair": named(one * 4, None), 7: one * 5},
                },
                ["a", "b"],
            )
        seen = self.seen_by(reader)
        wanted = {
            "logits": [1],
            "hidden_states.0": [2],
            "hidden_states.1": [3],
            "inner.pair.first": [4],
            "inner.7": [5],
        }
        self.assertEqual({"a", "b"}, set(seen))
        self.assertEqual([wanted, wanted], [values for _, _, values in seen.values()])

    def test_batches_may_differ_in_size_and_be_empty(self):
        """The first is not the largest; a large one fills several slabs."""
        import numpy

        for slabs in ({}, {"samples_per_slab": 2, "slabs": 2}):
            with self.subTest(slabs):
                run_dir = f"{self.run_dir}{len(slabs)}"
                reader = self.python(READER, run_dir)
                sizes = (3, 0, 1, 200, 0, 7)
                with offramp.Egress(run_dir, **slabs) as egress:
                    egress.submit(numpy.zeros((0, 5), "int64"), iter(()), [])
                    for first, size in zip((0, 3, 3, 4, 204, 204), sizes):
                        egress.submit(numpy.arange(first, first + size).reshape(size, 1))
                    self.assertEqual(4, egress.stats().batches_submitted)
                seen = self.seen_by(reader)
                self.assertEqual(
                    {str(item): [item] for item in range(211)},
                    {key: values["output"] for key, (_, _, values) in seen.items()},
                )

    def test_submitted_arrays_are_held_until_copied(self):
        import numpy

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4)
        watched = []
        for batch in range(4):  # two are copied, and the others wait for slabs
            array = numpy.full((4, 100), batch, "float32")
            watched.append(weakref.ref(array))
            egress.submit(array, [f"{batch}/{row}" for row in range(4)], copy=False)
            del array
        others = [numpy.full((4, 100), -1, "float32") for _ in range(50)]  # reuse freed memory
        wait_for(lambda: watched[1]() is None, "that copied batches are released without any further call")
        self.assertIsNone(watched[0]())
        self.assertEqual(["held", "held"], ["held" if watch() is not None else "gone" for watch in watched[2:]])
        reader = self.reader()
        egress.drain()
        egress.close()
        self.assertEqual(
            {f"{batch}/{row}": [batch] * 100 for batch in range(4) for row in range(4)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )
        self.assertEqual([None] * 4, [watch() for watch in watched])
        del others

    def test_without_batches_its_threads_sleep_and_a_batch_wakes_them(self):
        import numpy

        def turns():
            """The context switches of the threads that handle batches."""
            found = {}
            for task in pathlib.Path("/proc/self/task").iterdir():
                facts = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                # Python versions name it differently
                is_releasing = task.name == str(egress._run._releases._thread.native_id)
                found["releases" if is_releasing else facts["Name"].strip()] = int(facts["voluntary_ctxt_switches"])
            return {name: found[name] for name in ("egress-copy", "egress-done", "releases")}

        def asleep():
            before = turns()
            time.sleep(0.2)
            return before == turns()

        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for number in range(2):
                array = numpy.full((1, 10), number, "float32")
                watch = weakref.ref(array)
                egress.submit(array)
                del array
                wait_for(
                    lambda: egress.stats().samples_completed == number + 1 and watch() is None,
                    "that it is read and released",
                )
                wait_for(asleep, "that all sleep")
        self.assertEqual(
            {"0": [0] * 10, "1": [1] * 10},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_a_copy_may_be_written_to(self):
        import numpy

        array = numpy.zeros((2, 100), "float32")
        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            for batch in range(20):
                array[:] = batch
                egress.submit(array, [f"{batch}/{row}" for row in range(2)], copy=True)
            array[:] = -1
        self.assertEqual(
            {f"{batch}/{row}": [batch] * 100 for batch in range(20) for row in range(2)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_abandoned_batches_are_released(self):
        import numpy

        watched = []
        with (
            self.assertRaisesRegex(ZeroDivisionError, "division"),
            offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4) as egress,
        ):
            for batch in range(4):
                array = numpy.zeros((4, 10), "float32")
                watched.append(weakref.ref(array))
                egress.submit(array)
            del array
            1 / 0
        self.assertEqual([None] * 4, [watch() for watch in watched])
        self.assertEqual("abandoned", json.loads((self.run_dir / "status.json").read_text())["state"])
        self.assertEqual([], [thread.name for thread in threading.enumerate() if thread.name.startswith("offramp")])

    def test_an_exception_prints_how_much_it_abandons(self):
        printed = self.abandoning("raise KeyboardInterrupt")
        self.assertRegex(printed, r"(?m)^offramp: an exception abandoned 8 of 8 submitted samples$")
        printed = self.abandoning("raise KeyboardInterrupt", ", resume=True")
        self.assertRegex(
            printed,
            r"(?m)8 submitted samples\. .*start again with resume=True, in a loop of your own with pending\(\)$",
        )
        self.assertNotIn("abandoned", self.abandoning("egress.close()"))

    def test_the_loops_exception_is_raised_where_nothing_can_be_printed(self):
        program = """
            import os, sys, numpy, offramp
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 2)
            try:
                with offramp.Egress(sys.argv[1]) as egress:
                    egress.submit(numpy.zeros((4, 10), "float32"))
                    1 / 0
            except ZeroDivisionError:
                print("raised")
        """
        loop = self.python(program, self.run_dir)
        self.assertEqual(b"raised\n", loop.communicate(timeout=WATCHDOG_SECONDS)[0])

    def abandoning(self, ending, more=""):
        program = f"""
            import sys, numpy, offramp
            with offramp.Egress(sys.argv[1], slabs=2, samples_per_slab=4{more}) as egress:
                for batch in range(2):
                    egress.submit(numpy.zeros((4, 10), "float32"))
                {ending}
        """
        folder = self.folder / f"run{ending.partition(' ')[0]}{len(more)}"
        return self.python(program, folder).communicate(timeout=WATCHDOG_SECONDS)[1].decode()

    def test_a_block_without_a_batch_warns(self):
        import numpy

        with self.assertWarnsRegex(RuntimeWarning, "^no sample was submitted") as seen:
            with offramp.Egress(self.run_dir):
                pass
        self.assertEqual(__file__, seen.filename)
        reader = self.reader()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with offramp.Egress(self.run_dir) as egress:
                egress.submit(numpy.zeros((4, 10), "float32"))
        self.seen_by(reader)

    def test_interrupted_opening_leaves_no_memory(self):
        import numpy

        with (
            unittest.mock.patch.object(threading.Thread, "start", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            with offramp.Egress(self.run_dir) as egress:
                egress.submit(numpy.zeros((1, 3), "float32"))
        self.require_no_memory_left([os.getpid()])

    def test_batches_without_a_free_slab_are_dropped_on_request(self):
        import numpy

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4, when_full="drop")
        for _ in range(50):
            egress.submit(numpy.zeros((4, 10), "float32"))
        wait_for(lambda: egress.stats().samples_dropped == 48 * 4, "that batches without a slab are dropped")
        wait_for(lambda: not egress._run._releases._held, "that all are released")
        egress.close()

    def test_the_oldest_waiting_batches_are_dropped_on_request(self):
        import numpy

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=4, when_full="drop-oldest")
        for number in range(50):
            egress.submit(
                numpy.full((4, 10), number, "float32"),
                [f"{number}-{row}" for row in range(4)],
                range(4 * number, 4 * number + 4),
            )
        wait_for(lambda: egress.stats().samples_dropped == 48 * 4, "that all but two batches are dropped")
        reader = self.reader()
        egress.drain()
        self.assertEqual({f"{number}-{row}" for number in (48, 49) for row in range(4)}, set(self.seen_by(reader)))
        stats = egress.stats()
        self.assertEqual((200, 8, 192), (stats.samples_submitted, stats.samples_completed, stats.samples_dropped))

    def test_several_threads_may_submit(self):
        import numpy

        reader = self.reader()
        with offramp.Egress(self.run_dir, {"output": ("int64", (1,))}, "cpu") as egress:

            def submit(first):
                for number in range(first, first + 100):
                    egress.submit(numpy.int64([number]), [f"k{number}"])

            threads = [threading.Thread(target=submit, args=(first,)) for first in (0, 100, 200)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((300, 300), egress.stats()[:2])
        self.assertEqual(
            {f"k{number}": number for number in range(300)},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_nested_submit_is_refused_and_the_outer_one_succeeds(self):
        loop = self.python(
            """
            import signal, sys, numpy, offramp
            refused, inner = [], numpy.full((1, 10), -1, "float32")

            def submit_too(*_):
                try:
                    egress.submit(inner, ["inner"])
                except offramp.BadArgument as problem:
                    refused.append(str(problem))

            def keys(number):
                signal.raise_signal(signal.SIGUSR1)
                yield str(number)

            signal.signal(signal.SIGUSR1, submit_too)
            with offramp.Egress(sys.argv[1]) as egress:
                for number in range(3):
                    egress.submit(numpy.full((1, 10), number, "float32"), keys(number))
                    egress.submit(inner + 10 * number, [f"after/{number}"])
                signal.raise_signal(signal.SIGUSR1)
            assert refused and all("while submit() runs on this thread" in text for text in refused), refused
        """,
            self.run_dir,
        )
        reader = self.reader()
        self.end(loop)
        values = {key: values["output"][0] for key, (_, _, values) in self.seen_by(reader).items()}
        self.assertEqual({"0": 0, "1": 1, "2": 2, "after/0": -1, "after/1": 9, "after/2": 19, "inner": -1}, values)

    def test_unsupported_outputs_are_refused_with_a_remedy(self):
        import numpy

        good = numpy.zeros((4, 6), "float32")
        egress = offramp.Egress(self.run_dir, {"output": ("float32", (4, 6))}, "cpu")
        for outputs, keys, items, kind, text in (
            (numpy.ma.masked_array(good), None, None, offramp.BadArgument, r"a masked array. Submit array.filled"),
            (good.T, None, None, offramp.BadArgument, r"the shape \(6, 4\)"),
            (good[:, ::2], None, None, offramp.BadArgument, r"the shape \(4, 3\)"),
            (good.astype(">f4"), None, None, offramp.BadArgument, "big-endian"),
            (good.astype("complex64"), None, None, offramp.BadArgument, "'output': elements of type 'complex64'"),
            (good.astype("float64"), None, None, offramp.BadArgument, "elements of type float64; the run has float32"),
            (good.astype("datetime64[s]"), None, None, offramp.BadArgument, "are not supported"),
            (good.astype(object), None, None, offramp.BadArgument, "are not supported"),
            (numpy.float32(3), None, None, offramp.BadArgument, "no dimensions"),
            (good[:0], ["a"], None, offramp.BadArgument, "is empty"),
            (good[:, :0], None, None, offramp.BadArgument, "is empty"),
            (
                good[:, :3].copy(),
                None,
                None,
                offramp.BadArgument,
                r"the shape \(4, 3\); the run was opened for \(4, 6\)",
            ),
            (numpy.zeros((65537, 6), "float32"), None, None, offramp.BadArgument, "a batch of 65537 samples"),
            (good.tolist(), None, None, offramp.BadArgument, "is of type builtins.list. Submit a NumPy array"),
            (None, None, None, offramp.BadArgument, "has no tensors"),
            ({}, None, None, offramp.BadArgument, "has no tensors"),
            ({"a": None, "b": ()}, None, None, offramp.BadArgument, "has no tensors"),
            ({"a.0": good, "a": (good,)}, None, None, offramp.BadArgument, "two tensors .* have the name 'a.0'"),
            (
                {"a": (good, 3)},
                None,
                None,
                offramp.BadArgument,
                "the batch lacks the tensor 'output' and has the tensors 'a.0', 'a.1', which the run does not have",
            ),
            (
                {"logits": good},
                None,
                None,
                offramp.BadArgument,
                "lacks the tensor 'output' and has the tensor 'logits', which .*. Submit the tensor 'output'$",
            ),
            ({"output": good, "more": good}, None, None, offramp.BadArgument, "the batch has the tensor 'more', which"),
            (good, ["a", "b"], None, offramp.BadArgument, "2 keys for 4 samples"),
            (good, "abcd", None, offramp.BadArgument, "keys is a single str"),
            (good, [b"a", "b", "c", "d"], None, offramp.BadArgument, "a key is of type bytes"),
            (good, ["a", "b\0", "c", "d"], None, offramp.BadArgument, "NUL"),
            (good, ["a", "", "c", "d"], None, offramp.BadArgument, "a key of 0 bytes"),
            (good, ["a", "\udcff", "c", "d"], None, offramp.BadArgument, "Keys are UTF-8"),
            (good, ["a" * 300, "b", "c", "d"], None, offramp.BadArgument, "a key of 300 bytes"),
            (good, None, [1, 2, 3], offramp.BadArgument, "3 items for 4 samples"),
            (good, None, [1, 2, 2, 3], offramp.BadArgument, "do not increase"),
            (good, None, [-1, 2, 3, 4], offramp.BadArgument, "the item -1"),
            (good, None, [1, 2, 3, 1 << 64], offramp.BadArgument, "is out of range"),
            (good, 5, None, offramp.BadArgument, "keys is 5. Give a list, one per sample, such as"),
            (good, {"a", "b", "c", "d"}, None, offramp.BadArgument, "keys is a set, which is unordered. Give a list"),
            (good, frozenset("abcd"), None, offramp.BadArgument, "keys is a frozenset, which is unordered"),
            (good, None, 5, offramp.BadArgument, "items is 5. Give a list, one per sample, such as"),
            (good, None, "1234", offramp.BadArgument, "items is a single str"),
            (good, None, {1, 2, 3, 4}, offramp.BadArgument, "items is a set, which is unordered"),
            (good, None, ["a", 2, 3, 4], offramp.BadArgument, "the item 'a' is not a whole number. Give whole numbers"),
            (good, None, [1, 2.5, 3, 4], offramp.BadArgument, "the item 2.5 is not a whole number. Give whole numbers"),
            (
                good,
                None,
                numpy.float32([1, 2, 3, 4]),
                offramp.BadArgument,
                r"the item .*1.0.* is not a whole number. Give whole numbers",
            ),
        ):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                egress.submit(outputs, keys, items)
        for more, text in (
            ({"stream": "x"}, "a stream of type str"),
            ({"stream": -1}, "a stream of type int"),
            ({"copy": "no"}, "copy is 'no'. Give True or False"),
        ):
            with self.subTest(text), self.assertRaisesRegex(offramp.BadArgument, text):
                egress.submit(good, **more)
        with self.assertRaisesRegex(offramp.BadArgument, "Give no stream with copy=True"):
            egress.submit(good, stream=7, copy=True)
        self.assertEqual({}, egress._run._releases._held)
        reader = self.reader()
        egress.submit(good, stream=0)
        egress.drain()
        self.assertEqual(1, egress.stats().batches_submitted)
        with self.assertRaisesRegex(offramp.BadArgument, "after drain"):
            egress.submit(good)
        egress.close()
        egress.close()
        for call in (lambda: egress.submit(good), egress.drain):
            with self.assertRaisesRegex(offramp.BadArgument, "the egress is closed"):
                call()
        self.assertEqual((1, 4, 4, 4), egress.stats()[:4])
        self.assertEqual({"0", "1", "2", "3"}, set(self.seen_by(reader)), "refused batches get no number")

    def test_own_consumers_get_each_key_once_per_batch(self):
        import numpy

        for more, again in (({}, "the key 'b' names two samples of a batch"), ({"repeated_keys": "allow"}, None)):
            run_dir = self.folder / str(again is None)
            reader = self.python(READER, run_dir)
            with self.subTest(**more), offramp.Egress(run_dir, **more) as egress:
                egress.submit(numpy.zeros((3, 1), "float32"), ["a", "b", "c"])
                if again is None:
                    egress.submit(numpy.ones((3, 1), "float32"), ["b", "a", "b"])
                else:
                    with self.assertRaisesRegex(offramp.BadArgument, again):
                        egress.submit(numpy.ones((3, 1), "float32"), ["b", "a", "b"])
                egress.submit(numpy.ones((3, 1), "float32"), ["a", "b", "c"])  # only these know of earlier batches
            self.assertEqual(9 if again is None else 6, len(self.end(reader).splitlines()))

    def test_a_first_batch_that_is_refused_opens_nothing(self):
        import numpy

        good = numpy.zeros((4, 6), "float32")
        with offramp.Egress(self.run_dir) as egress:
            with self.assertRaisesRegex(offramp.BadArgument, "'b' has 3 samples, 'a' has 4"):
                egress.submit({"a": good, "b": good[:3]})
            with self.assertRaisesRegex(offramp.BadArgument, "9 dimensions"):
                egress.submit(good.reshape(4, 6, *[1] * 7))
            with self.assertRaisesRegex(offramp.BadArgument, "17 tensors"):
                egress.submit({f"t{number}": good for number in range(17)})
            for name in (3, "a\0b"):
                with self.assertRaisesRegex(offramp.BadArgument, "a tensor's name"):
                    egress.submit({name: good})
            self.assertFalse(self.run_dir.exists())
            self.assertEqual(offramp.Stats(), egress.stats())

    def test_batch_after_a_refused_one_arrives_complete(self):
        import numpy

        for names in ("a", "b", "abc"):
            run_dir = self.folder / names
            reader = self.python(READER, run_dir)
            with self.subTest(names), offramp.Egress(run_dir) as egress:
                with self.assertRaisesRegex(offramp.BadArgument, "2 keys for 4 samples"):
                    egress.submit({name: numpy.zeros((4, 6), "float32") for name in names}, ["x", "y"])
                egress.submit(
                    {"a": numpy.full((4, 6), 1, "float32"), "b": numpy.full((4, 6), 2, "float32")}, list("wxyz")
                )
            self.assertEqual(
                {key: {"a": [1] * 6, "b": [2] * 6} for key in "wxyz"},
                {key: values for key, (_, _, values) in self.seen_by(reader).items()},
            )

    def test_ctrl_c_ends_a_loop_that_waits_for_slabs(self):
        loop = self.python(
            """
            import sys, numpy, offramp
            with offramp.Egress(sys.argv[1], slabs=2, samples_per_slab=1) as egress:
                while True:
                    egress.submit(numpy.zeros((1, 10), "float32"))
                    print("one", flush=True)
        """,
            self.run_dir,
        )
        self.read_line(loop)
        wait_for(lambda: (self.run_dir / "live/endpoint").exists(), "a run")
        loop.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.end(loop, -signal.SIGINT))
        self.require_no_memory_left([loop.pid])

    def test_lock_that_ctrl_c_left_taken_does_not_block_the_loop(self):
        """CPython before 3.11 may raise after the block and before the release."""
        import numpy

        egress = offramp.Egress(self.run_dir, when_full="drop")
        self.addCleanup(egress.close)
        egress._lock.acquire()
        egress.submit(numpy.zeros((1, 10), "float32"))
        self.assertEqual(1, egress.stats().batches_submitted)

    def test_another_thread_may_close_it_while_one_waits(self):
        import numpy

        egress = offramp.Egress(self.run_dir, slabs=2, samples_per_slab=1)
        printed = []

        def submit():
            try:
                while True:
                    egress.submit(numpy.zeros((1, 10), "float32"))
            except offramp.BadArgument as problem:
                printed.append(str(problem))

        thread = threading.Thread(target=submit)
        thread.start()
        wait_for(lambda: egress.stats().batches_submitted >= 2, "that it waits for slabs")
        egress.close()
        thread.join()
        self.assertIn("closed", printed[0])

    def test_samples_of_another_size_are_refused_with_a_working_remedy(self):
        """Longer or shorter samples, in one dimension or several: executes the remedy in the message word for word."""
        import numpy

        for number, (first, second) in enumerate(
            (((1, 2, 5), (1, 2, 9)), ((1, 2, 9), (1, 2, 5)), ((2, 7, 5), (1, 3, 9)), ((1, 4), (1, 3)))
        ):
            egress = offramp.Egress(f"{self.run_dir}{number}", when_full="drop", samples_per_slab=2)
            self.addCleanup(egress.close)
            egress.submit({"spectrum": numpy.zeros(first, "float32")})
            with self.subTest((first, second)), self.assertRaises(offramp.BadArgument) as refused:
                egress.submit({"spectrum": numpy.zeros(second, "float32")})
            self.assertEqual(1, egress.stats().batches_submitted)
            self.assertIn(
                f"'spectrum' has the shape {second}; the run was opened for {first}. If samples differ in shape, submit lists of samples",
                str(refused.exception),
            )
            [tensors] = re.findall(r"open the run with tensors=(\{.*\})$", str(refused.exception))
            varying = offramp.Egress(f"{self.run_dir}{number}-varying", eval(tensors), "cpu", when_full="drop")
            self.addCleanup(varying.close)
            for shape in (first, second):
                varying.submit({"spectrum": list(numpy.zeros(shape, "float32"))})
                varying.submit({"spectrum": numpy.zeros(shape, "float32")})
            self.assertEqual(4, varying.stats().batches_submitted)
        with self.assertRaisesRegex(offramp.BadArgument, "Reshape it to 2 dimensions"):
            egress.submit({"spectrum": numpy.zeros((1, 4, 1), "float32")})
        with self.assertRaisesRegex(offramp.BadArgument, "Give 1 or more, or None where samples differ"):
            offramp.Egress(self.run_dir, {"spectrum": ("float32", (4, -1))}, "cpu")

    def test_a_drained_egress_is_closed_without_a_warning(self):
        import numpy

        reader = self.reader()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            egress = offramp.Egress(self.run_dir)
            egress.submit(numpy.zeros((1, 10), "float32"), ["a"])
            egress.drain()
            del egress
            gc.collect()
        self.assertEqual([], [str(each.message) for each in seen])
        self.assertEqual(["a"], list(self.seen_by(reader)))

    def test_a_forgotten_egress_is_closed_with_a_warning(self):
        import numpy

        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            egress = offramp.Egress(self.run_dir)
            egress.submit(numpy.zeros((1, 10), "float32"))
            del egress
            gc.collect()
        self.assertEqual([offramp.ForgottenWarning], [each.category for each in seen])
        self.require_no_memory_left([os.getpid()])

    def test_a_forgotten_egress_warns_once_without_python_flags(self):
        """At the program's end, or with the last reference; closed even if warnings are errors."""
        made = """
            import sys, numpy, offramp
            egress = offramp.Egress(sys.argv[1])
            egress.submit(numpy.zeros((1, 10), "float32"))
        """
        for end, environment in (
            ("", {}),
            ("del egress", {}),
            ("sys.exit()", {}),
            ("", {"PYTHONWARNINGS": "error"}),
            ("del egress", {"PYTHONWARNINGS": "error"}),
        ):
            without = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
            loop = self.python(textwrap.dedent(made) + end, self.run_dir, env={**without, **environment})
            printed, errors = (text.decode() for text in loop.communicate(timeout=WATCHDOG_SECONDS))
            with self.subTest(end, **environment):
                self.assertEqual(("", 0), (printed, loop.returncode), errors)
                self.assertEqual(
                    1,
                    errors.count(
                        "ForgottenWarning: an Egress was neither drained nor closed: unfinished work is abandoned. Use it "
                        "as a context, or call drain() and close()"
                    ),
                    errors,
                )
                self.assertEqual("abandoned", json.loads((self.run_dir / "status.json").read_text())["state"])
                self.require_no_memory_left([loop.pid])

    def test_a_closed_or_unopened_egress_is_not_forgotten(self):
        loop = self.python(
            """
            import sys, numpy, offramp
            closed, unopened = offramp.Egress(sys.argv[1]), offramp.Egress(sys.argv[1])
            closed.submit(numpy.zeros((1, 10), "float32"))
            closed.close()
        """,
            self.run_dir,
        )
        printed, errors = loop.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual((b"", b"", 0), (printed, errors, loop.returncode))

    def test_a_forked_child_cannot_use_the_egress(self):
        import numpy

        reader = self.reader()
        with offramp.Egress(self.run_dir) as egress:
            egress.submit(numpy.float32([[1], [2]]))
            child = os.fork()
            if child == 0:
                refused = 0
                for call in (lambda: egress.submit(numpy.float32([[3]])), egress.drain, egress.stats):
                    try:
                        call()
                    except offramp.WrongProcess:
                        refused += 1
                egress.close()
                egress.__exit__(None, None, None)
                del egress
                gc.collect()
                os._exit(0 if refused == 3 else 1)
            self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            egress.submit(numpy.float32([[3]]))
        self.assertEqual(
            {"0": [1], "1": [2], "2": [3]},
            {key: values["output"] for key, (_, _, values) in self.seen_by(reader).items()},
        )

    def test_drain_has_a_timeout(self):
        import numpy

        egress = offramp.Egress(self.run_dir)
        egress.submit(numpy.zeros((1, 1), "float32"))
        for wrong, kind in ((-1, offramp.BadArgument), (float("nan"), offramp.BadArgument), ("1", offramp.BadArgument)):
            with self.assertRaisesRegex(kind, "the timeout is .*Give "):
                egress.drain(wrong)
        with self.assertRaisesRegex(offramp.Timeout, "not done after 0.01 s"):
            egress.drain(0.01)
        reader = self.reader()
        egress.drain(100)
        egress.close()
        self.assertEqual(1, len(self.seen_by(reader)))


class Options(Egresses):
    def test_bad_options(self):
        """What the library refuses, and texts; test_arguments has wrong values of every option."""
        for options, text in (
            ({"max_key_bytes": 5000}, "5000 bytes"),
            ({"run_id": "a/b"}, "a/b"),
            ({"name": "n" * 64}, "64 bytes"),
            ({"device": "auto"}, "the device 'auto'"),
            ({"max_delay": -1.0}, "max_delay_seconds"),
            ({"visibility_timeout": float("nan")}, "visibility_timeout_seconds"),
            ({"slab_bytes": "1 GB"}, "slab_bytes is '1 GB'. Give a number with KiB, MiB or GiB"),
            ({"slab_bytes": f"{1 << 40} GiB"}, "Give text such as"),
            ({"slabs": "auto"}, "slabs is 'auto'. Give a whole number"),
            ({"resume": 1}, "resume is 1. Give True or False"),
        ):
            with self.subTest(options), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.Egress(self.run_dir, **{"tensors": {"output": ("float32", (4, 6))}, "device": "cpu", **options})
        self.assertFalse(self.run_dir.exists())

    def test_numpy_numbers_are_accepted(self):
        import numpy

        with offramp.Egress(
            self.run_dir, {"output": ("float32", (4, 6))}, "cpu", slabs=numpy.int64(3), max_delay=numpy.float32(0.5)
        ) as egress:
            self.assertEqual((3, 0.5), (egress._options["slabs"], egress._options["max_delay_seconds"]))

    def test_kill_stalled_reports_a_hanging_consumer_in_this_process(self):
        import numpy

        over = threading.Event()

        def consume():
            for _ in offramp.Consumer(self.run_dir):
                over.wait()

        consumer = threading.Thread(target=consume, daemon=True)
        with (
            warnings.catch_warnings(record=True) as seen,
            unittest.mock.patch("offramp._run.KILLED_WITHIN_SECONDS", 0.1),
        ):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RuntimeWarning)
            with offramp.Egress(self.run_dir, visibility_timeout=0.3, kill_stalled=True) as egress:
                egress.submit(numpy.zeros((2, 3), "float32"))
                consumer.start()
                while not seen:
                    with self.assertRaises(offramp.Timeout):
                        egress.drain(timeout=1)
                over.set()
        consumer.join()
        self.assertRegex(
            str(seen[0].message),
            "^1 of 1 consumers made no progress, .* kill_stalled has not ended them: they are in this process",
        )

    def test_one_run_directory_has_one_producer(self):
        tensors = {"output": ("float32", (4, 6))}
        with offramp.Egress(self.run_dir, tensors, "cpu"), self.assertRaises(offramp.RunInUse):
            offramp.Egress(self.run_dir, tensors, "cpu")

    def test_two_egresses_in_a_process_are_independent(self):
        import numpy

        readers = [self.python(READER, self.folder / name) for name in ("one", "two")]
        with offramp.Egress(self.folder / "one") as one, offramp.Egress(self.folder / "two") as two:
            for batch in range(20):
                one.submit(numpy.full((2, 3), batch, "int32"))
                two.submit({"a": numpy.full((1, 5), -batch, "float64"), "b": numpy.zeros((1, 1), "int8")})
            one.close()
            with self.assertRaisesRegex(offramp.BadArgument, "the egress is closed"):
                one.submit(numpy.zeros((2, 3), "int32"))
            two.submit({"a": numpy.full((1, 5), -20, "float64"), "b": numpy.zeros((1, 1), "int8")})
        self.assertEqual(
            {str(item): {"a": [-item] * 5, "b": [0]} for item in range(21)},
            {key: values for key, (_, _, values) in self.seen_by(readers[1]).items()},
        )

    def test_an_unopened_egress_can_be_drained(self):
        with offramp.Egress(self.run_dir) as egress:
            egress.drain()
        self.assertFalse(self.run_dir.exists())
