"""Groups of consumers (`run --group`): the flag, each group's consumers and failures, scaling, results and reports."""

import json
import os
import pathlib
import re
import selectors
import signal
import tempfile
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, InFolder, OnStage, kill, until
from test_consume import OwnProgram
from watched_documents import DOCUMENTS, changed

from offramp_launch import consume_command, dead_letters, groups, incidents, live_commands, retries, starting, summary
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.run_dir import read_settings
from offramp_launch.supervision.backoff import DEATHS_WITHOUT_PROGRESS, LONGEST_SECONDS
from offramp_launch.supervision.children import Child
from offramp_launch.supervision.consumer_groups import LONGEST_BACKOFF_SECONDS, ConsumerGroup, ConsumerGroups, GroupPlan
from offramp_launch.supervision.consumer_slots import UNASKED_END_SECONDS
from offramp_launch.supervision.events import Timers
from offramp_launch.watching import diagnosis, drawing
from offramp_launch.watching.exposition import text_of
from offramp_launch.watching.groups import group_rows
from offramp_launch.watching.metrics import families_of
from offramp_launch.watching.rates import Rates

GROUPED = DOCUMENTS["grouped"]


class FlagTest(unittest.TestCase):
    def test_a_group_has_a_name_a_processor_and_a_number(self):
        for text, group in (
            ("a=npy", ("a", "npy", "1", 1, False)),
            ("masks=mask-png:8", ("masks", "mask-png", "8", 8, False)),
            ("masks=mask-png:2..16,drop-oldest", ("masks", "mask-png", "2..16", 2, False)),
            ("preview=post.py:show:1,optional", ("preview", "post.py:show", "1", 1, True)),
            ("preview=post.py:show,drop-oldest,optional", ("preview", "post.py:show", "1", 1, True)),
            ("p2=post.py:show", ("p2", "post.py:show", "1", 1, False)),
            ("x=exec:./tool --rate=3:12", ("x", "exec:./tool --rate=3", "12", 12, False)),
            ("abcdefghijklmn-6=so:./mine.so,optional", ("abcdefghijklmn-6", "so:./mine.so", "1", 1, True)),
        ):
            of = groups.parsed(text)
            self.assertEqual(group, (of.name, of.processor, of.number, of.consumers, of.optional), text)

    def test_contradictions_are_refused(self):
        two = "a=npy\nb=checksum"
        for texts, argv, why in (
            (two, ["--processor", "npy"], "--group cannot be combined with --processor.*\n.*Leave --processor out"),
            (two, ["--consumers=auto"], "--group cannot be combined with --consumers.*NAME=PROCESSOR:N"),
        ):
            with self.subTest(texts), self.assertRaisesRegex(LaunchError, why):
                groups.groups_of({"group": texts}, argv)
        self.assertEqual(["a", "b"], [group.name for group in groups.groups_of({"group": two}, [])])
        self.assertEqual([], groups.groups_of({}, ["--processor", "npy"]))

    def test_a_groups_processor_chooses_the_packages(self):
        flags = ["--group", "a=npy:2", "--group=v=embeddings-parquet:2,optional", "--group", "not checked yet"]
        self.assertEqual(("requirements-parquet.txt",), starting.requirements_of(flags, {}))
        self.assertEqual((), starting.requirements_of(flags[:2], {}))
        variable = {"OFFRAMP_GROUP": "a=npy\nv=embeddings-parquet"}
        self.assertEqual(("requirements-parquet.txt",), starting.requirements_of([], variable))


class FolderTest(InFolder):
    def test_a_consumer_joins_one_of_several_producers(self):
        whole = {"workers": [{"run_dir": None}, {"run_dir": "/runs/1/s4"}]}
        (self.folder / "status.json").write_text(json.dumps(whole))
        with self.assertRaisesRegex(LaunchError, "several producers.*\n.*--run-dir /runs/1/s4"):
            consume_command.folder_of_group(self.folder, "a")
        (self.folder / "status.json").write_text(json.dumps({"workers": [{"run_dir": None}]}))
        self.assertEqual(self.folder / "groups/a", consume_command.folder_of_group(self.folder, "a"))


class GroupsTest(InFolder):
    """Real children, with a fake clock, watch and status: a required group and an optional one."""

    def setUp(self):
        super().setUp()
        self.now, self.started = 0.0, []
        self.timers = Timers(clock=lambda: self.now)
        self.selector = selectors.DefaultSelector()
        self.addCleanup(self.selector.close)
        self.watch, self.display = mock.Mock(), mock.Mock()
        self.watch.wants_consumers.side_effect = lambda: not self.watch.fail.called
        self.watch.is_draining.return_value = False
        self.watch.status = {"state": "running"}
        self.commands = {"needed": ["sleep", "1000"], "extra": ["sleep", "1000"]}
        self.groups = ConsumerGroups(
            [self.plan("needed", 2, False), self.plan("extra", 1, True)],
            self.watch,
            self.start,
            lambda name: self.folder / f"{name}.log",
            self.selector,
            self.timers,
            self.display,
        )
        self.addCleanup(self.end)

    def unnamed(self, joined=""):
        """The only group of a launcher: of a run without groups, or the group `joined` of a user's program."""
        self.watch.run_dir.group = joined
        return ConsumerGroup(self.plan("", 1, False), self.watch, None, None, None, None, self.display)

    def test_a_joined_group_has_no_work_once_it_has_finished(self):
        self.watch.is_draining.return_value = True
        own = {"name": "masks", "waiting_slabs": 0, "leased_slabs": 0}
        self.watch.status = {"state": "draining", "slabs": {"leased": 1}, "groups": [own]}
        self.assertFalse(self.unnamed("masks").has_work_for_consumers())
        own["leased_slabs"] = 1
        self.assertTrue(self.unnamed("masks").has_work_for_consumers())

    def test_twenty_failures_end_a_run_that_wants_consumers(self):
        self.watch.completed.return_value = 0
        for wanted in (False, True):
            self.watch.status = {"state": "running"}
            self.watch.wants_consumers.side_effect = lambda wanted=wanted: wanted
            group = self.unnamed()
            group.look()
            self.watch.status = {"state": "ended", "releases": {"failed": 20}, "last_failure": "ValueError: no mask"}
            group.look()
            self.assertEqual(wanted, self.watch.fail.called)
        (problem,) = self.watch.fail.call_args.args
        self.assertEqual(ExitCode.DEAD_LETTERS, problem.code)
        self.assertIn(
            "slabs failed 20 times in a row and nothing was completed in between; the last: ValueError", str(problem)
        )

    def plan(self, name, consumers, optional):
        return GroupPlan(name, optional, consumers, [name], [], self.folder / name, max_failures=3)

    def start(self, name, command):
        self.started.append(name)
        return Child(name, self.commands[command[0]], self.folder / f"{name}.log", ())

    def end(self):
        for child in self.groups.children():
            child.signal(signal.SIGKILL)
            child.reap()

    def report(self, waiting=0, **released):
        slabs = {"waiting_slabs": waiting, "leased_slabs": 0}
        self.watch.status["groups"] = [{"name": name, "released_samples": n, **slabs} for name, n in released.items()]

    def let_one_end(self):
        key, _ = self.selector.select(WATCHDOG_SECONDS)[0]
        key.data()

    def pass_time(self, seconds=max(UNASKED_END_SECONDS, LONGEST_SECONDS)):
        self.now += seconds
        self.timers.run_due()

    def scale(self, name, number):
        self.groups.named(name)[0].slots.bring_to(number)

    def notes(self):
        return [call.args[0] for call in self.display.note.mock_calls]

    def test_each_group_has_its_names_and_number(self):
        self.groups.begin()
        self.assertEqual(["needed-1", "needed-2", "extra-1"], self.started)
        self.scale("extra", 3)
        self.assertEqual(["extra-2", "extra-3"], self.started[3:])
        self.assertEqual(
            [("needed", 2, 2), ("extra", 3, 3)],
            [(each["name"], each["wanted"], each["alive"]) for each in self.groups.describe()],
        )
        self.scale("needed", 0)
        self.let_one_end()
        self.assertEqual({"needed"}, {record["group"] for record in self.groups.records})
        self.assertEqual((0, 3), tuple(each["wanted"] for each in self.groups.describe()))

    def test_a_kills_reason_is_no_line_that_happens_to_be_last(self):
        """Twin: an error that was printed before the kill is the reason."""
        for printed, why in (("a usual line", ""), ("offramp-consumer: it is wrong", ": it is wrong")):
            with self.subTest(printed):
                self.commands["extra"] = ["sh", "-c", f"echo '{printed}'; kill -9 $$"]
                self.scale("extra", 1)
                self.let_one_end()
                self.assertEqual(f"extra-1 was killed by SIGKILL{why}", self.groups.describe()[1]["failure"])
                self.scale("extra", 0)

    def test_a_wrong_scale_is_refused_with_the_names(self):
        for text, why in (
            ("12", "scale 12 names no group, and this run has groups\n.*NAME=N.*scale needed=4; groups: needed, extra"),
            ("auto", "names no group"),
            ("other=2", "the run has no group 'other'\n.*groups: needed, extra"),
            ("=4", "names no group"),
        ):
            with self.subTest(text), self.assertRaisesRegex(LaunchError, why):
                self.groups.scaled(text)

    def test_a_required_groups_permanent_failure_ends_the_run(self):
        self.commands["needed"] = ["sh", "-c", "echo there is none such >&2; exit 64"]
        self.groups.begin()
        self.let_one_end()
        (problem,), _ = self.watch.fail.call_args
        self.assertRegex(str(problem), "needed-[12] ended with exit code 64, which a retry cannot fix: there is none")
        self.assertEqual(64, problem.code)
        self.pass_time()
        self.assertEqual(3, len(self.started), "a run that has failed starts no consumer")

    def test_an_optional_group_is_started_again_for_ever(self):
        completed = 0
        for command in (["sh", "-c", "echo there is none such >&2; exit 64"], ["/there/is/none"], ["true"]):
            with self.subTest(command):
                self.commands["extra"] = command
                self.report(waiting=1, extra=completed)
                self.started.clear()
                self.display.note.reset_mock()
                for group in self.groups.describe():
                    self.scale(group["name"], 0)
                self.scale("extra", 1)
                for number in range(3 * DEATHS_WITHOUT_PROGRESS):
                    if self.groups.children():
                        self.let_one_end()
                    self.pass_time(LONGEST_BACKOFF_SECONDS)
                self.assertGreater(len(self.started), DEATHS_WITHOUT_PROGRESS)
                self.watch.fail.assert_not_called()
                whole = "\n".join(self.notes())
                self.assertEqual(1, whole.count("group extra fails, and the run goes on without it"), whole)
                self.assertTrue(self.groups.describe()[1]["failure"])
                completed += 1
                self.report(waiting=1, extra=completed)
                self.groups.look()
                self.assertEqual(
                    ("", "group extra works again"), (self.groups.describe()[1]["failure"], self.notes()[-1])
                )

    def test_an_optional_groups_last_death_is_shown_until_it_works(self):
        self.report(needed=0, extra=0)
        for why in ("it broke", "it broke again"):
            self.commands["extra"] = ["sh", "-c", f"echo {why} >&2; exit 1"]
            self.scale("extra", 0)
            self.scale("extra", 1)
            self.let_one_end()
            self.assertEqual(f"extra-1 ended with exit code 1: {why}", self.groups.describe()[1]["failure"])
        self.report(needed=5, extra=0)
        self.groups.look()
        self.assertTrue(self.groups.describe()[1]["failure"], "another group's progress does not count")
        self.report(needed=5, extra=1)
        self.groups.look()
        self.assertEqual("", self.groups.describe()[1]["failure"])
        self.assertNotIn("group extra", "\n".join(self.notes()), "the run has not gone on without it")
        self.commands["needed"] = ["false"]
        self.scale("needed", 1)
        self.let_one_end()
        self.assertEqual("", self.groups.describe()[0]["failure"], "a required group's failure is the run's")

    def test_an_optional_group_waits_longer_each_time(self):
        self.commands["extra"] = ["false"]
        self.watch.fail.side_effect = AssertionError
        self.scale("extra", 1)
        waits = []
        for _ in range(14):
            self.let_one_end()
            waits.append(self.timers.next_in())
            self.pass_time(self.timers.next_in())
        self.let_one_end()
        self.assertEqual((0.1, 0.2, 0.4, 60.0, 60.0), tuple(round(wait, 3) for wait in (*waits[:3], *waits[-2:])))

    def test_each_group_has_its_own_budget(self):
        self.commands["needed"] = ["false"]
        self.scale("needed", 1)
        for number in range(DEATHS_WITHOUT_PROGRESS):
            self.watch.fail.assert_not_called()
            self.report(needed=5, extra=number)  # another group's progress does not count
            self.let_one_end()
            self.pass_time()
        (problem,), _ = self.watch.fail.call_args
        self.assertRegex(str(problem), "consumers died 20 times in a row and nothing was completed.* needed-1")

    def test_a_groups_progress_renews_its_budget(self):
        self.commands["needed"] = ["false"]
        self.scale("needed", 1)
        for number in range(3 * DEATHS_WITHOUT_PROGRESS):
            self.report(needed=number // 10, extra=0)
            self.let_one_end()
            self.pass_time()
        self.watch.fail.assert_not_called()

    def bury(self, group, number):
        """The group now has so many dead letters."""
        folder = self.folder / group / "dead-letters"
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(number):
            (folder / f"{index}.json").write_text(
                json.dumps({"run_id": "r", "samples": [{"item": index}], "reason": "it broke"})
            )
        self.groups.look()

    def test_dead_letters_in_a_row_end_the_run(self):
        self.report(needed=0, extra=0)
        self.bury("needed", 0)
        self.bury("needed", 6)
        self.report(needed=4, extra=0)
        self.bury("needed", 7)
        self.bury("needed", 13)
        self.watch.fail.assert_not_called()
        self.bury("needed", 14)
        (problem,), _ = self.watch.fail.call_args
        self.assertRegex(
            str(problem), "^7 slabs in a row became dead letters of group needed: it broke\n.*--run-dir .*/needed$"
        )
        self.assertEqual(ExitCode.DEAD_LETTERS, problem.code)

    def test_an_optional_groups_dead_letters_leave_the_run(self):
        self.report(needed=0, extra=0)
        self.bury("extra", 0)
        self.bury("extra", 9)
        self.watch.fail.assert_not_called()
        self.assertIn("7 slabs in a row became dead letters of group extra", self.groups.describe()[1]["failure"])

    def test_a_consumer_that_ends_early_returns_if_its_group_has_work(self):
        self.commands["extra"] = ["true"]
        self.watch.status = {"state": "running", "slabs": {"ready": 3, "leased": 1, "filling": 0}}
        self.report(needed=0, extra=0)
        self.scale("extra", 1)
        self.let_one_end()
        for _ in range(3):
            self.pass_time()
        self.assertEqual(["extra-1"], self.started, "the slabs wait for the other group")
        self.watch.status["groups"][1]["waiting_slabs"] = 1
        self.pass_time()
        self.assertEqual(["extra-1"] * 2, self.started)


class RunTest(OnStage):
    FLAGS = ("--group", "a=npy:2", "--group", "b=checksum:1,optional")

    def start_run(self, *flags):
        launcher = self.stage.launch("run", *self.FLAGS, *flags)
        entered = [self.stage.enter() for _ in range(4)]
        [producer] = [each for each in entered if each.role == "producer"]
        consumers = {"a": [], "b": []}
        for each in entered:
            if each.role == "consumer":
                consumers[pathlib.Path(each.flag("--run-dir")).name].append(each)
        self.report(producer)
        return launcher, producer, consumers

    def report(self, producer, state="running", a=0, b=0):
        numbers = {"waiting_slabs": 1, "leased_slabs": 0, "dead_lettered_samples": 0, "dropped_samples": 0}
        producer.order(
            status={
                "state": state,
                "done_samples": a,
                "released_samples": a,
                "groups": [
                    {"name": "a", "optional": False, "released_samples": a, "consumers": 2, "shortage": "", **numbers},
                    {"name": "b", "optional": True, "released_samples": b, "consumers": 1, "shortage": "", **numbers},
                ],
            }
        )

    def test_each_group_has_its_consumers_folder_and_results(self):
        launcher, producer, consumers = self.start_run()
        run_dir = pathlib.Path(producer.flag("--run-dir"))
        self.assertEqual((2, 1), (len(consumers["a"]), len(consumers["b"])))
        self.assertEqual(["a=npy:2", "b=checksum:1,optional"], [text for text in producer.argv if "=" in text])
        self.assertNotIn("--consumers", producer.argv, "the groups have their numbers")
        for name, processor in (("a", "npy"), ("b", "checksum")):
            for consumer in consumers[name]:
                self.assertEqual(
                    (str(run_dir / "groups" / name), str(run_dir / "output"), processor, "3"),
                    tuple(consumer.flag(flag) for flag in ("--run-dir", "--output", "--processor", "--consumers")),
                )
                self.assertNotIn("--group", consumer.argv, "it learns its group from the run")
            self.assertEqual(0o700, os.stat(run_dir / "groups" / name / "live").st_mode & 0o777)
            self.assertNotIn("--config", consumers[name][0].argv)
            own = read_settings(run_dir / "groups" / name)
            self.assertEqual((f"{name}={processor}", str(run_dir / "output")), (own["group"], own["output"]))
        self.assertEqual(
            ["a-1.log", "a-2.log", "b-1.log", "producer.log"],
            sorted(path.name for path in (run_dir / "logs").iterdir()),
        )
        kept = (run_dir / "config.toml").read_text()
        self.assertIn('group = "a=npy:2\\nb=checksum:1,optional"\n', kept)
        self.assertNotRegex(kept, "(?m)^(processor|consumers) =", "a settings file may not have them beside groups")
        self.report(producer, "ended", 8, 8)
        producer.order(
            summary={
                "samples": {"released": 8},
                "groups": [
                    {"name": "a", "optional": False, "released_samples": 8},
                    {"name": "b", "optional": True, "released_samples": 5, "dropped_samples": 3},
                ],
            }
        )
        output = self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]])
        self.assertEqual(0, launcher.returncode, output)
        self.assertRegex(output, r"run \S+: 3 consumers in 2 groups, ")
        self.assertIn("  group      a: 8 samples done\n  group      b (optional): 5 samples done, 3 dropped\n", output)
        self.assertEqual(["consumer finish"] * 2, self.stage.errands())
        listed = {each["pid"]: each["group"] for each in self.stage.summary()["consumers"]}
        self.assertEqual({each.pid: name for name in consumers for each in consumers[name]}, listed)

    def test_groups_of_a_settings_file_or_variable_become_flags(self):
        """A consumer reads a settings file, too, in which other groups would contradict its processor."""
        file = self.stage.folder / "run.toml"
        file.write_text("batches = 5\n")
        self.stage.environment["OFFRAMP_GROUP"] = "not read by the puppet"
        launcher, producer, consumers = self.start_run("--config", str(file))
        for name, processor in (("a", "npy"), ("b", "checksum")):
            folder = pathlib.Path(producer.flag("--run-dir")) / "groups" / name
            for consumer in consumers[name]:
                self.assertEqual(str(folder / "config.toml"), consumer.flag("--config"))
                self.assertEqual(processor, consumer.flag("--processor"))
                variables = pathlib.Path(f"/proc/{consumer.pid}/environ").read_bytes().split(b"\0")
                self.assertNotIn(b"OFFRAMP_GROUP", {each.partition(b"=")[0] for each in variables})
            kept = (folder / "config.toml").read_text()
            self.assertNotRegex(kept, "(?m)^(# )?consumers =|^group =", "the number of all groups is not its own")
            self.assertRegex(
                kept, f"^# The settings of the consumers of group {name}; the run's are in .*/config.toml\n"
            )
            self.assertIn(f'# group = "{name}={processor}"\n', kept)
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)

    def test_another_producer_takes_over(self):
        heartbeats = self.stage._heartbeats_path.with_suffix(".heartbeats-a")  # each group has its own
        heartbeats.touch(0o600)
        self.addCleanup(heartbeats.unlink)
        self.stage.remove_memory()
        launcher, producer, consumers = self.start_run("--producer-restarts", "1")
        producer.order(meet=True)
        kill(producer)
        successor = self.stage.enter()
        self.assertEqual("producer", successor.role)
        self.assertIn("recover", successor.argv)
        self.stage.end(launcher, successor, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)

    def test_scale_changes_one_group(self):
        launcher, producer, consumers = self.start_run()
        code, output = self.stage.call("scale", "2")
        self.assertEqual((64, True), (code, "this run has groups" in output and "groups: a, b" in output), output)
        self.assertRegex(self.stage.call("scale", "b=2")[1], r"^run \S+: b: 1 -> 2 consumers\n$")
        consumers["b"].append(self.stage.enter())
        self.assertRegex(self.stage.call("scale", "a=0")[1], "a: 2 -> 0 consumers; the run waits for this group until")
        for consumer in consumers["a"]:
            self.assertEqual({"signal": "SIGTERM"}, consumer.next_message())
            consumer.order(exit=0)
        until(lambda: "group a: 0 of 0 consumers" in self.stage.call("status")[1])
        text = self.stage.call("status")[1]
        self.assertIn("  group b (optional): 2 of 2 consumers, 0 samples done, 1 slab waiting", text)
        code, output = self.stage.call("reload", "a")
        self.assertEqual((64, True), (code, "group a has no consumers to replace" in output), output)
        self.stage.call("scale", "a=1")
        consumers["a"] = [self.stage.enter()]
        self.assertEqual("npy", consumers["a"][0].flag("--processor"))
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)

    def test_the_run_waits_at_its_end_for_a_group_that_drops(self):
        self.FLAGS = ("--group", "a=npy:2,drop-oldest", "--group", "b=checksum:1,optional,drop-oldest")
        launcher, producer, consumers = self.start_run()
        self.assertRegex(self.stage.call("scale", "a=0")[1], "a: 2 -> 0 consumers; the run waits for it at its end\n$")
        self.assertRegex(self.stage.call("scale", "b=0")[1], "b: 1 -> 0 consumers\n$")
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)

    def test_a_group_is_scaled_with_its_load(self):
        self.FLAGS = ("--group", "a=npy:2..3", "--group", "b=checksum:1,optional")
        launcher, producer, consumers = self.start_run()
        self.assertEqual("4", consumers["a"][0].flag("--consumers"), "the most, among which the cores are divided")
        self.assertEqual("within 2..3", self.bounds_in_status("a"))
        self.assertRegex(
            self.stage.call("scale", "a=3")[1], "a: 2 -> 3 consumers; autoscaling is off .scale a=2..3 turns"
        )
        consumers["a"].append(self.stage.enter())
        self.assertEqual("off", self.bounds_in_status("a"))
        self.assertRegex(
            self.stage.call("scale", "b=2..4")[1], "b: 1 -> 2 consumers, autoscaled from now on, within 2..4"
        )
        consumers["b"].append(self.stage.enter())
        self.assertEqual("within 2..4", self.bounds_in_status("b"))
        self.assertRegex(self.stage.call("scale", "a=auto")[1], r"a: 3 -> 3 consumers, autoscaled .* within 1\.\.\d+")
        for text, why in (
            ("a=4..2", "consumers 4..2 is out of bounds"),
            ("a=0..2", "consumers 0..2 is out of bounds"),
            ("a=65", "scale a=65 is out of bounds"),
            ("a=-1", "scale a is '-1'"),
            ("a=two", "scale a is 'two', which is not a whole number"),
            ("c=2", "the run has no group 'c'"),
        ):
            code, output = self.stage.call("scale", text)
            self.assertEqual((64, True), (code, why in output), output)
        self.assertRegex(self.bounds_in_status("a"), r"within 1\.\.\d+")
        summary = {"groups": [{"name": "a"}, {"name": "b", "optional": True}]}
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary=summary)
        self.assertEqual(0, launcher.returncode)
        bounds = [each["following"]["bounds"] for each in self.stage.summary()["groups"]]
        self.assertRegex(" ".join(bounds), r"^1\.\.\d+ 2\.\.4$")

    def bounds_in_status(self, group):
        return re.search(f"group {group}.*consumers?, autoscal(?:ed|ing) ([^,]+),", self.stage.call("status")[1])[1]

    def test_a_reload_replaces_the_consumers_of_one_group_or_all(self):
        launcher, producer, consumers = self.start_run()
        alive = [*consumers["a"], *consumers["b"]]
        for arguments, replaced in ((("reload", "b"), ["b"]), (("reload",), ["a", "a", "b"])):
            command = self.stage.launch(*arguments)
            for number, group in enumerate(replaced, start=1):
                newcomer = self.stage.enter()
                self.assertEqual(group, pathlib.Path(newcomer.flag("--run-dir")).name)
                alive.append(newcomer)
                states = [{"pid": puppet.pid, "ready": True, "holding": 0} for puppet in alive]
                producer.order(status={"state": "running", "done_samples": number, "consumers": states})
                old = [puppet for puppet in consumers[group] if puppet in alive]
                until(lambda: any(puppet.has_message() for puppet in old))
                leaver = next(puppet for puppet in old if puppet.has_message())
                self.assertEqual({"signal": "SIGTERM"}, leaver.next_message())
                leaver.order(exit=0)
                alive.remove(leaver)
            output, _ = command.communicate(timeout=WATCHDOG_SECONDS)
            self.assertEqual(0, command.returncode, output)
            self.assertIn(f"{len(replaced)} of {len(replaced)} consumers replaced", output)
            consumers["b"] = alive[-1:]
        code, output = self.stage.call("reload", "c")
        self.assertEqual((64, True), (code, "the run has no group 'c'" in output and "a, b" in output), output)
        self.stage.end(launcher, producer, alive, summary={})
        self.assertEqual(0, launcher.returncode)

    def test_each_groups_consumers_record_to_a_folder_of_the_group(self):
        launcher, producer, consumers = self.start_run("--trace-dir", str(self.stage.folder / "traces"))
        self.assertEqual(str(self.stage.folder / "traces"), producer.flag("--trace-dir"))
        for name in ("a", "b"):
            for consumer in consumers[name]:
                self.assertEqual(str(self.stage.folder / "traces" / name), consumer.flag("--trace-dir"))
                self.assertEqual(1, consumer.argv.count("--trace-dir"))
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)

    def test_a_dead_consumer_is_replaced_in_its_group(self):
        launcher, producer, consumers = self.start_run()
        victim = consumers["b"].pop()
        kill(victim)
        successor = self.stage.enter()
        self.assertEqual(victim.argv, successor.argv)
        output = self.stage.end(launcher, producer, [*consumers["a"], successor], summary={})
        self.assertIn("b-1 (pid ", output)
        self.assertEqual(0, launcher.returncode, output)

    def test_an_optional_groups_failure_leaves_the_run(self):
        launcher, producer, consumers = self.start_run()
        consumers["b"][0].order(log="offramp-consumer: no such thing", exit=64)
        successor = self.stage.enter()
        text = self.stage.call("status")[1]
        self.assertRegex(text, "group b .*fails: b-1 ended with exit code 64, which a retry cannot fix: no such thing")
        kept = pathlib.Path(producer.flag("--run-dir")) / "logs/launcher.json"  # for the launcher of several workers
        until(lambda: "no such thing" in (json.loads(kept.read_text()).get("failures") or {}).get("b", ""))
        output = self.stage.end(launcher, producer, [*consumers["a"], successor], summary={})
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("group b fails, and the run goes on without it, as it is optional: b-1 ended", output)

    def test_a_required_groups_failure_ends_the_run(self):
        launcher, producer, consumers = self.start_run()
        consumers["a"][0].order(log="offramp-consumer: no such thing", exit=64)
        self.assertEqual({"signal": "SIGTERM"}, producer.next_message())
        output = self.stage.end(launcher, producer, [consumers["a"][1], *consumers["b"]], code=130, summary={})
        self.assertEqual(64, launcher.returncode, output)
        self.assertRegex(output, "a-[12] ended with exit code 64, which a retry cannot fix: no such thing")

    def test_each_group_is_finished_whatever_happens_to_another(self):
        self.stage.environment["PUPPET_FINISH_FAILURE"] = "offramp-consumer: records.jsonl is a folder"
        for fails, code, why in (
            (
                "b",
                0,
                "group b is not merged: merging the outputs ended with exit code 73.* is a folder. Fix it, then continue "
                "the run with --resume. The run succeeds without it, because the group is optional\n",
            ),
            ("a", 73, "group a: merging the outputs ended with exit code 73.* is a folder"),
            ("a b", 73, "offramp: group a: merging the outputs ended with exit code 73.* is a folder"),
        ):
            with self.subTest(fails):
                self.stage.environment["PUPPET_FINISH_FAILS_FOR"] = fails
                self.stage.environment["PUPPET_ERRANDS"] = str(self.stage.folder / f"errands of {fails}")
                run_dir = self.stage.folder / f"run {fails}"
                launcher, producer, consumers = self.start_run("--run-dir", str(run_dir))
                output = self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
                self.assertEqual(code, launcher.returncode, output)
                self.assertRegex(output, why)
                errands = pathlib.Path(self.stage.environment["PUPPET_ERRANDS"]).read_text().splitlines()
                self.assertEqual(2, errands.count("consumer finish"), errands)
                failure = json.loads((run_dir / "summary.json").read_text())["failure"]
                self.assertEqual(code != 0, "group a: merging" in (failure or ""), failure)

    def test_only_this_runs_dead_letters_are_listed(self):
        for number in (0, 2):
            with self.subTest(number):
                run_dir = self.stage.folder / f"run-{number}"
                launcher, producer, consumers = self.start_run("--run-dir", str(run_dir))
                folder = run_dir / "groups" / "b" / "dead-letters"
                folder.mkdir()
                earlier = {"run_id": "earlier", "samples": [{"item": 1}, {"item": 2}], "reason": "it broke"}
                (folder / "1.json").write_text(json.dumps(earlier))
                lost = {"dead_lettered_samples": number}
                groups_of = [{"name": "a", "released_samples": 8}, {"name": "b", "optional": True, **lost}]
                report = {"samples": {"released": 8}, "groups": groups_of}
                output = self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary=report)
                self.assertEqual(0, launcher.returncode, output)
                listed = [str(folder.parent)] if number else []
                self.assertEqual(listed, json.loads((run_dir / "summary.json").read_text())["dead_letters_in"])
                self.assertEqual(bool(number), "dead-letters list" in output, output)

    def test_overwrite_keeps_the_results_of_all_groups(self):
        results = self.stage.folder / "results"
        for name in ("a", "b"):
            (results / name).mkdir(parents=True)
            (results / name / "old.npy").write_text(name)
        (results / ".offramp-checkpoint").write_text("{}\n")
        launcher, producer, consumers = self.start_run("--output", str(results), "--overwrite")
        self.assertEqual([], list(results.rglob("*.npy")))
        self.stage.end(launcher, producer, [*consumers["a"], *consumers["b"]], summary={})
        self.assertEqual(0, launcher.returncode)
        self.assertEqual(
            {"a", "b"}, {path.read_text() for path in self.stage.folder.glob("results*/*/old.npy")}, "nothing is lost"
        )

    def test_what_does_not_go_with_groups_is_refused(self):
        for command, why in (
            (("run", "--producer", "true"), "run --producer does not accept --group: your program names its groups"),
            (("run", "--output", "s3://bucket/prefix"), "--group does not go with --output s3://bucket/prefix"),
            (("run", "--strategy", "pool"), "--group does not go with --strategy pool"),
            (("run", "--processor", "npy"), "--group cannot be combined with --processor"),
            (("run", "--consumers", "auto"), "--group cannot be combined with --consumers"),
            (("tune",), "tune does not accept --group"),
            (("chaos", "--"), "chaos does not accept --group"),
        ):
            with self.subTest(command):
                code, output = self.stage.call(*command, *self.FLAGS)
                self.assertEqual((64, True), (code, why in output), output)


class JoinTest(OnStage):
    def setUp(self):
        super().setUp()
        self.run_dir = self.stage.folder / "run"
        self.folder = self.run_dir / "groups" / "masks"
        self.program = OwnProgram(self.folder)
        self.addCleanup(self.program.die)

    def publish(self, groups="groups=masks,vectors\n"):
        """The endpoints of the run and of its group."""
        for folder in (self.run_dir / "live", self.folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.program.begin()
        own = (self.folder / "live" / "endpoint").read_text()
        (self.run_dir / "live" / "endpoint").write_text(own + groups)

    def consume(self, *flags, redirected=""):
        return self.stage.launch("consume", "--run-dir", str(self.run_dir), *flags, redirected=redirected)

    def report(self, state, **more):
        """Replaces the run's status, which is its group's, too."""
        own = self.folder / "status.json"
        if not own.is_symlink():
            own.unlink()
            own.symlink_to("../../status.json")
        status = {"run_id": "loop", "nonce": self.program.nonce, "pid": self.program.process.pid, "state": state}
        (self.run_dir / "status.json.new").write_text(json.dumps({**status, **more}))
        os.replace(self.run_dir / "status.json.new", self.run_dir / "status.json")

    def test_an_unknown_group_is_refused(self):
        self.publish()
        for name, why in (("other", "has no group 'other'.*Its groups: masks, vectors"), ("../masks", "has no group")):
            code, output = self.stage.call("consume", "--run-dir", str(self.run_dir), "--group", name)
            self.assertEqual(66, code, output)
            self.assertRegex(output.replace("\n", " "), why)
        self.publish(groups="")
        code, output = self.stage.call("consume", "--run-dir", str(self.run_dir), "--group", "masks")
        self.assertEqual((66, True), (code, "Leave --group out" in output), output)

    def test_a_run_with_groups_asks_for_one(self):
        self.publish()
        for whose in ("program", "runner"):
            with self.subTest(whose):
                if whose == "runner":
                    (self.run_dir / "live" / "settings.toml").touch()
                code, output = self.stage.call("consume", "--run-dir", str(self.run_dir), "--processor", "npy")
                self.assertEqual(64, code, output)
                self.assertIn("has groups of consumers", output)
                self.assertIn("Give --group NAME; its groups: masks, vectors", output)

    def test_one_consumer_joins_a_group_of_the_runner(self):
        self.publish()
        (self.folder / "live" / "settings.toml").touch()
        lifeline = self.stage.folder / "lifeline"  # which the puppet of a consumer needs
        os.mkfifo(lifeline)
        joined = self.consume("--group", "masks", "--lifeline-fd", "3", redirected=f"3<>{lifeline}")
        consumer = self.stage.enter()
        self.assertEqual(str(self.folder), consumer.flag("--run-dir"))
        self.assertEqual(joined.pid, consumer.pid, "it becomes the consumer")
        consumer.order(exit=7)
        self.assertEqual(7, joined.wait(WATCHDOG_SECONDS))

    def joined(self, **status):
        """(the launcher of a group's only consumer, once it has seen this status of the running run; the consumer)."""
        self.publish()
        self.report("running")
        launcher = self.consume("--group", "masks", "--processor", "npy", "--consumers", "1")
        consumer = self.stage.enter()
        self.report("running", **status, slabs="unreadable")
        for line in launcher.stdout:
            if "skipping slabs of status.json" in line:
                break
        return launcher, consumer

    def test_failures_of_another_group_do_not_end_its_consumers(self):
        failures = {"releases": {"failed": 40}, "last_failure": "of vectors", "groups": [{"name": "masks"}]}
        launcher, consumer = self.joined(**failures)
        self.report("ended", **failures)
        consumer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, launcher.returncode, output)

    def test_its_own_dead_letters_end_its_consumers(self):
        launcher, consumer = self.joined(groups=[{"name": "masks"}])
        (self.folder / "dead-letters").mkdir()
        for index in range(20):
            incident = {"run_id": "loop", "samples": [{"item": index}], "reason": "it broke"}
            (self.folder / "dead-letters" / f"{index}.json").write_text(json.dumps(incident))
        self.assertEqual({"signal": "SIGTERM"}, consumer.next_message())
        consumer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(84, launcher.returncode, output)
        self.assertIn("20 slabs in a row became dead letters of group masks: it broke", output)

    def test_consumers_join_a_group_of_a_program(self):
        """The group's counts are those of its consumers' summary, and the status stays the whole run's."""
        self.publish()
        self.report("running")
        launcher = self.consume("--group", "masks", "--processor", "npy", "--consumers", "2")
        consumers = [self.stage.enter() for _ in range(2)]
        self.assertEqual([str(self.folder)] * 2, [consumer.flag("--run-dir") for consumer in consumers])
        groups = [
            {"name": "vectors", "released_samples": 8, "dead_lettered_samples": 3},
            {"name": "masks", "released_samples": 11, "dead_lettered_samples": 0},
        ]
        others = [{"pid": 1, "group": "vectors"}, {"pid": consumers[0].pid, "group": "masks", "samples": 7}]
        counts = {"released_samples": 8, "released_batches": 4, "dead_lettered_samples": 3, "consumers": others}
        self.report("ended", **counts, groups=groups)
        whole = (self.run_dir / "status.json").read_text()
        for consumer in consumers:
            consumer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("11 samples;", output)
        own = json.loads((self.folder / "summary.json").read_text())
        self.assertEqual((11, False), (own["samples"]["released"], "batches" in own), "the batches are all groups'")
        pids = {each["pid"]: each["samples"] for each in own["consumers"]}
        self.assertEqual({consumers[0].pid: 7, consumers[1].pid: 0}, pids, "not those of the other group")
        self.assertTrue((self.folder / "status.json").is_symlink())
        self.assertEqual(whole, (self.run_dir / "status.json").read_text())

    def test_stop_drains_the_consumers_of_all_groups(self):
        program = OwnProgram(self.run_dir)
        self.addCleanup(program.die)
        program.pid = os.getpid()
        for name in ("masks", "vectors"):
            (self.run_dir / "groups" / name / "live").mkdir(parents=True)
        program.begin()
        flags = ("--group", "masks=npy", "--group", "vectors=npy:2", "--program", str(program.pid))
        launcher = self.consume(*flags)
        consumers = [self.stage.enter() for _ in range(3)]
        stopper = self.stage.launch("stop", "--run-dir", str(self.run_dir))
        for consumer in consumers:
            self.assertEqual({"signal": "SIGTERM"}, consumer.next_message())
            consumer.order(exit=0)
        output, _ = launcher.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual((130, 0), (launcher.returncode, stopper.wait(WATCHDOG_SECONDS)), output)


class ReportTest(unittest.TestCase):
    def test_each_group_has_a_row(self):
        rows = {row["name"]: row for row in group_rows(GROUPED)}
        self.assertEqual(["masks", "vectors", "preview"], list(rows))
        masks, preview = rows["masks"], rows["preview"]
        self.assertEqual(
            ("3 of 4", "2", "3", "2,568", "16 dead-lettered", "no consumers", False),
            tuple(masks[name] for name in ("consumers", "waiting", "leased", "done", "lost", "note", "is_alarm")),
        )
        self.assertEqual(["autoscaled within 2..8", "autoscaling off", ""], [row["scaling"] for row in rows.values()])
        self.assertEqual(
            (True, "1,200 dropped", True), tuple(preview[name] for name in ("optional", "lost", "is_alarm"))
        )
        self.assertIn("fails: preview-1 ended", preview["note"])
        self.assertEqual([], group_rows(DOCUMENTS["computing"]))

    def test_the_status_names_the_groups(self):
        lines = live_commands.lines_of_status({**GROUPED, "reload": None})
        text = "\n".join(lines)
        self.assertIn(
            "  group masks: 3 of 4 consumers, autoscaled within 2..8, 2,568 samples done, 2 slabs waiting, 3 with consumers",
            text,
        )
        self.assertIn("pid 31 of masks holds 1 for", text)
        self.assertIn("  group preview (optional): 0 of 1 consumer, ", text)

    def test_no_group_that_drops_is_blamed_for_a_wait(self):
        """Twin: one that waits is."""
        for policy, blamed in (("drop-oldest", "masks"), ("wait", "vectors")):
            masks, vectors, preview = GROUPED["status"]["groups"]
            vectors = {**vectors, "waiting_slabs": 9, "when_full": policy}
            document = changed("grouped", status={"groups": [masks, vectors, preview]})
            self.assertIn(f"waits for consumers of {blamed}:", diagnosis.sentence(document).text)

    def test_top_has_a_row_for_each_group(self):
        text = "\n".join(line.plain for line in drawing.draw(GROUPED, Rates(), 110, 40))
        self.assertRegex(
            text, r"\nmasks +3 of 4 +2 +3 +2,568  autoscaled within 2\.\.8, 16 dead-lettered, no consumers"
        )
        self.assertRegex(text, r"preview +0 of 1 .*1,200 dropped, optional, fails: preview-1")
        self.assertRegex(text, r"vectors 1 +33 ")
        self.assertRegex(text, "\nr reload   q leave   [./].*/offramp scale NAME=N", "only keys that do something")
        self.assertNotIn(
            "Groups", "\n".join(line.plain for line in drawing.draw(DOCUMENTS["computing"], Rates(), 80, 40))
        )

    def test_metrics_have_a_series_for_each_group(self):
        text = text_of(families_of(GROUPED, 1798633999))
        for line in (
            'group_samples_total{group="masks",state="completed"} 2568',
            'group_samples_total{group="masks",state="dead_letters"} 16',
            'group_samples_total{group="preview",state="dropped"} 1200',
            'group_slabs{group="masks",state="waiting"} 2',
            'group_slabs{group="masks",state="leased"} 3',
            'group_consumers{group="vectors"} 1',
        ):
            self.assertIn(f"offramp_{line}\n", text)
        self.assertNotIn("offramp_group", text_of(families_of(DOCUMENTS["computing"], 1798633999)))

    def test_a_retry_corrects_its_group(self):
        recovered, both = retries.Recovered(), retries.Recovered()
        incident = {"samples": [{"result": "done"}, {"result": "done"}, {"result": "failed"}]}
        recovered.take("/runs/groups/a/r/groups/b/dead-letters/1.safetensors", incident)
        both.add(recovered)
        report = {
            "samples": {"dead_letters": 3, "released": 5},
            "groups": [
                {"name": "a", "released_samples": 8, "dead_lettered_samples": 2},
                {"name": "b", "dead_lettered_samples": 3},
            ],
        }
        self.assertEqual(ExitCode.DEAD_LETTERS, both.correct(report, ExitCode.DEAD_LETTERS))
        self.assertEqual({"dead_letters": 1, "released": 7, "recovered": 2}, report["samples"])
        self.assertEqual([8, 2], [group["released_samples"] for group in report["groups"]])
        self.assertEqual([2, 1], [group["dead_lettered_samples"] for group in report["groups"]])

    def test_a_sample_is_recovered_once_all_groups_have_it(self):
        with tempfile.TemporaryDirectory() as made:
            folders = [pathlib.Path(made, name) for name in ("a", "b")]
            for folder, done, left in ((folders[0], (1, 2), (3,)), (folders[1], (2, 4), (1,))):
                (folder / "dead-letters").mkdir(parents=True)
                samples = [{"item": item, "result": "done"} for item in done] + [{"item": item} for item in left]
                (folder / "dead-letters" / "1.json").write_text(json.dumps({"run_id": "r", "samples": samples}))
                earlier = {"run_id": "q", "samples": [{"item": 9, "result": "done"}]}
                (folder / "dead-letters" / "2.json").write_text(json.dumps(earlier))
            self.assertEqual(2, incidents.recovered_among(folders, "r"), "2 and 4; 1 is still a dead letter of b")

    def test_the_summary_names_the_folders_with_dead_letters(self):
        groups_of = [{"name": "a", "released_samples": 8}, {"name": "b", "optional": True, "dead_lettered_samples": 2}]
        whole = {"run_id": "r", "run_dir": "/r", "exit": 0, "groups": groups_of, "dead_letters_in": ["/r/groups/b"]}
        text = summary.describe(whole, "images", "", "")
        self.assertIn("  group      b (optional): 0 images done, 2 dead-lettered\n", text)
        self.assertIn("dead-letters list --run-dir /r/groups/b\n", text)

    def test_the_summary_of_a_custom_program_reports_the_autoscaling_of_groups(self):
        following = {"bounds": "2..8", "follows": True}
        watch = mock.Mock(status={}, records=[], following=None, following_of_groups={"a": following})
        report = {"samples": {}, "groups": [{"name": "a"}, {"name": "b"}]}
        whole = summary.of_own_run({}, watch, 0, None, 1.0, report, None)
        self.assertEqual([{"name": "a", "following": following}, {"name": "b"}], whole["groups"])


class DeadLettersTest(InFolder):
    def put(self, group):
        folder = self.folder / "groups" / group / "dead-letters"
        folder.mkdir(parents=True)
        (folder / "1.json").write_text(json.dumps({"samples": [], "batch": 1}))

    def test_a_run_leads_to_the_only_group_with_dead_letters(self):
        (self.folder / "groups" / "a").mkdir(parents=True)
        self.assertEqual(self.folder, dead_letters.choose_run(None, self.folder))
        self.put("b")
        self.assertEqual(self.folder / "groups" / "b", dead_letters.choose_run(None, self.folder))
        self.put("c")
        with self.assertRaisesRegex(
            LaunchError, r"2 groups .* choose one:\n +--run-dir \S+/groups/b\n +--run-dir \S+/c"
        ):
            dead_letters.choose_run(None, self.folder)

    def test_a_retry_writes_to_the_groups_folder(self):
        self.put("b")
        folder = self.folder / "groups" / "b"
        (folder / "config.toml").write_text('processor = "npy"\n# group = "b=npy"\n')
        config = ["--config", str(folder / "config.toml")]
        self.assertEqual([*config, "--group", "b=npy"], dead_letters.settings_of(folder, []))
        self.assertEqual(config, dead_letters.settings_of(folder, ["--processor", "other"]))

    def test_without_a_name_the_latest_group_is_chosen(self):
        self.put("b")
        with mock.patch.object(dead_letters, "own_runs", return_value=[self.folder]):
            self.assertEqual(self.folder / "groups" / "b", dead_letters.choose_run(None, None))


if __name__ == "__main__":
    unittest.main()
