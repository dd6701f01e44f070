"""Incident reports of dead letters, which the launcher completes, lists and shows; and the holders of slabs."""

import contextlib
import io
import json
import os
import pathlib
import signal
import tempfile
import types
import unittest
import unittest.mock

from offramp_launch import incidents, progress, dead_letters
from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.output_folder import OutputLock
from offramp_launch.places import Places
from offramp_launch.supervision.consumer_slots import counts_as_death


def incident(**changes):
    delivery = {
        "attempt": 1,
        "pid": 11,
        "session": 1,
        "seconds": 0.5,
        "end": "died",
        "counted": True,
        "exit": None,
        "signal": None,
        "last_log_lines": [],
    }
    return {
        "format": 1,
        "run_id": "r",
        "dead_lettered_at": 0,
        "batch": 2,
        "reason": "it took down 1 consumer",
        "deaths": 1,
        "payload": "batch-2-row-0.safetensors",
        "payload_bytes": 1 << 20,
        "error": None,
        "batches": [{"batch": 2, "first_row": 0, "rows": 1}],
        "samples": [{"item": 8, "key": "cats/8", "empty": False}],
        "tensors": [],
        "deliveries": [delivery, {**delivery, "attempt": 2, "pid": 12, "end": "returned", "counted": False}],
        "retries": [],
        **changes,
    }


def dead(pid, status):
    return types.SimpleNamespace(pid=pid, status=status)


class IncidentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir = pathlib.Path(folder.name) / "run"
        (self.run_dir / "dead-letters").mkdir(parents=True)
        self.path = self.run_dir / "dead-letters" / "batch-2-row-0.json"
        self.places = Places(build=folder.name)

    def write(self, **changes):
        self.path.write_text(json.dumps(incident(**changes)))

    def delivery(self):
        return json.loads(self.path.read_text())["deliveries"][0]

    def command(self, *words):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = dead_letters.start(self.places, [*words, "--run-dir", str(self.run_dir)])
        return code, output.getvalue()

    def test_the_launcher_completes_an_incident_in_either_order(self):
        for incident_first in (True, False):
            with self.subTest(incident_first=incident_first):
                self.path.unlink(missing_ok=True)
                reporter = incidents.IncidentReporter(self.run_dir)
                if incident_first:
                    self.write()
                    reporter.complete()
                    self.assertIsNone(self.delivery()["exit"])
                reporter.note_death(dead(11, -signal.SIGSEGV), "    first\n    last words")
                reporter.complete()
                if not incident_first:
                    self.write()
                    reporter.complete()
                self.assertEqual(
                    (-11, "SIGSEGV", ["first", "last words"]),
                    tuple(self.delivery()[key] for key in ("exit", "signal", "last_log_lines")),
                )
                self.assertIsNone(
                    json.loads(self.path.read_text())["deliveries"][1]["exit"], "a living consumer has no exit status"
                )

    def test_a_rewritten_incident_is_completed_again(self):
        reporter = incidents.IncidentReporter(self.run_dir)
        reporter.note_death(dead(11, 3), "")
        self.write()
        reporter.complete()
        self.assertEqual(3, self.delivery()["exit"])
        self.write(batch=3)
        os.utime(self.path, ns=(1, 1))
        reporter.complete()
        self.assertEqual(3, self.delivery()["exit"])

    def test_a_damaged_incident_fails_only_the_command(self):
        self.path.write_text('{"deliveries": [7')
        (self.path.parent / "other.json").write_text("[]")
        reporter = incidents.IncidentReporter(self.run_dir)
        reporter.note_death(dead(11, 3), "")
        reporter.complete()
        with self.assertRaisesRegex(LaunchError, "batch-2-row-0.json"):
            self.command("list")

    def test_lists_and_shows(self):
        self.write()
        self.assertRegex(self.command("list")[1], r"batch-2-row-0 +1 +1\.0 +1 +1 died +dead-lettered")
        shown = self.command("show", "batch-2-row-0")[1]
        for words in ("cats/8", "1 to pid 11: died after 0.5 s", "2 to pid 12: returned", "while processing it"):
            self.assertIn(words, shown)
        self.write(payload=None, error="No space left on device", retries=[])
        self.assertIn("payload lost", self.command("list")[1])
        self.assertIn("No space left on device", self.command("show", "batch-2-row-0.safetensors")[1])

    def test_an_empty_list_is_fine_and_an_unknown_name_is_an_error(self):
        self.assertIn("no dead letters", self.command("list")[1])
        self.write()
        for words, code in (
            (("show", "batch-9"), ExitCode.NO_INPUT),
            (("retry", "batch-9"), ExitCode.NO_INPUT),
            (("show",), ExitCode.USAGE),
            (("retry",), ExitCode.USAGE),
            (("weigh",), ExitCode.USAGE),
            ((), ExitCode.USAGE),
        ):
            with self.subTest(words=words), self.assertRaises(LaunchError) as refused:
                self.command(*words)
            self.assertEqual(code, refused.exception.code)

    def test_a_lost_payload_cannot_be_retried(self):
        self.write(payload=None, error="No space left on device")
        with self.assertRaisesRegex(LaunchError, "No space left on device"):
            self.command("retry", "batch-2-row-0")

    def test_refuses_an_output_in_use_by_a_run(self):
        self.write()
        output = self.run_dir / "output"
        output.mkdir()
        lock = OutputLock(output, "a-run")
        self.addCleanup(lock.close)
        with (
            unittest.mock.patch.object(Places, "consumer", lambda _: "/bin/true"),
            self.assertRaises(LaunchError) as refused,
        ):
            self.command("retry", "batch-2-row-0", "--output", str(output))
        self.assertEqual(ExitCode.RUN_IN_USE, refused.exception.code)
        self.assertEqual([], json.loads(self.path.read_text())["retries"])

    def test_refuses_a_url(self):
        self.write()
        with self.assertRaisesRegex(LaunchError, "s3:// is not supported here") as refused:
            self.command("retry", "batch-2-row-0", "--output", "s3://bucket/out")
        self.assertEqual(ExitCode.USAGE, refused.exception.code)

    def test_refuses_an_output_of_unmerged_shards(self):
        """A merge would replace the retried results."""
        self.write()
        claim = self.run_dir / "output/.offramp-shards/job.json"
        claim.parent.mkdir(parents=True)
        claim.write_text('{"job": "job-a", "folder": "/jobs/a"}')
        with (
            unittest.mock.patch.object(Places, "consumer", lambda _: "/bin/true"),
            self.assertRaises(LaunchError) as refused,
        ):
            self.command("retry", "batch-2-row-0", "--output", str(self.run_dir / "output"))
        self.assertIn("the shards of job-a", str(refused.exception))
        self.assertEqual([], json.loads(self.path.read_text())["retries"])

    def test_defaults_to_the_run_with_the_newest_dead_letters(self):
        elsewhere = {
            "OFFRAMP_TEST_RUNS": str(self.run_dir / "none")
        }  # the user's runs under /tmp may have dead letters
        with unittest.mock.patch.dict(os.environ, elsewhere), self.assertRaises(LaunchError) as refused:
            dead_letters.choose_run(Places(build=self.run_dir / "empty"), None)
        self.assertEqual(ExitCode.NO_INPUT, refused.exception.code)
        for age, name in enumerate(("later", "earlier")):
            folder = self.places.runs / name / "dead-letters"
            folder.mkdir(parents=True)
            os.utime(folder, (4e9 - age, 4e9 - age))  # newer than any real folder
        self.assertEqual(self.places.runs / "later", dead_letters.choose_run(self.places, None))


class StatusTextTest(unittest.TestCase):
    def test_status_lists_holders_and_refused_releases(self):
        lines = progress.describe_holders(
            {
                "consumers": [
                    {"pid": 5, "holding": 2, "oldest_hold_seconds": 31.26, "stalled": True},
                    {"pid": 6, "holding": 0},
                ],
                "releases": {"completed": 9, "stale": 1, "foreign": 0, "repeated": 2},
                "refused": {"release in another's name": 3},
                "dead_lettered_samples": 4,
                "dropped_samples": 5,
                "spilled_samples": 6,
            }
        )
        self.assertEqual(
            [
                "    pid 5 holds 2 for 31.3 s (stalled)",
                "  refused   stale 1, release in another's name 3",
                "  dead       4 samples; ./launch/offramp dead-letters list",
                "  dropped 5 samples: no slab was free; dropped.jsonl in the run directory lists them",
                "  on the disk 6 samples, until consumers have time for them",
            ],
            lines,
        )
        self.assertEqual([], progress.describe_holders({}))

    def test_waiting_for_a_sink_or_a_run_is_not_a_death(self):
        counted = [
            counts_as_death(dead(1, status)) for status in (-9, 1, ExitCode.NO_SUCH_RUN, ExitCode.SINK_UNAVAILABLE)
        ]
        self.assertEqual([True, True, False, False], counted)
