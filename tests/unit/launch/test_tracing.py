"""Tracing a live run: requesting, waiting for, writing and drawing time ranges."""

import importlib.util
import io
import json
import os
import subprocess
import time
import unittest

from stage import InFolder

from offramp_launch.exit_code import ExitCode, LaunchError
from offramp_launch.supervision.events import Timers
from offramp_launch.tracing import chrome_events, command
from offramp_launch.tracing.request import LEAD_SECONDS, PATIENCE_SECONDS, REQUEST, TraceRequests
from offramp_launch.tracing.traces import Program, Range, Trace, read_program

MS = 1_000_000


class Folder:
    def __init__(self, path):
        self.path, self.logs = path, path / "logs"
        for folder in (self.logs, path / "live"):
            folder.mkdir()

    def file(self, name):
        return self.path / name


def made_trace(every=1):
    """20 batches: 10 ms of compute (every `every`-th one timed), 4 ms of copy and 8 ms in a consumer."""
    computed = [
        Range("compute", "compute", batch, batch * 10 * MS, (batch * 10 + 9) * MS, True)
        for batch in range(0, 20, every)
    ]
    copied = [Range("d2h", "d2h", batch, (batch * 10 + 10) * MS, (batch * 10 + 14) * MS, True) for batch in range(20)]
    processed = [
        Range("consumer", "process_output", batch, (batch * 10 + 15) * MS, (batch * 10 + 23) * MS, False)
        for batch in range(20)
    ]
    return Trace(
        (Program("producer", 7, (*computed, *copied)), Program("consumer", 8, tuple(processed))), (0, 200 * MS)
    )


def outline_of(trace):
    outline = command.Outline(trace.window)
    for program in trace.programs:
        outline.note(program)
    return outline


class TracingTest(InFolder):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.timers = Timers(lambda: self.now)
        self.requests_folder = Folder(self.folder)
        self.requests = TraceRequests(self.requests_folder, self.timers)

    def begin(self, seconds=5, programs=(("producer", 7, ""), ("consumer", 8, ""))):
        return self.requests.begin(seconds, list(programs))

    def refused(self, code, *arguments):
        with self.assertRaises(LaunchError) as problem:
            self.begin(*arguments)
        self.assertEqual(code, problem.exception.code)
        return problem.exception.what

    def test_the_request_is_whole_and_expires(self):
        asked = self.begin()
        request = json.loads((self.folder / REQUEST).read_text())
        self.assertEqual({key: asked[key] for key in ("id", "from_ns", "until_ns")}, request)
        self.assertEqual(5 * 10**9, request["until_ns"] - request["from_ns"])
        self.assertGreater(request["from_ns"], time.monotonic_ns())
        self.assertEqual(0o700, os.stat(asked["folder"]).st_mode & 0o777)
        self.assertEqual([7, 8], [program["pid"] for program in asked["programs"]])
        self.assertIn("under way", self.refused(ExitCode.RUN_IN_USE))
        self.now = LEAD_SECONDS + 5 + PATIENCE_SECONDS
        self.timers.run_due()
        self.assertFalse((self.folder / REQUEST).exists())

    def test_an_expired_request_leaves_the_next_one(self):
        self.begin(1)
        self.now = LEAD_SECONDS + 1 + PATIENCE_SECONDS
        later = self.begin(1)  # before the first request's timer runs
        self.timers.run_due()
        self.assertEqual(later["id"], json.loads((self.folder / REQUEST).read_text())["id"])
        self.now += LEAD_SECONDS + 1 + PATIENCE_SECONDS
        self.timers.run_due()
        self.assertFalse((self.folder / REQUEST).exists())
        self.assertEqual(5 * 10**9, (again := self.begin())["until_ns"] - again["from_ns"])

    def test_an_invalid_request_is_refused_and_leaves_nothing(self):
        for seconds in (0, 61, -1, "5", None, True, float("nan")):
            self.assertIn("out of bounds", self.refused(ExitCode.USAGE, seconds))
        self.assertIn("no programs yet", self.refused(ExitCode.NO_SUCH_RUN, 5, ()))
        self.assertEqual([], list(self.folder.glob("*/*")))

    def test_an_unwritable_request_is_named_and_leaves_nothing(self):
        (self.folder / (REQUEST + ".new")).symlink_to("/dev/full")
        output = self.refused(ExitCode.CANNOT_WRITE)
        self.assertIn(f"'{self.folder / REQUEST}.new' cannot be written: No space left", output)
        self.assertEqual([], list(self.folder.glob("*/*")))
        self.begin()  # no request is under way

    def with_groups(self):
        folders = {name: self.folder / "groups" / name for name in ("masks", "arrays")}
        for folder in folders.values():
            (folder / "live").mkdir(parents=True)
        self.requests = TraceRequests(self.requests_folder, self.timers, folders)
        return folders

    def test_each_group_has_a_request_and_a_folder_for_answers(self):
        folders = self.with_groups()
        asked = self.begin(5, (("producer", 7, ""), ("consumer", 8, "masks"), ("consumer", 9, "unknown")))
        written = {(folder / REQUEST).read_text() for folder in (self.folder, *folders.values())}
        self.assertEqual([asked["id"]], [json.loads(text)["id"] for text in written])
        wanted = {name: str(folder / "logs" / f"trace-{asked['id']}") for name, folder in folders.items()}
        self.assertEqual(wanted, asked["groups"])
        self.assertEqual([0o700] * 2, [os.stat(folder).st_mode & 0o777 for folder in wanted.values()])
        self.assertEqual(["", "masks", ""], [program["group"] for program in asked["programs"]])
        self.requests.close()
        self.assertEqual([], list(self.folder.rglob("trace-request.json")))

    def test_a_group_without_room_leaves_no_request(self):
        folders = self.with_groups()
        (folders["arrays"] / (REQUEST + ".new")).symlink_to("/dev/full")
        self.assertIn("No space left", self.refused(ExitCode.CANNOT_WRITE))
        self.assertEqual([], list(self.folder.rglob("trace-*")))

    def test_the_answer_of_a_groups_consumer_is_in_its_groups_folder(self):
        folders = {"": self.folder, "masks": self.folder / "masks", "arrays": self.folder / "arrays"}
        for group in ("masks", "arrays"):
            folders[group].mkdir()
        program = {"process": "consumer", "pid": os.getpid(), "group": "masks"}
        asked = {"until_ns": time.monotonic_ns() - PATIENCE_SECONDS * 10**9, "programs": [program]}
        (folders["arrays"] / f"consumer-{os.getpid()}.jsonl").touch()
        self.assertEqual([program], [missing for missing, _ in command.wait_for_answers(folders, asked)])
        asked["until_ns"] = time.monotonic_ns()
        (folders["masks"] / f"consumer-{os.getpid()}.jsonl").touch()
        self.assertEqual([], command.wait_for_answers(folders, asked))

    def test_an_ended_program_is_not_awaited(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        asked = {
            "until_ns": time.monotonic_ns(),
            "programs": [
                {"process": "producer", "pid": os.getpid(), "group": ""},
                {"process": "consumer", "pid": ended.pid, "group": ""},
            ],
        }
        (self.folder / f"producer-{os.getpid()}.jsonl").touch()
        [(program, why)] = command.wait_for_answers({"": self.folder}, asked)
        self.assertEqual(ended.pid, program["pid"])
        self.assertIn("ended without an answer", why)

    def test_reports_lost_ranges(self):
        file = self.folder / "consumer-8.jsonl"
        file.write_text(
            '{"process":"consumer","pid":8,"not_kept":3}\n{"lane":"consumer","name":"map","batch":1,"begin_ns":5,"end_ns":6}\n'
        )
        program = read_program(file)
        self.assertEqual((3, 1), (program.not_kept, len(program.ranges)))

    def test_idle_time_needs_every_batch_timed(self):
        self.assertTrue(outline_of(made_trace()).every_batch_is_timed())
        self.assertFalse(outline_of(made_trace(every=4)).every_batch_is_timed())
        self.assertEqual(140 * MS, outline_of(made_trace()).shown_length())
        self.assertEqual(200 * MS, command.Outline((0, 200 * MS)).shown_length())

    def write_files(self, trace):
        """Writes and returns the files of the trace's programs."""
        files = []
        for program in trace.programs:
            files.append(self.folder / f"{program.process}-{program.pid}.jsonl")
            lines = [{"process": program.process, "pid": program.pid, "not_kept": program.not_kept}]
            for entry in program.ranges:
                lines.append(
                    {
                        "lane": entry.lane,
                        "name": entry.name,
                        "batch": entry.batch,
                        "begin_ns": entry.begin,
                        "end_ns": entry.end,
                        **({"clock": "device"} if entry.device else {}),
                    }
                )
            files[-1].write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        return files

    def test_the_picture_reads_only_the_ranges_it_shows(self):
        trace = made_trace()
        files, outline, out = self.write_files(trace), command.Outline(trace.window), io.StringIO()
        chrome_events.write(command.noted([("", files[0]), ("masks", files[1])], outline), out)
        events = json.loads(out.getvalue())["traceEvents"]
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        self.assertEqual(["producer 7", "consumer 8 of masks"], names)
        self.assertEqual(
            [(20, 0.0), (20, 10_000.0), (20, 15_000.0)],
            [
                (
                    len(begins := [event["ts"] for event in events if event["ph"] == "X" and event["name"] == name]),
                    begins[0],
                )
                for name in ("compute", "d2h", "process_output")
            ],
        )
        self.assertEqual(["compute", "d2h", "process"], outline.lanes)
        view = outline.view()
        self.assertEqual((30 * MS, 170 * MS), (view.begin, view.end))
        for file, program in zip(files, trace.programs):
            self.assertEqual(program, read_program(file))
            shown = [entry for entry in program.ranges if entry.end > view.begin and entry.begin < view.end]
            self.assertLess(len(shown), len(program.ranges))
            self.assertEqual(shown, list(read_program(file, view).ranges))
            self.assertEqual(program.pid, read_program(file, view).pid)

    def test_a_trace_on_a_full_disk_is_named(self):
        trace = made_trace()
        (self.folder / "trace.json").symlink_to("/dev/full")
        with self.assertRaises(LaunchError) as problem:
            command.write(self.write_files(trace), command.Outline(trace.window), "Run made-up", self.folder)
        self.assertEqual(ExitCode.CANNOT_WRITE, problem.exception.code)
        self.assertIn(f"'{self.folder / 'trace.json'}' cannot be written: No space left", problem.exception.what)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "needs matplotlib")
    def test_the_picture_has_a_lane_per_recorded_stage(self):
        picture = self.folder / "timeline.svg"
        command.draw_timeline(made_trace(), outline_of(made_trace()), "Run made-up", [picture])
        drawn = picture.read_text()
        for text in ("Run made-up", "compute", "d2h", "consumers", "2 programs"):
            self.assertIn(text, drawn)
        self.assertNotIn(">read<", drawn)
