"""
Runs with groups of consumers: each group's results are those of a run of its processor alone, whatever happens to the
consumers of another group. Consumers wait at a gate in each slab, so that nothing here depends on timing.
"""

import importlib.util
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import unittest
import urllib.request

from tests.support.done_items import items_of_checkpoint, items_of_checksums
from tests.support.launched_run import ROOT, LaunchedRun
from tests.support.real_run import LeavesNothing

COPY = (
    *"--device cpu --model copy --copy-bytes 64KiB --batch 4 --batches 100 --slabs 4 --samples-per-slab 4".split(),
    *"--status-seconds 0.02 --visibility-timeout 120".split(),
)
SAMPLES = 400
in_python = unittest.skipIf(not importlib.util.find_spec("numpy"), "skipped: needs NumPy")
PRODUCER = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"], "offramp-producer")
WRONG_NAMES = ("", "Masks", "3d", "a_b", "../a", "abcdefghijklmnopq")
# Many slabs; `rows` takes long for one while the file `slow` exists, and `sums` sets the pace until then.
LONG = (
    *"--device cpu --model copy --copy-bytes 4KiB --batch 4 --batches 100000 --slabs 8 --samples-per-slab 4".split(),
    *"--status-seconds 0.1 --visibility-timeout 120".split(),
)
PACED = """
import pathlib, time


def rows(batch):
    time.sleep(0.2 if pathlib.Path(__file__).with_name("slow").exists() else 0)
    for sample, values in batch:
        yield sample, {"row": sample.item}


def sums(batch):
    time.sleep(0.04)
    for sample, values in batch:
        yield sample, {"sum": sample.item}
"""
GROUPS = ("--group", "arrays=npy:2", "--group", "sums=checksum:1")
FAILS = """
def save(batch):
    for sample, values in batch:
        if sample.item in (9, 50):
            raise ValueError(f"item {sample.item}")
        yield sample, {"twice": 2 * sample.item}
"""
DIES = """
import os


def show(batch):
    os._exit(3)
"""


# The preview of the guide, which never finishes a slab.
HANGS = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "launch" / "demo")!r})
import preview

class show(preview.show):
    def __call__(self, slab):
        super().__call__(slab)
        while True:
            time.sleep(0.01)
"""

# A required group, so that the run waits until the test makes a file beside this one.
WAITS = """
import pathlib, time

def wait(slab, port):
    while not pathlib.Path(__file__).with_name("open").exists():
        time.sleep(0.01)
"""


class Groups(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.wanted = {}
        for group, processor in (("arrays", "npy"), ("sums", "checksum")):
            with LaunchedRun(*COPY, "--processor", processor, "--consumers", "1") as run:
                assert run.start().wait() == 0, run.logs()
                cls.wanted |= {f"{group}/{name}": data for name, data in run.files().items()}
        assert {"arrays", "sums"} == {name.partition("/")[0] for name in cls.wanted}, cls.wanted

    def consumers_of(self, run, group):
        return [each for each in run.status().get("consumers") or [] if each.get("group") == group]

    def group_in(self, report, name):
        return next((each for each in report.get("groups") or [] if each["name"] == name), {})

    def assert_whole(self, run, code=0):
        self.assertEqual(code, run.wait(), run.logs())
        self.assertEqual(self.wanted, run.files(), run.logs())
        summary = run.summary()
        self.assertTrue(summary["conserved"])
        for name in ("arrays", "sums"):
            self.assertEqual(SAMPLES, self.group_in(summary, name)["released_samples"])
        return summary

    def test_each_group_has_the_results_of_its_processor_alone(self):
        with LaunchedRun(*COPY, *GROUPS) as run:
            summary = self.assert_whole(run.start())
            self.assertEqual(["arrays", "sums"], [each["name"] for each in summary["groups"]])
            self.assertEqual({"arrays", "sums"}, {each["group"] for each in summary["consumers"]})
            log = (run.folder / "launcher.log").read_text()
            self.assertIn(f"  group      arrays: {SAMPLES} samples done\n", log)
            self.assertEqual([], list(run.output.rglob(".offramp-lock")))

    def test_a_killed_consumer_of_one_group_is_replaced(self):
        with LaunchedRun(*COPY, *GROUPS) as run, run.gate() as gate:
            run.start()
            run.until(lambda: any(each["holding"] for each in self.consumers_of(run, "sums")), "a slab at work")
            victim = self.consumers_of(run, "sums")[0]["pid"]
            others = {each["pid"] for each in self.consumers_of(run, "arrays")}
            os.kill(victim, signal.SIGKILL)
            run.until(lambda: victim not in {each["pid"] for each in self.consumers_of(run, "sums")}, "its death")
            run.until(lambda: self.consumers_of(run, "sums"), "its successor")
            gate.open()
            summary = self.assert_whole(run)
            ends = {each["pid"]: each["signal"] for each in summary["consumers"]}
            self.assertEqual("SIGKILL", ends[victim])
            self.assertEqual({None}, {ends[pid] for pid in others}, "the other group's consumers stay")

    def test_another_producer_takes_over_all_groups(self):
        with LaunchedRun(*COPY, *GROUPS, "--producer-restarts", "1") as run, run.gate() as gate:
            run.start()
            run.until(
                lambda: all(each["holding"] for each in run.status().get("consumers") or [{"holding": 0}]), "work"
            )
            gate.let(3)
            run.until(lambda: self.group_in(run.status(), "arrays").get("released_samples"), "a slab done")
            os.kill(run.status()["pid"], signal.SIGKILL)
            run.until(lambda: run.status().get("producers") == 2, "its successor")
            gate.open()
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(self.wanted, run.files())
            self.assertTrue(run.summary()["conserved"])

    def test_each_group_is_scaled_alone(self):
        with LaunchedRun(*COPY, *GROUPS) as run, run.gate() as gate:
            run.start()
            run.until(lambda: len(self.consumers_of(run, "arrays")) == 2, "the consumers of arrays")
            refused = run.command("scale", "3")
            self.assertEqual(64, refused.returncode)
            self.assertIn("groups: arrays, sums", refused.stderr)
            done = run.command("scale", "sums=3")
            self.assertRegex(done.stdout, ": sums: 1 -> 3 consumers\n$", done.stderr)
            run.until(lambda: len(self.consumers_of(run, "sums")) == 3, "the consumers of sums")
            self.assertEqual(2, len(self.consumers_of(run, "arrays")))
            self.assertIn("2 -> 0 consumers; the run waits for this group", run.command("scale", "arrays=0").stdout)
            gate.open()
            run.until(lambda: not self.consumers_of(run, "arrays"), "the end of the consumers of arrays")
            run.until(lambda: (run.status().get("slabs") or {}).get("free") == 0, "a full pool")
            self.assertIn("group arrays: 0 of 0 consumers", run.command("status").stdout)
            self.assertLess(run.status()["done_samples"], SAMPLES)
            run.command("scale", "arrays=1")
            self.assert_whole(run)

    def start_paced(self, run, number):
        """`number`: of the consumers of `rows`."""
        post = run.folder / "paced.py"
        post.write_text(PACED)
        groups = ("--group", f"rows={post}:rows:{number}", "--group", f"sums={post}:sums:1")
        run.start(*groups, "--consumer-python", sys.executable)
        run.until(lambda: self.group_in(run.status(), "sums").get("released_slabs", 0) >= 50, "some slabs")

    def stop(self, run):
        self.assertEqual(0, run.command("stop").returncode)
        self.assertEqual(130, run.wait(), run.logs())
        self.assertTrue(run.summary()["conserved"])
        return {each["name"]: each for each in run.summary()["groups"]}

    @in_python
    def test_a_group_whose_load_grows_gets_more_consumers(self):
        with LaunchedRun(*LONG) as run:
            self.start_paced(run, "1..3")
            [first], [other] = self.consumers_of(run, "rows"), self.consumers_of(run, "sums")
            self.assertIn("group rows: 1 of 1 consumer, autoscaled within 1..3, ", run.command("status").stdout)
            (run.folder / "slow").touch()
            run.until(lambda: len(self.consumers_of(run, "rows")) == 3, "more consumers of rows")
            self.assertIn(first["pid"], {each["pid"] for each in self.consumers_of(run, "rows")})
            self.assertEqual([other["pid"]], [each["pid"] for each in self.consumers_of(run, "sums")])
            groups = self.stop(run)
            following = groups["rows"]["following"]
            self.assertEqual(("1..3", True), (following["bounds"], following["changes"] >= 1))
            self.assertNotIn("following", groups["sums"], "it keeps its number")

    @in_python
    def test_reload_replaces_a_groups_consumers_or_all(self):
        with LaunchedRun(*LONG) as run:
            self.start_paced(run, "2")

            def pids():
                return [{each["pid"] for each in self.consumers_of(run, group)} for group in ("rows", "sums")]

            run.until(lambda: [len(each) for each in pids()] == [2, 1], "all consumers")
            before = pids()
            done = run.command("reload", "sums")
            self.assertIn("1 of 1 consumers replaced", done.stdout, done.stderr)
            run.until(lambda: len(pids()[1] - before[1]) == len(pids()[1]) == 1, "only the new consumer of sums")
            between = pids()
            self.assertEqual(before[0], between[0], "the other group's consumers stay")
            done = run.command("reload")
            self.assertIn("3 of 3 consumers replaced", done.stdout, done.stderr)
            run.until(lambda: [len(each) for each in pids()] == [2, 1], "all new consumers")
            self.assertEqual([set(), set()], [old & new for old, new in zip(between, pids())])
            self.stop(run)

    def test_each_groups_consumers_record_to_a_folder_of_the_group(self):
        with LaunchedRun(*COPY, *GROUPS) as run:
            traces = run.folder / "traces"
            self.assert_whole(run.start("--trace-dir", str(traces)))
            heads = {}
            for file in traces.rglob("*.jsonl"):
                heads.setdefault(file.parent.relative_to(traces).as_posix(), []).append(file.name.partition("-")[0])
            self.assertEqual({".": ["producer"], "arrays": ["consumer"] * 2, "sums": ["consumer"]}, heads)

    @in_python
    def test_an_optional_group_that_fails_holds_nothing(self):
        with LaunchedRun(*COPY, *GROUPS) as run:
            processor = run.folder / "dies.py"
            processor.write_text(DIES)
            run.start("--group", f"extra={processor}:show:1,optional", "--consumer-python", sys.executable)
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(self.wanted, {name: data for name, data in run.files().items() if "extra/" not in name})
            extra = self.group_in(run.summary(), "extra")
            facts = ("optional", "when_full", "released_samples")
            self.assertEqual((True, "drop-oldest", 0), tuple(extra[name] for name in facts))

    def test_an_optional_group_without_consumers_loses_the_oldest(self):
        with LaunchedRun(*COPY, *GROUPS) as run, run.gate() as gate:
            run.start("--group", "extra=safetensors:1,optional")
            run.until(lambda: any(each["holding"] for each in self.consumers_of(run, "extra")), "a slab at work")
            self.assertEqual(0, run.command("scale", "extra=0").returncode)
            gate.open()
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(self.wanted, {name: data for name, data in run.files().items() if "extra/" not in name})
            extra = self.group_in(run.summary(), "extra")
            self.assertGreater(extra["dropped_samples"], 0)
            self.assertLess(extra["released_samples"], SAMPLES)

    def test_a_group_that_spills_holds_no_other(self):
        with LaunchedRun(*COPY) as run, run.gate() as gate:
            run.start("--group", "arrays=npy:2", "--group", "sums=checksum:1,spill")
            run.until(lambda: any(each["holding"] for each in self.consumers_of(run, "sums")), "a slab at work")
            self.assertEqual(0, run.command("scale", "sums=0").returncode)
            gate.open()
            run.until(lambda: self.group_in(run.status(), "arrays").get("released_samples") == SAMPLES, "all arrays")
            sums = self.group_in(run.status(), "sums")
            self.assertLess(sums["released_samples"], SAMPLES)
            self.assertGreater(sums["spilled_samples"], 0)
            self.assertLess(run.status()["done_samples"], SAMPLES)
            files = list((run.run_dir / "live/spill/sums").glob("slab-*.spill"))
            self.assertGreater(len(files), SAMPLES // 8)
            self.assertIn(" samples on disk", run.command("status").stdout)
            run.command("scale", "sums=1")
            self.assert_whole(run)
            self.assertEqual(0, self.group_in(run.summary(), "sums")["spilled_samples"])
            self.assertFalse((run.run_dir / "live/spill").exists(), "spill files are left")

    def test_a_required_group_may_drop_its_oldest(self):
        """The other group has every sample. A resumed run makes the dropped ones again."""
        with LaunchedRun(*COPY, *GROUPS[:-1], f"{GROUPS[-1]},drop-oldest") as run:
            with run.gate() as gate:
                run.start()
                run.until(lambda: any(each["holding"] for each in self.consumers_of(run, "sums")), "a slab at work")
                self.assertEqual(0, run.command("scale", "sums=0").returncode)
                gate.open()
                run.until(lambda: self.group_in(run.status(), "arrays").get("released_samples") == SAMPLES, "arrays")
                run.command("scale", "sums=1")
                self.assertEqual(0, run.wait(), run.logs())
            listed = [json.loads(line) for line in (run.run_dir / "dropped.jsonl").read_text().splitlines()]
            self.assertEqual({"sums"}, {line["group"] for line in listed})
            dropped = [sample["item"] for line in listed for sample in line["samples"]]
            self.assertEqual(len(set(dropped)), len(dropped), "listed once")
            summary = run.summary()
            self.assertTrue(summary["conserved"])
            samples = summary["samples"]
            self.assertEqual(
                (len(dropped), len(dropped), SAMPLES - len(dropped)),
                tuple(samples[name] for name in ("dropped", "dropped_when_full", "released")),
            )
            arrays, sums = self.group_in(summary, "arrays"), self.group_in(summary, "sums")
            self.assertEqual(("wait", "drop-oldest"), (arrays["when_full"], sums["when_full"]))
            self.assertEqual((SAMPLES, 0), (arrays["released_samples"], arrays["dropped_samples"]))
            self.assertEqual(
                (SAMPLES - len(dropped), len(dropped)), (sums["released_samples"], sums["dropped_samples"])
            )
            kept = set(range(SAMPLES)) - set(dropped)
            self.assertEqual(kept, items_of_checksums(run.output / "sums"))
            self.assertEqual(kept, items_of_checkpoint(run.output))
            run.flags = (*COPY, *GROUPS)
            run.start("--resume")
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(self.wanted, run.files())

    def test_a_stopped_run_continues_for_all_groups(self):
        with LaunchedRun(*COPY, *GROUPS) as run:
            with run.gate() as gate:
                run.start()
                for _ in range(3):
                    gate.entered()
                run.launcher.send_signal(signal.SIGINT)
                run.until(lambda: run.status().get("state") == "draining", "the signal taken")
                gate.open()
                self.assertEqual(130, run.wait(), run.logs())
            self.assertLess(run.summary()["samples"]["released"], SAMPLES)
            run.start("--resume")
            self.assertEqual(0, run.wait(), run.logs())
            self.assertEqual(self.wanted, run.files())

    def test_groups_of_a_settings_file_or_variable(self):
        lines = "arrays=npy:2\nsums=checksum:1\n"
        for by in ("file", "variable"):
            with self.subTest(by), LaunchedRun(*COPY) as run:
                if by == "variable":
                    run.environment["OFFRAMP_GROUP"] = lines
                    run.start()
                else:
                    (run.folder / "run.toml").write_text(f"group = {json.dumps(lines)}\n")
                    run.start("--config", str(run.folder / "run.toml"))
                self.assert_whole(run)

    @in_python
    def test_a_group_keeps_its_dead_letters(self):
        """A slab that one group cannot process is done by the other; a retry does its other samples."""
        with LaunchedRun(*COPY, "--group", "sums=checksum:1", "--consumer-python", sys.executable) as run:
            processor = run.folder / "fails.py"
            processor.write_text(FAILS)
            run.start("--group", f"rows={processor}:save:1")
            self.assertEqual(84, run.wait(), run.logs())
            self.assertEqual(self.wanted["sums/checksums.tsv"], run.files()["sums/checksums.tsv"])
            summary = run.summary()
            self.assertEqual((2, 6), tuple(summary["samples"][name] for name in ("dead_letters", "recovered")))
            rows, sums = self.group_in(summary, "rows"), self.group_in(summary, "sums")
            self.assertEqual((SAMPLES - 2, 2), (rows["released_samples"], rows["dead_lettered_samples"]))
            self.assertEqual((SAMPLES, 0), (sums["released_samples"], sums["dead_lettered_samples"]))
            self.assertEqual([str(run.run_dir / "groups" / "rows")], summary["dead_letters_in"])
            listed = run.command("dead-letters", "list")
            self.assertEqual(2, listed.stdout.count(" of 4 samples failed"), listed.stdout + listed.stderr)
            processor.write_text(FAILS.replace("(9, 50)", "()"))
            again = run.command("dead-letters", "retry", "--all")
            self.assertEqual(0, again.returncode, again.stdout + again.stderr)
            records = [json.loads(line) for line in run.files()["rows/records.jsonl"].splitlines()]
            self.assertEqual(list(range(SAMPLES)), sorted(record["item"] for record in records))

    def test_a_consumer_joins_a_group_by_hand(self):
        with LaunchedRun(*COPY, *GROUPS) as run, run.gate() as gate:
            run.start()
            run.until(lambda: self.consumers_of(run, "sums"), "the consumer of sums")
            other = run.command("consume", "--group", "other")
            self.assertEqual(66, other.returncode)
            self.assertIn("Its groups: arrays, sums", other.stderr)
            joined = subprocess.Popen(
                [ROOT / "launch/offramp", "consume", "--run-dir", run.run_dir, "--group", "sums"],
                env=run.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            run.until(lambda: joined.pid in {each["pid"] for each in self.consumers_of(run, "sums")}, "its arrival")
            gate.open()
            self.assert_whole(run)
            self.assertEqual(0, joined.wait(60))

    def test_what_does_not_go_with_groups_is_refused(self):
        for flags, why in (
            (("--processor", "npy"), "--processor 'npy': each group names its own"),
            (("--consumers", "2"), "--consumers: each group has its own number"),
            (("--when-full", "drop"), "--when-full 'drop' does not go with --group"),
            (("--group", "sums=npy"), "names the group 'sums' twice"),
            (
                ("--group", "x=no-such-processor"),
                "group 'x': processor 'no-such-processor' is unknown. Known: checksum, ",
            ),
        ):
            with self.subTest(flags), LaunchedRun(*COPY, *GROUPS, *flags) as run:
                self.assertEqual(64, run.start().wait(), run.logs())
                self.assertRegex(run.logs(), why)
                self.assertFalse(pathlib.Path(run.output, "arrays").exists(), "nothing was made")

    def test_a_wrong_group_is_refused_with_value_and_fix(self):
        form = re.escape("Accepted: NAME=PROCESSOR[:N][,optional][,drop-oldest|spill]")
        only = "after a comma, where only optional, drop-oldest and spill may follow"
        for text, why in (
            ("npy", "names no processor"),
            ("a=", "names no processor"),
            ("a=:2", "names no processor"),
            ("a=auto", "names 'auto'"),
            *((f"{name}=npy", "1 to 16 lower-case letters, digits and '-', a letter first") for name in WRONG_NAMES),
            ("a=npy:0", "not 1 to 64"),
            ("a=npy:65", "not 1 to 64"),
            *(
                (f"a=npy:{number}", "not 1 to 64, nor two of them")
                for number in ("3..2", "0..2", "2..65", "2..", "2.3")
            ),
            ("a=npy,checksum", f"has 'checksum' {only}"),
            ("a=npy,optional:2", f"has 'optional:2' {only}"),
            ("a=npy,", f"has '' {only}"),
            ("a=npy,optional,optional", "has 'optional' twice"),
            ("a=npy,drop-oldest,spill", "has both drop-oldest and spill: give one"),
            ("a=npy,spill,optional", "has both optional and spill"),
        ):
            with self.subTest(text):
                done = subprocess.run(
                    [PRODUCER, "settings", "--group", text], capture_output=True, text=True, check=False
                )
                self.assertEqual(64, done.returncode, done.stderr)
                self.assertRegex(done.stderr, f"--group '{re.escape(text)}'.*{why}.*{form}")


@in_python
class Preview(LeavesNothing):
    """The run of launch/guide/groups.md: whatever becomes of the preview, masks and table are complete."""

    FLAGS = (
        *("--input", str(ROOT / "launch" / "demo" / "images")),
        *"--device cpu --batch 2 --slabs 4 --status-seconds 0.02 --visibility-timeout 120".split(),
    )
    GROUPS = "--group masks=mask-png:2 --group table=records".split()

    @classmethod
    def setUpClass(cls):
        cls.wanted = {}
        for name, processor in (("masks", "mask-png"), ("table", "records")):
            with LaunchedRun(*cls.FLAGS, "--processor", processor, "--consumers", "1") as run:
                assert run.start().wait() == 0, run.logs()
                cls.wanted[name] = cls.results_in(run.output)

    @staticmethod
    def results_in(folder):
        """The bytes of masks, and the rows of a table."""
        masks = {path.name: path.read_bytes() for path in folder.glob("*.png")}
        for path in folder.glob("*.sqlite"):
            with sqlite3.connect(path) as database:
                columns = "item, key, status, classes, columns, model"
                masks[path.name] = database.execute(f"SELECT {columns} FROM records ORDER BY item").fetchall()
            database.close()
        return masks

    @staticmethod
    def free_port():
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            return server.getsockname()[1]

    def page(self, port, name=""):
        """None while nothing answers there."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://127.0.0.1:{port}/{name}", timeout=60) as answer:
                return answer.read()
        except OSError:
            return None

    def preview_of(self, run):
        return [each["pid"] for each in run.status().get("consumers") or [] if each.get("group") == "preview"]

    def start(self, run, processor, port):
        (run.folder / "waits.py").write_text(WAITS)
        groups = (f"preview={processor}:show:1,optional", f"waits={run.folder}/waits.py:wait")
        flags = (word for group in groups for word in ("--group", group))
        return run.start(*flags, "--processor-option", f"port={port}", "--consumer-python", sys.executable)

    def require_whole(self, run):
        (run.folder / "open").touch()
        self.assertEqual(0, run.wait(), run.logs())
        self.assertEqual(self.wanted, {name: self.results_in(run.output / name) for name in self.wanted})
        self.assertEqual((12, 12), (len(self.wanted["masks"]), len(self.wanted["table"]["records.sqlite"])))

    def test_a_killed_preview_comes_back_and_costs_nothing(self):
        with LaunchedRun(*self.FLAGS, *self.GROUPS) as run:
            port = self.free_port()
            self.start(run, ROOT / "launch" / "demo" / "preview.py", port)
            run.until(lambda: re.search(rb"<h1>(?!waiting)", self.page(port) or b""), "a mask")
            self.assertEqual(b"\x89PNG", self.page(port, "mask.png")[:4])
            [victim] = self.preview_of(run)
            os.kill(victim, signal.SIGKILL)
            run.until(lambda: self.preview_of(run) not in ([], [victim]), "its successor")
            run.until(lambda: self.page(port), "its page")
            self.require_whole(run)

    def test_a_preview_that_hangs_costs_nothing(self):
        with LaunchedRun(*self.FLAGS, *self.GROUPS) as run:
            processor = run.folder / "hangs.py"
            processor.write_text(HANGS)
            port = self.free_port()
            self.start(run, processor, port)
            run.until(lambda: re.search(rb"<h1>(?!waiting)", self.page(port) or b""), "a mask")
            self.require_whole(run)
            preview = next(each for each in run.summary()["groups"] if each["name"] == "preview")
            self.assertEqual(0, preview["released_samples"])


if __name__ == "__main__":
    unittest.main()
