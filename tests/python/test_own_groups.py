"""An Egress that starts the consumers of groups: each group's results are those of its processor alone."""

import json
import os
import pathlib
import re
import signal
import subprocess

import offramp
from loops import BATCHES, LAUNCHER, POST, ROWS, Loops, processes_of, results
from offramp._consumers import launcher_environment
from world import needs_numpy, wait_for

SAMPLES = BATCHES * ROWS
# A file and a record of each sample, as POST makes them, and no gate.
SHOW = POST.replace("save", "show").replace("while os.path", "while False and os.path")
FAILS = """
import os
def show(slab):
    {}
"""


class Source:
    """An argument of the loop's Egress, as Python."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text


@needs_numpy
class OwnGroups(Loops):
    def setUp(self):
        super().setUp()
        self.show = self.folder / "show.py"
        self.show.write_text(SHOW)
        self.groups = {"rows": f"{self.post}:save", "arrays": "npy"}

    def given(self, place, optional=(), **more):
        groups = {**self.groups, **dict.fromkeys(optional, f"{self.show}:show")}
        written = (f"{name!r}: offramp.Group({p!r}, 1, {name in optional})" for name, p in groups.items())
        options = {"output": str(place.output), "run_dir": str(place.run_dir), **more}
        return {**options, "groups": Source(f"{{{', '.join(written)}}}")}

    def loop(self, *optional, dies="", batches=BATCHES, **more):
        return self.work.loop_with(self.given(self.work, optional, **more), batches, dies)

    def ends(self, *optional, code=0, **more):
        return self.end(self.loop(*optional, **more), code)

    def dies(self, where, *gates, **more):
        closed = [self.work.close_gate(key) for key in gates]
        self.end(self.loop(dies=where, **more), -signal.SIGKILL)
        for gate in closed:
            gate.unlink()
        wait_for(lambda: not processes_of(self.folder), "that the consumers of the dead loop are gone")

    def alone(self):
        """The results of runs with one processor each, in the folders of groups."""
        if OwnGroups.made is None:
            found = {}
            for name, processor in (("rows", f"{self.post}:save"), ("arrays", "npy")):
                place = self.place(f"alone-{name}")
                place.run(processor=processor, consumers=1)
                found |= {f"{name}/{file}": data for file, data in place.results().items()}
            OwnGroups.made = found
        return OwnGroups.made

    made = None

    def assert_whole(self, *optional):
        found = self.work.results()
        kept = {name: data for name, data in found.items() if name.partition("/")[0] not in optional}
        self.assertEqual(self.alone(), kept)
        self.assertEqual([], processes_of(self.folder))
        return found

    def status(self):
        return json.loads((self.work.run_dir / "status.json").read_text())

    def consumers_of(self, group):
        try:
            return [each for each in self.status()["consumers"] if each.get("group") == group]
        except (FileNotFoundError, KeyError):
            return []

    def until(self, condition, what):
        return wait_for(condition, what)

    # -- results ------------------------------------------------------------------------------------------------------

    def test_each_group_has_the_results_of_a_run_alone(self):
        self.ends("preview")
        found = self.assert_whole("preview")
        self.assertEqual({"rows", "arrays"}, {name.partition("/")[0] for name in self.alone()})
        self.assertEqual(1 + 2 * SAMPLES, len(self.alone()), "a file of each sample, and records of one group")
        self.assertTrue({name.partition("/")[0] for name in found} <= {"rows", "arrays", "preview"})
        summary = json.loads((self.work.run_dir / "summary.json").read_text())
        self.assertEqual((0, SAMPLES), (summary["exit"], summary["samples"]["released"]))
        self.assertEqual(["rows", "arrays", "preview"], [group["name"] for group in summary["groups"]])
        self.assertEqual({"rows", "arrays", "preview"}, {each.get("group") for each in summary["consumers"]})

    def test_one_command_starts_the_consumers_of_all_groups(self):
        self.work.close_gate("b000-0")
        loop = self.loop()
        self.until(lambda: self.consumers_of("rows") and self.consumers_of("arrays"), "consumers of both groups")
        launchers = [
            pid
            for pid in processes_of(self.folder)
            if b"\0consume\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        self.assertEqual(1, len(launchers))
        refused = subprocess.run(
            [*LAUNCHER, "consume", "--run-dir", self.work.run_dir, "--group", "rows", "--processor", "npy"],
            env=launcher_environment(),
            capture_output=True,
            text=True,
        )
        self.assertEqual(85, refused.returncode, refused.stdout + refused.stderr)
        self.assertIn("has a launcher already", refused.stderr)
        (self.work.gates / "b000-0").unlink()
        self.end(loop)
        self.assert_whole()

    def test_counters_and_consumers_are_those_of_each_group(self):
        import numpy

        gate = self.work.close_gate("k0")
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        groups = {"rows": offramp.Group(f"{self.post}:save"), "arrays": offramp.Group("npy", consumers=2)}
        with offramp.Egress(self.run_dir, output=self.folder / "out", groups=groups, samples_per_slab=1) as egress:
            self.assertEqual({}, egress.group_stats())
            egress.submit(numpy.zeros((1, 3), "float32"), ["k0"])
            held = {"rows": (0, 1, 1), "arrays": (1, 0, 2)}  # completed, slabs held, consumers
            self.until(lambda: self.counters(egress) == held, "that one group has finished, and the other works")
            self.assertEqual(0, egress.stats().samples_completed)
            egress.scale(3, group="arrays")
            self.until(lambda: self.counters(egress)["arrays"] == (1, 0, 3), "three consumers")
            with self.assertRaisesRegex(offramp.BadArgument, "the run has no group 'typo'.*groups: rows, arrays"):
                egress.scale(3, group="typo")
            with self.assertRaisesRegex(offramp.BadArgument, "names no group, and this run has groups"):
                egress.scale(3)
            gate.unlink()
        self.assertEqual({"rows": (1, 0, 0), "arrays": (1, 0, 0)}, self.counters(egress))

    def test_a_group_that_drops_its_oldest_delays_no_other(self):
        import numpy

        gate = self.work.close_gate("k0")
        os.environ["GATES"] = str(self.work.gates)
        self.addCleanup(os.environ.pop, "GATES")
        groups = {
            "rows": offramp.Group(f"{self.post}:save", when_full="drop-oldest"),
            "arrays": offramp.Group("npy"),
        }
        out = self.folder / "out"
        with offramp.Egress(self.run_dir, output=out, groups=groups, slabs=3, samples_per_slab=1) as egress:
            for number in range(SAMPLES):
                egress.submit(numpy.zeros((1, 3), "float32"), [f"k{number}"])
            self.until(lambda: self.counters(egress)["arrays"][0] == SAMPLES, "the other group has every sample")
            gate.unlink()
        rows = egress.group_stats()["rows"]
        self.assertGreater(rows.samples_dropped, 0)
        self.assertEqual(SAMPLES, rows.samples_completed + rows.samples_dropped)
        self.assertEqual(rows.samples_completed, len(list((out / "rows").glob("**/*.bin"))))

    @staticmethod
    def counters(egress):
        return {
            name: (each.samples_completed, each.slabs_held, each.consumers)
            for name, each in egress.group_stats().items()
        }

    # -- deaths and failures ------------------------------------------------------------------------------------------

    def test_a_killed_consumer_of_one_group_is_replaced(self):
        gate = self.work.close_gate("b001-0")
        loop = self.loop()
        self.until(lambda: any(each["holding"] for each in self.consumers_of("rows")), "a slab at work")
        [victim] = self.consumers_of("rows")
        others = [each["pid"] for each in self.consumers_of("arrays")]
        os.kill(victim["pid"], signal.SIGKILL)
        self.until(lambda: any(each["pid"] != victim["pid"] for each in self.consumers_of("rows")), "its successor")
        gate.unlink()
        self.end(loop)
        self.assert_whole()
        ends = {
            each["pid"]: each["signal"]
            for each in json.loads((self.work.run_dir / "summary.json").read_text())["consumers"]
        }
        self.assertEqual("SIGKILL", ends[victim["pid"]])
        self.assertEqual([None], [ends[pid] for pid in others], "the other group's consumer stayed")

    def test_an_optional_group_that_fails_dies_or_hangs_costs_nothing(self):
        for number, fault in enumerate(
            (
                "raise ValueError('no')",
                "os._exit(3)",
                "import time\n    while True:\n        time.sleep(0.01)",
            )
        ):
            with self.subTest(fault):
                self.work = self.place(f"optional{number}")
                self.show.write_text(FAILS.format(fault))
                self.ends("preview", visibility_timeout=1.0)
                self.assert_whole("preview")
                preview = self.status()["groups"][2]
                self.assertEqual((True, 0), (preview["optional"], preview["released_samples"]))

    def test_a_required_group_that_fails_reaches_the_loop_with_its_reason(self):
        self.groups["show"] = f"{self.show}:show"
        self.show.write_text(FAILS.format("raise ValueError('no disk of mine')"))
        printed = self.ends(code=1, batches=200)
        self.assertRegex(printed.splitlines()[-1], r"^offramp\._errors\.ConsumersFailed: .*no disk of mine")
        self.assertIn(str(self.work.run_dir / "groups" / "show"), printed.splitlines()[-1])
        self.assertEqual([], processes_of(self.folder))

    def test_dead_letters_of_one_group_leave_the_others_whole(self):
        self.groups["show"] = f"{self.show}:show"
        self.show.write_text(
            "def show(slab):\n    for sample, values in slab:\n        if sample.key == 'b002-1':\n"
            "            raise ValueError('one odd sample')\n        yield sample, {'sum': float(values.sum())}\n"
        )
        printed = self.ends(code=1)
        folder = self.work.run_dir / "groups" / "show"
        self.assertRegex(
            printed.splitlines()[-1],
            rf"ConsumersFailed: 1 sample was dead-lettered.*sample 'b002-1' failed: ValueError: one odd sample "
            rf"\(show\.py:4\)\. Inspect them: .*dead-letters list --run-dir {re.escape(str(folder))}\. Fix the processor, then: ",
        )
        self.assert_whole("show")
        self.assertEqual(SAMPLES - 1, self.records("show"))
        self.show.write_text(self.show.read_text().replace("b002-1", "none"))
        retried = subprocess.run(
            [*LAUNCHER, "dead-letters", "retry", "--all", "--run-dir", folder],
            env=launcher_environment(),
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, retried.returncode, retried.stdout + retried.stderr)
        self.assertEqual(SAMPLES, self.records("show"))
        self.show.write_text(FAILS.format("raise offramp.Reject('no')").replace("import os", "import offramp"))
        del self.groups["show"]
        self.work = self.place("optional")
        self.ends("preview")
        self.assert_whole("preview")

    def records(self, group):
        file = self.work.output / group / "records.jsonl"
        return len({json.loads(line)["key"] for line in file.read_text().splitlines()})

    # -- continuing ---------------------------------------------------------------------------------------------------

    def test_a_killed_loop_continues_for_all_groups(self):
        self.dies("noted 3", "b004-0")
        self.ends(resume=True)
        self.assertLess(self.work.submitted(), BATCHES, "what is done is left out")
        self.assert_whole()
        self.ends(resume=True)
        self.assertEqual(0, self.work.submitted(), "nothing is left")
        self.assert_whole()

    def test_other_groups_are_other_work(self):
        self.ends(batches=2)
        printed = self.ends("preview", resume=True, code=1)
        self.assertRegex(
            printed, r"BadArgument: .* has results of other work: processor was .*rows=.* and is .*preview="
        )

    def test_earlier_results_are_kept_under_another_name(self):
        self.ends(batches=2)
        before = self.work.results()
        printed = self.ends(code=1)
        self.assertRegex(printed.splitlines()[-1], r"BadArgument: output /.*resume=True .*'overwrite': True")
        self.assertEqual(before, self.work.results(), "a refused loop changes nothing")
        self.ends(settings={"overwrite": True})
        self.assert_whole()
        [aside] = self.work.folder.glob("out.before-*")
        self.assertEqual(before, results(aside))

    def test_a_loop_that_finished_nothing_begins_anew(self):
        """Notes of its groups are no earlier work. Twin: a result is, in the test above."""
        also = self.folder / "also.py"
        also.write_text(POST.replace("save", "also"))
        rows_alone = {name: data for name, data in self.alone().items() if name.startswith("rows/")}
        self.groups = {"rows": f"{self.post}:save", "also": f"{also}:also"}
        gates = [self.work.close_gate(f"b{batch:03}-0") for batch in range(BATCHES)]
        loop = self.loop()
        self.until(
            lambda: all(any(each["holding"] for each in self.consumers_of(group)) for group in self.groups),
            "a slab at work in each group",
        )
        consumers = [each["pid"] for group in self.groups for each in self.consumers_of(group)]
        for pid in (loop.pid, *consumers):
            os.kill(pid, signal.SIGKILL)
        loop.wait()
        wait_for(lambda: not processes_of(self.folder), "that the consumers of the dead loop are gone")
        self.assertEqual({}, self.work.results())
        self.assertTrue((self.work.output / "rows" / ".offramp-own-run").exists(), "a note of the group's work")
        for gate in gates:
            gate.unlink()
        self.ends()
        self.assertEqual(rows_alone, {k: v for k, v in self.work.results().items() if k.startswith("rows/")})
        self.assertEqual(SAMPLES, self.records("also"))


class Arguments(Loops):
    def test_wrong_groups_are_refused(self):
        group = offramp.Group
        out = {"output": self.folder / "out"}
        one = {"masks": group("npy")}
        for groups, options, why in (
            ({"Masks": group("npy")}, out, "the name 'Masks'. Give 1 to 16 lower-case letters"),
            ({"abcdefghijklmnopq": group("npy")}, out, "the name 'abcdefghijklmnopq'"),
            ({"a=b": group("npy")}, out, "the name 'a=b'"),
            ({7: group("npy")}, out, "the name 7"),
            ({"masks": "npy"}, out, r"the group 'masks' is 'npy'. Give offramp.Group\(PROCESSOR"),
            ({f"g{number}": group(f"{number}.py:x") for number in range(9)}, out, "9 groups. Give at most 8"),
            ({"masks": group("npy", optional=True)}, out, "all groups are optional.*Omit optional=True in one"),
            ({**one, "rows": group("npy")}, out, "'masks' and 'rows' have the processor 'npy'. Give each"),
            ({"masks": group("none.py:save")}, out, "a file that does not exist: /.*none.py"),
            (one, {}, "groups have no output folder. Give output=FOLDER"),
            (one, {"output": "s3://bucket/prefix"}, "object store, which does not go with groups yet"),
            (one, {**out, "processor": "npy"}, "processor and groups are given. Omit processor"),
            (one, {**out, "consumers": 2}, "consumers and groups are given. Omit consumers"),
            (one, {**out, "when_full": "drop"}, "when_full is 'drop'. Omit when_full"),
            (one, {**out, "settings": {"group": "x=npy"}}, "'group' cannot be passed in settings"),
        ):
            with self.subTest(groups, **options), self.assertRaisesRegex(offramp.BadArgument, why):
                offramp.Egress(groups=groups, **options)
            self.assertFalse((self.folder / "out").exists(), "nothing was made")

    def test_a_wrong_group_is_refused_when_it_is_made(self):
        for arguments, why in (
            (("",), "a group's processor is ''. Give one name"),
            (("npy,checksum",), "a group's processor is 'npy,checksum'. Give one name, .* another group"),
            ((None,), "a group's processor is None"),
            (("npy", 0), "a group's consumers is 0. Give 1 to 64"),
            (("npy", 65), "a group's consumers is 65. Give 1 to 64"),
            (("npy", "2"), "a group's consumers is '2'. Give a whole number"),
            (("npy", 2, "yes"), "optional is 'yes'. Give True or False"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(offramp.BadArgument, why):
                offramp.Group(*arguments)

    @needs_numpy
    def test_an_unknown_processor_is_named(self):
        import numpy

        groups = {"masks": offramp.Group("npy"), "rows": offramp.Group("nonsense", optional=True)}
        with self.assertRaisesRegex(offramp.BadArgument, "processor 'nonsense' is unknown. Known: checksum, "):
            with offramp.Egress(output=self.folder / "out", groups=groups, slabs=2, samples_per_slab=1) as egress:
                for number in range(8):
                    egress.submit(numpy.zeros((1, 3), "float32"), [f"k{number}"])
        self.assertFalse((self.folder / "out" / "masks").exists(), "nothing was made")
