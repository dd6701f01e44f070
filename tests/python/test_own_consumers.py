"""An Egress that starts its own consumers: results, scaling, errors when they fail, and its end."""

import json
import os
import pathlib
import select
import signal
import sqlite3
import subprocess
import sys
import unittest
import unittest.mock

import offramp
from loops import BATCHES, POST, ROWS, Loops, processes_of, results
from offramp._consumers import flags_of, final_messages, in_python, is_durable
from offramp._keys import KeysBefore
from offramp._library import library
from world import ROOT, WATCHDOG_SECONDS, needs_numpy, wait_for

from tests.support.compiled import build_folder
from tests.support.waiting import put_away

LAUNCHER = [sys.executable, "-E", "-s", "-B", str(ROOT / "launch" / "offramp_launch")]


@needs_numpy
class OwnConsumers(Loops):
    def test_it_starts_consumers_and_returns_after_the_results(self):
        import numpy

        self.work.run()
        found = self.work.results()
        self.assertEqual(BATCHES * ROWS + 1, len(found))
        for number in range(BATCHES):
            for row in range(ROWS):
                values = (numpy.arange(24, dtype="float32").reshape(4, 6) + number)[row] * 2
                self.assertEqual(values.tobytes(), found[f"b{number:03}-{row}.bin"])
        self.assertEqual(BATCHES * ROWS, len(found["records.jsonl"].splitlines()))
        summary = json.loads((self.work.run_dir / "summary.json").read_text())
        self.assertEqual((0, BATCHES * ROWS), (summary["exit"], summary["samples"]["released"]))
        self.assertEqual([], processes_of(self.folder))

    def test_own_consumers_are_scaled_and_replaced_after_death(self):
        import numpy

        gates = [self.work.close_gate(f"k{number}") for number in range(4)]
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        with offramp.Egress(
            self.run_dir,
            output=self.folder / "out",
            processor=f"{self.post}:save",
            consumers=2,
            slabs=4,
            samples_per_slab=1,
        ) as egress:
            for number in range(4):
                egress.submit(numpy.zeros((1, 3), "float32"), [f"k{number}"])
            egress.scale(4)
            wait_for(lambda: egress.stats().consumers == 4, "four consumers")
            with self.assertRaisesRegex(offramp.BadArgument, "consumers is 65. Give 1 to 64"):
                egress.scale(65)
            victim = next(
                each["pid"] for each in wait_for(lambda: self.living_consumers(), "that status.json lists them")
            )
            os.kill(victim, signal.SIGKILL)
            wait_for(
                lambda: self.living_consumers() and victim not in [each["pid"] for each in self.living_consumers()],
                "its death",
            )
            status = json.loads(self.status_of("--json"))
            self.assertEqual((4, os.getpid()), (status["consumers_wanted"], status["producer_pid"]))
            wait_for(
                lambda: (
                    f"  pids      {', '.join(str(each['pid']) for each in self.living_consumers())}\n"
                    in self.status_of()
                ),
                "that status names the consumers",
            )
            for gate in gates:
                gate.unlink()
        self.assertEqual(
            {f"k{number}.bin" for number in range(4)}, set(results(self.folder / "out")) - {"records.jsonl"}
        )

    def status_of(self, *flags):
        return subprocess.run(
            [*LAUNCHER, "status", *flags, "--run-dir", str(self.run_dir)], capture_output=True, text=True, check=True
        ).stdout

    def living_consumers(self, run_dir=None):
        return json.loads(((run_dir or self.run_dir) / "status.json").read_text())["consumers"]

    def test_consumers_that_give_up_are_reported_with_their_reason(self):
        self.post.write_text("import offramp\ndef save(slab):\n    raise ValueError('no disk of mine')\n")
        printed = self.work.run(batches=200, code=1)
        self.assertRegex(printed.splitlines()[-1], r"^offramp\._errors\.ConsumersFailed: .*no disk of mine")
        self.assertEqual(1, printed.splitlines()[-1].count("/logs"), printed)
        self.assertEqual([], processes_of(self.folder))

    def test_a_result_that_would_replace_another_of_its_sample_is_reported(self):
        self.post.write_text(
            "def save(slab):\n    for sample, values in slab:\n        yield sample, values\n        yield sample, values + 1\n"
        )
        printed = self.work.run(batches=200, code=1)
        self.assertRegex(
            printed.splitlines()[-1],
            r"^offramp\._errors\.ConsumersFailed: .*the file b\d+-0\.npy of sample 'b\d+-0' was committed twice.*"
            r"Give each result of a sample its own ending",
        )
        self.assertEqual([], processes_of(self.folder))

    def test_dead_letters_are_reported_at_the_end(self):
        self.post.write_text("import offramp\ndef save(slab):\n    raise offramp.Reject('not this one')\n")
        printed = self.work.run(batches=3, code=1)
        self.assertIn("ConsumersFailed: 12 samples were dead-lettered", printed.splitlines()[-1])

    def test_dead_letters_of_separate_consumers_are_reported_at_the_end(self):
        """Whether a consumer rejects them, fails too often, or dies each time. The error ends with the reason."""
        for number, (fault, reason) in enumerate(
            (
                ("raise offramp.Reject('no')", "a consumer rejected it: no"),
                ("raise offramp.Failed('no')", "it failed 3 times: no"),
                ("json.loads('wrong')", r"it failed 3 times: json.decoder.JSONDecodeError: .* \(post.py:5\)"),
                ("os.kill(os.getpid(), signal.SIGKILL)", "it took down 3 consumers"),
            )
        ):
            with self.subTest(fault):
                run_dir = f"{self.folder}/own{number}"
                loop = self.python(
                    """
                    import sys, numpy, offramp
                    with offramp.Egress(sys.argv[1], {"output": ("float32", (1, 3))}, "cpu", samples_per_slab=1) as egress:
                        for number in range(3):
                            egress.submit(numpy.zeros((1, 3), "float32"), [f"k{number}"])
                """,
                    run_dir,
                )
                self.post.write_text(
                    "import json, os, signal, offramp\n\n"
                    f"def work(slab):\n    if slab.samples[0].key == 'k1':\n        {fault}\n"
                )
                consumer = """
                    import sys, offramp
                    sys.dont_write_bytecode = True  # the file changes within a second
                    sys.path.insert(0, sys.argv[2])
                    import post
                    offramp.Consumer(sys.argv[1]).run(post.work)
                """
                while loop.poll() is None:
                    consuming = self.python(consumer, run_dir, self.folder)
                    wait_for(lambda ends=(consuming, loop): any(each.poll() is not None for each in ends), "an end")
                put_away(consuming)  # one that began after the run's end looks for it for a while
                self.assertRegex(
                    self.end(loop, 1).splitlines()[-1],
                    rf"ConsumersFailed: 1 sample was dead-lettered, since post-processing failed: sample 'k1': {reason}\. "
                    rf"Inspect them: {ROOT}/launch/offramp dead-letters list --run-dir {run_dir}$",
                )

    def test_a_bad_sample_does_not_affect_its_neighbours(self):
        """Its neighbours in the slab have results, and the error names sample, reason and line."""
        self.post.write_text(
            "def save(slab):\n    for sample, values in slab:\n        if sample.key == 'b002-1':\n            raise ValueError('one odd sample')\n"
            "        yield sample, {'mean': float(values.mean())}\n"
        )
        printed = self.work.run(batches=5, code=1)
        self.assertRegex(
            printed.splitlines()[-1],
            r"ConsumersFailed: 1 sample was dead-lettered.*sample 'b002-1' failed: ValueError: one odd sample \(post\.py:4\)",
        )
        records = [json.loads(line)["key"] for line in (self.work.output / "records.jsonl").read_text().splitlines()]
        self.assertEqual(
            sorted(f"b{batch:03}-{row}" for batch in range(5) for row in range(ROWS) if (batch, row) != (2, 1)),
            sorted(records),
        )
        self.assertEqual([], processes_of(self.folder))

    def test_options_of_a_function_are_a_mapping_a_list_or_a_text(self):
        self.post.write_text(
            "def save(slab, path, items):\n    for sample, values in slab:\n        yield sample, {'path': path, 'items': items}\n"
        )
        for number, options in enumerate(
            ({"path": "z,1.zarr", "items": 40}, [r"path=z\,1.zarr", "items=40"], r"path=z\,1.zarr,items=40")
        ):
            with self.subTest(options):
                place = self.place(f"options{number}")
                place.run(batches=1, settings={"processor-option": options})
                self.assertEqual(
                    {("z,1.zarr", "40")},
                    {
                        (record["path"], record["items"])
                        for record in map(json.loads, (place.output / "records.jsonl").read_text().splitlines())
                    },
                )

    HANGS = """
import os, time
def save(slab):
    while slab.samples[0].key == "b002-0" and not os.path.exists(os.environ["GATES"] + "/over"):
        time.sleep(0.01)
    for sample, values in slab:
        yield sample, ".bin", values.tobytes()
"""

    def test_kill_stalled_gives_up_a_function_that_never_returns(self):
        self.post.write_text(self.HANGS)
        printed = self.work.run(batches=5, code=1, kill_stalled=True, visibility_timeout=8.0, max_failures=2)
        self.assertIn("ConsumersFailed: 4 samples were dead-lettered", printed.splitlines()[-1])
        self.assertNotIn("RuntimeWarning", printed)
        self.assertEqual(
            {f"b{number:03}-{row}.bin" for number in (0, 1, 3, 4) for row in range(ROWS)}, set(self.work.results())
        )
        consumers = json.loads((self.work.run_dir / "summary.json").read_text())["consumers"]
        # Other consumers may have received the slab before the second one died.
        self.assertGreaterEqual(sum(each.get("end") == "died" for each in consumers), 2)
        self.assertEqual([], processes_of(self.folder))

    def test_without_kill_stalled_a_hanging_function_is_reported(self):
        self.post.write_text(self.HANGS)
        loop = self.work.loop(batches=5, visibility_timeout=1.0)
        self.assertRegex(
            self.warning_of(loop),
            r"^<string>:\d+: RuntimeWarning: [12] of [12] consumers made no progress, the first of them for more than "
            r"1\.\d s, and kill_stalled is off\. .*kill_stalled=True",
        )
        self.assertIsNone(loop.poll())
        self.work.close_gate("over")
        self.end(loop)
        self.assertEqual(5 * ROWS, len(self.work.results()))

    def warning_of(self, loop):
        """The line of the loop's RuntimeWarning. The test fails if there is none."""
        printed = b""
        while select.select([loop.stderr], [], [], WATCHDOG_SECONDS)[0] and (line := loop.stderr.readline()):
            if b"RuntimeWarning" in line:
                return line.decode()
            printed += line
        self.fail(f"no warning: {printed.decode()}")

    def test_a_consumer_that_hangs_at_the_end_is_reported(self):
        self.post.write_text("""
import os, time
def save(slab):
    gates = os.environ["GATES"]
    while os.path.exists(gates + "/begin"):
        slab.progress()
        time.sleep(0.01)
    try:
        hangs = slab.samples[0].key == "b002-0" and os.open(gates + "/hung", os.O_CREAT | os.O_EXCL) > 0
    except FileExistsError:
        hangs = False
    while hangs and not os.path.exists(gates + "/over"):
        time.sleep(0.01)
    for sample, values in slab:
        yield sample, ".bin", values.tobytes()
""")
        gate = self.work.close_gate("begin")
        loop = self.work.loop(batches=5, visibility_timeout=1.0)
        wait_for(
            lambda: (self.work.run_dir / "status.json").exists() and len(self.living_consumers(self.work.run_dir)) == 2,
            "both",
        )
        gate.unlink()
        wait_for(lambda: len(self.work.results()) >= 5 * ROWS, "that all results exist")
        self.assertRegex(
            self.warning_of(loop),
            r"^<string>:\d+: RuntimeWarning: [12] of [12] consumers made no progress, the first of them for more than ",
        )
        self.work.close_gate("over")
        self.end(loop)
        self.assertEqual(5 * ROWS, len(self.work.results()))

    def test_a_missing_processor_is_reported_before_any_work(self):
        printed = self.work.run(batches=1, code=1, processor="nonsense")
        self.assertRegex(printed.splitlines()[-1], r"^offramp\._errors\.BadArgument: .*processor 'nonsense' is unknown")
        self.assertEqual({}, self.work.results())
        for processor in (
            "nothing.py:save",
            f"{self.folder}/nothing.py:save",
            "so:./nothing.so",
            f"npy,python:{self.folder}/nothing.py:save",
        ):
            with (
                self.subTest(processor),
                self.assertRaisesRegex(
                    offramp.BadArgument,
                    r"needs a file that does not exist: /.*nothing\.(py|so)\. Give an existing path",
                ),
            ):
                offramp.Egress(output=self.work.output, processor=processor)

    def test_errors_of_the_consumers_command_name_python_arguments(self):
        self.work.run(batches=2)
        printed = self.work.run(batches=2, code=1).splitlines()[-1]
        self.assertRegex(
            printed,
            r"^offramp\._errors\.BadArgument: output /.* holds .*Give resume=True .*, settings=\{'overwrite': True\} to keep these results as .*\.before-RUN_ID .*, or another output$",
        )
        self.assertNotIn("--", printed)

    def test_an_output_of_a_loop_without_any_result_is_used_again(self):
        self.post.write_text("def save(slab):\n    raise ValueError('a mistake')\n")
        printed = self.work.run(batches=2, code=1)
        self.assertIn("8 samples were dead-lettered", printed.splitlines()[-1])
        self.post.write_text(POST)
        self.work.run(batches=2)
        self.assertEqual(2 * ROWS + 1, len(self.work.results()))

    def test_keys_that_cannot_name_files_are_refused(self):
        import numpy

        self.post.write_text(
            "def save(slab):\n    for sample, values in slab:\n        yield sample, '.bin', values.tobytes()\n"
        )
        for number, (processor, ending) in enumerate(
            (("npy", ".npy"), (f"{self.post}:save", ".bin"), ("records,npy", ".npy"))
        ):
            with offramp.Egress(
                output=self.folder / f"keys{number}",
                processor=processor,
                consumers=1,
                tensors={"output": ("float32", (6, 3))},
            ) as egress:

                def submit(*keys):
                    egress.submit(numpy.zeros((len(keys), 3), "float32"), keys)

                submit("a", f"f{ending}/x")
                for keys, text in (
                    (["/data/1.png"], r"is an absolute path.*os\.path\.relpath\('/data/1\.png', FOLDER\)"),
                    ([".."], "the part '..'"),
                    (["."], "the part '.'"),
                    (["b/../c"], "the part '..'"),
                    (["./b"], "the part '.'"),
                    (["b//c"], "an empty part"),
                    (["b/"], "an empty part"),
                    ([""], "a key of 0 bytes"),
                    (["b\0c"], "a NUL character"),
                    ([".offramp-lock"], "begins with '.offramp-'"),
                    (["b/.offramp-x/c"], "begins with '.offramp-'"),
                    (["b" * 300], "a key of 300 bytes"),
                    (["k", f"k{ending}/x"], "names a file beside a folder"),
                    ([f"a{ending}/x"], "the key 'a' names a file"),
                    (["f"], "the key 'f' names a file"),
                    ([f"d/a.b{ending}/x", "d/a.b"], "the key 'd/a.b' names"),
                    (["b\udc80"], "UTF-8"),
                ):
                    with self.subTest((processor, keys)), self.assertRaisesRegex(offramp.BadArgument, text):
                        submit("good", *keys)
                    self.assertEqual(2, egress.stats().samples_submitted)
                submit("k", "k/x", "m.d/..x", "d/.b", "d/..b", "c/.npyx/y")
        for keys, text in (
            ([1.5], r"\[str\(key\) for key in keys\]"),
            ([pathlib.Path("/a")], "the key '/a' is an absolute path"),
        ):
            with (
                self.subTest(keys),
                self.assertRaisesRegex(offramp.BadArgument, text),
                offramp.Egress(output=self.folder / "types", processor="npy") as egress,
            ):
                egress.submit(numpy.zeros((1, 3), "float32"), keys)

    def test_rows_may_have_any_key(self):
        import numpy

        keys = ["/data/1.png", "..", "a//b", "k", "k.npy/x"]
        with offramp.Egress(output=self.folder / "rows", processor="records", consumers=1) as egress:
            egress.submit(numpy.zeros((len(keys), 3), "float32"), keys)
        self.assertEqual(
            keys,
            [
                row[0]
                for row in sqlite3.connect(self.folder / "rows" / "records.sqlite").execute(
                    "select key from records order by item"
                )
            ],
        )

    def everything_in(self, folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def kept(self):
        return sorted(self.work.output.parent.glob(f"{self.work.output.name}.before-*"))

    def test_finished_results_outlive_every_new_loop(self):
        self.work.run(batches=2)
        before = self.everything_in(self.work.output)
        printed = self.work.run(batches=5, code=1)
        self.assertIn("which has finished", printed.splitlines()[-1])
        self.work.run(batches=5, code=1, processor="nonsense", settings={"overwrite": True})
        self.assertEqual((before, []), (self.everything_in(self.work.output), self.kept()))
        self.work.run(batches=5, settings={"overwrite": True})
        (kept,) = self.kept()
        self.assertEqual((before, 5 * ROWS + 1), (self.everything_in(kept), len(self.work.results())))
        self.assertEqual(
            5 * ROWS,
            sum(
                end - begin
                for line in (self.work.output / ".offramp-egress").read_text().splitlines()[1:]
                for begin, end, _ in json.loads(line)["done"]
            ),
        )

    def test_two_loops_of_one_process_rename_results_aside(self):
        program = """
            import sys, numpy, offramp
            for number in range(3):
                with offramp.Egress(output=sys.argv[1], processor="npy", consumers=1, settings={"overwrite": True}) as egress:
                    egress.submit(numpy.full((1, 1), number), ["key"])
        """
        self.end(self.python(program, self.work.output))
        self.assertEqual(2, len(self.kept()))

    def test_a_killed_loop_with_overwrite_continues_in_the_new_folder(self):
        self.work.run(batches=2)
        before = self.everything_in(self.work.output)
        self.work.killed("noted 2", settings={"overwrite": True})
        self.assertLess(self.work.resume(), BATCHES)
        (kept,) = self.kept()
        self.assertEqual((before, self.undisturbed()), (self.everything_in(kept), self.work.results()))

    def test_an_exception_in_the_loop_ends_the_consumers(self):
        import numpy

        with (
            self.assertRaises(ZeroDivisionError),
            offramp.Egress(
                self.run_dir,
                output=self.folder / "out",
                processor="npy",
                consumers=1,
                tensors={"output": ("float32", (2, 3))},
            ) as egress,
        ):
            egress.submit(numpy.zeros((1, 3), "float32"), ["a"])
            for keys, text in (
                (["b", "b"], "the key 'b' names two samples"),
                (["b", ""], "a key of 0 bytes"),
                (["b"] * 3, "3 keys for 2 samples"),
            ):
                with self.subTest(keys), self.assertRaisesRegex(offramp.BadArgument, text):
                    egress.submit(numpy.zeros((2, 3), "float32"), keys)
            1 / 0
        self.assertEqual([], processes_of(self.folder))
        with offramp.Egress(output=self.folder / "out2", processor="npy", consumers=1):
            pass  # submits nothing
        self.assertEqual([], processes_of(self.folder))

    def test_after_an_exception_finished_results_stay_and_the_rest_can_be_done(self):
        import numpy

        values = numpy.arange(6, dtype="float32").reshape(2, 3)
        batches = [([f"{number}-a", f"{number}-b"], values) for number in range(20)]

        def loop(name, drains=False, **options):
            output = self.folder / name
            with offramp.Egress(output=output, processor="npy", consumers=1, **options) as egress:
                try:
                    for number, (keys, values) in enumerate(egress.pending(batches)):
                        egress.submit({"wrong" if number == 10 and not options else "values": values}, keys)
                        wait_for(lambda: number or egress.stats().samples_completed == 2, "the first batch's results")
                except offramp.BadArgument:
                    if drains:
                        egress.drain()
                    raise
            return results_in(output)

        def results_in(output):
            return {path.name for path in output.glob("*.npy")}

        every = {f"{key}.values.npy" for keys, _ in batches for key in keys}
        accepted = {f"{key}.values.npy" for keys, _ in batches[:10] for key in keys}
        with self.assertRaisesRegex(offramp.BadArgument, "lacks the tensor 'values'"):
            loop("abandoned")
        kept = results_in(self.folder / "abandoned")
        self.assertTrue({"0-a.values.npy", "0-b.values.npy"} <= kept <= accepted, kept)
        self.assertEqual(every, loop("abandoned", resume=True))
        with self.assertRaisesRegex(offramp.BadArgument, "lacks the tensor 'values'"):
            loop("drained", drains=True)
        self.assertEqual(accepted, results_in(self.folder / "drained"))
        self.assertEqual(every, loop("drained", resume=True))

    def test_an_early_close_waits_for_the_consumers_program(self):
        """The command asks it for the settings before it starts consumers."""
        programs, asked = self.folder / "programs", self.folder / "asked"
        programs.mkdir()
        built = pathlib.Path(library()._name).resolve().parents[1] / "bin" / "offramp-consumer"
        consumer = programs / "offramp-consumer"
        consumer.write_text(f'#!/bin/sh\ntouch "{asked}"\nsleep 0.5\nexec "{built}" "$@"\n')
        consumer.chmod(0o755)
        with (
            unittest.mock.patch.dict(os.environ, {"OFFRAMP_BIN_DIR": str(programs)}),
            self.assertRaises(ZeroDivisionError),
            offramp.Egress(self.run_dir, output=self.folder / "out", processor="npy", consumers=1),
        ):
            wait_for(asked.exists, "the command's question")
            1 / 0
        self.assertEqual([], processes_of(self.folder))

    def test_a_key_of_an_earlier_batch_is_refused(self):
        import numpy

        with offramp.Egress(output=self.folder / "out", processor="npy", consumers=1) as egress:
            for number, (keys, again) in enumerate(
                ((["a", "b"], None), (["c", "b"], "b"), (("a", "d"), "a"), (["c", "d"], None), (iter(["d", "e"]), "d"))
            ):
                with self.subTest(number):
                    if again is None:
                        egress.submit(numpy.full((2, 3), number, "float32"), keys)
                    else:
                        with self.assertRaisesRegex(
                            offramp.BadArgument,
                            f"the key '{again}' names a sample of an earlier batch.*TensorChanged reported.*repeated_keys='allow'",
                        ):
                            egress.submit(numpy.full((2, 3), number, "float32"), keys)
            self.assertEqual((2, 4), egress.stats()[:2])
        self.assertEqual({"a": 0, "b": 0, "c": 3, "d": 3}, self.values_of("out"))

    def test_keys_may_be_repeated_on_request(self):
        import numpy

        with offramp.Egress(output=self.folder / "out", processor="npy", consumers=1, repeated_keys="allow") as egress:
            egress.submit(numpy.full((2, 3), 0, "float32"), ["a", "b"])
            wait_for(lambda: egress.stats().samples_completed == 2, "the first results")
            egress.submit(numpy.full((2, 3), 1, "float32"), ["a", "a"])
        self.assertEqual({"a": 1, "b": 0}, self.values_of("out"))

    def test_a_batch_that_was_dropped_may_be_submitted_again(self):
        import numpy

        gate = self.work.close_gate("a")
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        keys = ["a", *(f"b{number}" for number in range(20))]
        with offramp.Egress(
            output=self.folder / "out",
            processor=f"{self.post}:save",
            consumers=1,
            when_full="drop",
            slabs=2,
            samples_per_slab=1,
        ) as egress:
            for key in keys:
                egress.submit(numpy.zeros((1, 3), "float32"), [key])
            wait_for(lambda: egress.stats().samples_dropped > 0, "that some are dropped")
            gate.unlink()
            wait_for(
                lambda: egress.stats().samples_completed + egress.stats().samples_dropped == len(keys),
                "that the others are done",
            )
            egress.submit(numpy.zeros((1, 3), "float32"), [keys[-1]])
        self.assertIn(f"{keys[-1]}.bin", results(self.folder / "out"))

    def test_results_of_an_earlier_run_are_not_replaced(self):
        import numpy

        batches = [(["a", "b"], 0), (["c", "b"], 1), (["c", "d"], 2)]
        for given in (batches[:1], batches):
            with offramp.Egress(
                output=self.folder / "out",
                processor="npy",
                consumers=1,
                resume=True,
                tensors={"output": ("float32", (2, 3))},
            ) as egress:
                for keys, number in egress.pending(given):
                    if number == 1:
                        with self.assertRaisesRegex(
                            offramp.BadArgument, "the key 'b' names a sample of an earlier batch"
                        ):
                            egress.submit(numpy.full((2, 3), number, "float32"), keys)
                    else:
                        egress.submit(numpy.full((2, 3), number, "float32"), keys)
        self.assertEqual({"a": 0, "b": 0, "c": 2, "d": 2}, self.values_of("out"))

    def test_keys_beyond_the_limit_are_not_kept(self):
        before = KeysBefore()
        with unittest.mock.patch.object(before, "_room", 500):
            for number in range(20):
                before.require_others([f"{number}/a", f"{number}/b"])
                before.add([f"{number}/a", f"{number}/b"], 8)
        for number in range(3):
            with self.assertRaisesRegex(offramp.BadArgument, f"the key '{number}/b'"):
                before.require_others(["new", f"{number}/b"])
        before.require_others([f"{number}/a" for number in range(3, 20)])

    def values_of(self, output):
        import numpy

        return {path.name.partition(".")[0]: numpy.load(path)[0] for path in (self.folder / output).glob("*.npy")}

    def test_killing_the_consumers_command_fails_the_loop_which_resumes(self):
        gate = self.work.close_gate("b003-0")
        loop = self.work.loop()
        command = wait_for(lambda: self.command_of(loop), "the command")
        wait_for(lambda: "b002-3.bin" in self.work.results(), "results")
        os.kill(command, signal.SIGKILL)
        gate.unlink()
        printed = self.end(loop, 1)
        self.assertRegex(
            printed.splitlines()[-1],
            "ConsumersFailed: the command that supervises the consumers was killed by signal 9",
        )
        wait_for(lambda: not processes_of(self.folder), "that its consumers are gone")
        self.work.run(resume=True)
        self.assertEqual(BATCHES * ROWS + 1, len(self.work.results()))
        self.assertEqual(BATCHES * ROWS, len(self.work.results()["records.jsonl"].splitlines()))

    def command_of(self, loop):
        """The process of the loop's consumers command, once its socket exists."""
        children = pathlib.Path(f"/proc/{loop.pid}/task/{loop.pid}/children").read_text().split()
        return int(children[0]) if children and (self.work.run_dir / "live/control.sock").exists() else None

    def test_a_forked_child_cannot_use_own_consumers(self):
        program = """
            import os, sys, numpy, offramp
            with offramp.Egress(output=sys.argv[1], processor="npy", consumers=1, run_dir=sys.argv[2]) as egress:
                egress.submit(numpy.zeros((1, 3), "float32"), ["a"])
                if (child := os.fork()) == 0:
                    for call in (egress.drain, lambda: egress.scale(2), lambda: next(egress.pending([(["b"], 0)])), lambda: egress.submit(0, ["b"])):
                        try:
                            call()
                        except offramp.WrongProcess:
                            continue
                        os._exit(1)
                    egress.close()
                    sys.exit(7)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
                egress.submit(numpy.zeros((1, 3), "float32"), ["b"])
        """
        self.assertEqual("7\n", self.end(self.python(program, self.work.output, self.run_dir)))
        self.assertEqual({"a.output.npy", "b.output.npy"}, set(self.work.results()))

    def test_two_egresses_in_one_process_have_separate_runs(self):
        import numpy

        with (
            offramp.Egress(output=self.folder / "one", processor="npy", consumers=1) as one,
            offramp.Egress(self.run_dir, output=self.folder / "two", processor="npy", consumers=1) as two,
        ):
            run_dir = os.fsdecode(one._options["run_dir"])
            self.assertEqual(self.folder / "runs", pathlib.Path(run_dir).parent, "where a launcher looks for runs too")
            one.submit(numpy.zeros((1, 3), "float32"), ["a"])
            self.assertIn(f"in {run_dir}", wait_for(lambda: self.live_run(), "that a launcher finds it"))
            two.submit(numpy.zeros((1, 3), "float32"), ["b"])
        self.assertEqual(
            [{"a.output.npy"}, {"b.output.npy"}], [set(results(self.folder / name)) for name in ("one", "two")]
        )

    def live_run(self):
        """The output of `status` without --run-dir; empty without a live run."""
        done = subprocess.run(
            [*LAUNCHER, "status"],
            env={**os.environ, "OFFRAMP_BUILD_DIR": build_folder(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def test_a_second_egress_into_one_output_or_run_is_refused(self):
        import numpy

        with offramp.Egress(self.folder / "run1", output=self.folder / "one", processor="npy", consumers=1) as one:
            one.submit(numpy.zeros((1, 3), "float32"), ["a"])
            wait_for(lambda: one.stats().samples_completed == 1, "that its consumers are there")
            two = offramp.Egress(self.run_dir, output=self.folder / "one", processor="npy", consumers=1)
            with self.assertRaisesRegex(offramp.ConsumersFailed, "writes to .*Wait for its end"):
                two.submit(numpy.zeros((1, 3), "float32"), ["b"])
                two.drain()
            two.close()
            two = offramp.Egress(self.folder / "run1", output=self.folder / "two", processor="npy", consumers=1)
            with self.assertRaises((offramp.RunInUse, offramp.ConsumersFailed)):  # depends on which check comes first
                two.submit(numpy.zeros((1, 3), "float32"), ["b"])
            two.close()
        self.assertEqual({"a.output.npy"}, set(results(self.folder / "one")))


class Refused(Loops):
    def test_inconsistent_arguments_are_refused(self):
        out = str(self.folder / "out")
        for options, text in (
            ({}, "neither a processor nor a run directory"),
            ({"processor": "npy"}, "no output folder. Give output=FOLDER"),
            ({"output": out}, "output is given without a processor"),
            ({"run_dir": self.run_dir, "consumers": 3}, "consumers is given without a processor"),
            ({"processor": len, "output": out}, "Give its name, such as"),
            ({"processor": "npy", "output": out, "settings": {"output": "x"}}, "'output' cannot be passed in settings"),
            ({"processor": "npy", "output": out, "run_dir": ""}, "no run directory"),
        ):
            with self.subTest(options), self.assertRaisesRegex(offramp.BadArgument, text):
                offramp.Egress(**options)
        self.assertFalse(pathlib.Path(out).exists())

    def test_whether_results_are_durable(self):
        for given, exported, durable in (
            ({}, None, False),
            ({}, "true", True),
            ({}, "false", False),
            ({"durable": True}, None, True),
            ({"--durable": "1"}, "false", True),
            ({"durable": False}, "true", False),
        ):
            environment = {"OFFRAMP_DURABLE": exported} if exported else {}
            with self.subTest(given, exported=exported), unittest.mock.patch.dict(os.environ, environment):
                self.assertEqual(is_durable(given), durable)

    def test_flags_and_words(self):
        import numpy

        for given, flags in (
            ({"png_level": 3, "--durable": True}, ["--png-level=3", "--durable=true"]),
            (
                {"threshold": 0.25, "image-format": "webp", "input": pathlib.Path("a/b")},
                ["--threshold=0.25", "--image-format=webp", "--input=a/b"],
            ),
            ({"png-level": numpy.int64(2), "threshold": numpy.float32(0.5)}, ["--png-level=2", "--threshold=0.5"]),
            ({"columns": ["a", "b"]}, ["--columns=a,b"]),
            ({"columns": ()}, ["--columns="]),
            ({"processor-option": "a=1,b=2"}, ["--processor-option=a=1,b=2"]),
            ({"processor_option": ["a=1", "b=2"]}, ["--processor-option=a=1,b=2"]),
            (
                {"--processor-option": {"a": 1, "b": "x,y", "c": True, "d": pathlib.Path("e")}},
                [r"--processor-option=a=1,b=x\,y,c=true,d=e"],
            ),
        ):
            with self.subTest(given):
                self.assertEqual(flags, flags_of(given))
        for given, kind, text in (
            ({"png-level": [1, 2]}, offramp.BadArgument, r"'png-level' is \[1, 2\], and takes one value"),
            ({"png-level": {"a": 1}}, offramp.BadArgument, "'png-level' has {'a': 1}"),
            ({"http-header": ["A: b"]}, offramp.BadArgument, "'@FILE', a file with a header in each line"),
            ({"durable": None}, offramp.BadArgument, "Omit it"),
            ({"processor-option": [1]}, offramp.BadArgument, "has 1. Give strings KEY=VALUE, or a mapping"),
            ({"processor-option": [["a", 1]]}, offramp.BadArgument, "KEY=VALUE"),
            ({"processor-option": {"a": [1]}}, offramp.BadArgument, r"has \[1\], of type list"),
            ({"processor-option": {"a=b": 1}}, offramp.BadArgument, "an option named 'a=b'"),
            ({"processor-option": {1: 1}}, offramp.BadArgument, "an option named 1"),
            ({"columns": {"a", "b"}}, offramp.BadArgument, "of type set"),
            ({"png-level": b"1"}, offramp.BadArgument, "of type bytes"),
            ({1: 2}, offramp.BadArgument, "a setting has the name 1"),
            ({"": 2}, offramp.BadArgument, "the name ''"),
            ({"png-level": 1, "png_level": 2}, offramp.BadArgument, "'png-level' is given twice"),
            ({"input": "a\0b"}, offramp.BadArgument, "a NUL character"),
        ):
            with self.subTest(given), self.assertRaisesRegex(kind, text):
                flags_of(given)
        self.assertEqual(
            "it is full. Make room", final_messages("[run] begins\n{}\nofframp: it is full\n    Make room\n")
        )
        records = [json.dumps({"message": text}) for text in ("begins", "offramp: it is full\n    Make room")]
        self.assertEqual("it is full. Make room", final_messages("\n".join([*records, '{"progress": {}}'])))
        self.assertEqual("it printed nothing", final_messages("\n"))
        self.assertEqual(
            "Give resume=True to leave out what is done, with egress.pending(), settings={'overwrite': True} to keep them under another name, or another output: "
            "offramp dead-letters list --run-dir RUN",
            in_python(
                "Give --resume to add to them (a sample of the same key replaces its earlier result), "
                "--overwrite to keep them under another name, or another --output: offramp dead-letters list --run-dir RUN"
            ),
        )
