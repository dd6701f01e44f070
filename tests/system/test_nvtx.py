"""NVTX ranges of the real programs, by name, colour and nesting, through a test injection library."""

import json
import os
import pathlib
import struct
import tempfile
import unittest
import zlib

from tests.support.real_run import BIN, RealRun

RECORDER = BIN / "tests" / "libofframp_nvtx_recorder.so"
MODELS = BIN.parent / "lib" / "libofframp_models.so"
DEVICE = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu")
WARMUP, PROFILED, BATCHES = 2, 3, 6
WORK = (
    "--device",
    DEVICE,
    *"--model copy --copy-bytes 64KiB --batch 4 --batches-per-slab 1 --samples-per-slab 4 --slabs 4".split(),
    *"--processor checksum --batches".split(),
    str(BATCHES),
    "--warmup-batches",
    str(WARMUP),
)
# The article's colours.
ARGB = {
    "Batch": "ff0000ff",
    "get batch": "ffff0000",
    "compute": "ff00ff00",
    "copy to CPU": "ffffff00",
    "queue CUDA event": "ff00ffff",
    "queue output": "ff00ffff",
    "process output": "ff00ffff",
}
# Ranges of a step on the model's thread, in order; nested ones after a slash.
STEPS = {
    "sequential": ["get batch", "compute", "copy to CPU", "copy to CPU/queue CUDA event", "process output"],
    "workers": ["get batch", "compute", "unmap", "map", "copy to CPU", "copy to CPU/queue CUDA event", "queue output"],
    "pool": ["get batch", "compute", "copy to CPU", "copy to CPU/queue CUDA event", "queue output"],
    "async": ["get batch", "compute", "copy to CPU", "copy to CPU/queue CUDA event", "queue output"],
    "streams": ["get batch", "compute", "queue output"],
}
# Optional: a publisher dispatches inline only while the broker sleeps, and segments are mapped on first use.
AT_TIMES = ("unmap", "map", "queue output/publish")


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


# 8 x 8 gray pixels.
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(bytes(9 * 8)))
    + chunk(b"IEND", b"")
)


class Range:
    def __init__(self, event, path):
        self.thread, self.name, self.argb, self.payload = (
            event["thread"],
            event["name"],
            event["argb"],
            event.get("payload"),
        )
        self.registered, self.begin, self.end = event["registered"], event["ns"], None
        self.path = (*path, self.name)


def ranges_of(events):
    """The ranges of one process, ordered by their begin. Fails for a pop without a push and a range without an end."""
    open_ranges, found = {}, []
    for event in events:
        stack = open_ranges.setdefault(event["thread"], [])
        if event["event"] == "push":
            assert event["domain"] == "offramp", event
            found.append(Range(event, stack[-1].path if stack else ()))
            stack.append(found[-1])
        elif event["event"] == "pop":
            stack.pop().end = event["ns"]
    assert not any(open_ranges.values()), "a range without an end"
    return found


class RecordedRun:
    """The ranges of one run's producer and consumers."""

    def __init__(self, folder):
        self.events = {}
        for path in folder.glob("*.jsonl"):
            events = [json.loads(line) for line in path.read_text().splitlines()]
            if events:
                # the ladder's program counts as a producer
                role = "consumer" if events[0]["program"] == "offramp-consumer" else "producer"
                self.events.setdefault(role, []).append(events)
        (producer,) = self.events["producer"]
        self.producer = ranges_of(producer)
        self.consumers = [ranges_of(events) for events in self.events.get("consumer", [])]
        self.model_thread = next(one.thread for one in self.producer if one.name == "compute")
        self.steps = [
            one
            for one in self.producer
            if one.path == one.path[-1:]
            and one.name.startswith("Batch ")
            or one.path[0] == "capture"
            and len(one.path) == 2
            and one.name.startswith("Batch ")
        ]

    def inside(self, step):
        """Paths of a step's ranges, in order, without the wait for a slab, which depends on timing."""
        return [
            "/".join(one.path[len(step.path) :])
            for one in self.producer
            if one.thread == step.thread
            and step.begin < one.begin
            and one.end <= step.end
            and "wait slab" not in one.path
        ]


def record(*flags, consumers=2, work=WORK):
    """A run with the recorder in place of a profiler."""
    with RealRun(*work, *flags) as run:
        folder = run.folder / "nvtx"
        folder.mkdir()
        run.environment.update({"NVTX_INJECTION64_PATH": str(RECORDER), "NVTX_RECORDER_DIR": str(folder)})
        if DEVICE != "cpu":
            run.environment["LD_PRELOAD"] = str(RECORDER)
        run.start_producer()
        for _ in range(consumers):
            run.start_consumer()
        if run.wait(run.producer) != 0:
            raise AssertionError(run.logs())
        run.wait_for_consumers()
        return RecordedRun(folder)


class Ranges(unittest.TestCase):
    def test_each_rung_reports_the_articles_ranges(self):
        for rung, wanted in STEPS.items():
            with self.subTest(rung):
                recorded = record("--strategy", rung, consumers=0 if rung == "sequential" else 2)
                self.assertEqual(
                    [f"Batch {number}" for number in range(BATCHES)], [step.name for step in recorded.steps]
                )
                self.assertEqual({recorded.model_thread}, {step.thread for step in recorded.steps})
                for number, step in enumerate(recorded.steps):
                    self.assertEqual(number, step.payload)
                    self.assertEqual(
                        wanted, [path for path in recorded.inside(step) if path not in AT_TIMES or path in wanted]
                    )
                for before, after in zip(recorded.steps, recorded.steps[1:]):
                    self.assertLessEqual(before.end, after.begin)
                for one in recorded.producer + [one for ranges in recorded.consumers for one in ranges]:
                    name = "Batch" if one.name.startswith("Batch ") else one.name
                    if name in ARGB:
                        self.assertEqual(ARGB[name], one.argb, one.name)
                    self.assertEqual(
                        name != "Batch", one.registered, "a capture range can only name registered strings"
                    )

    @unittest.skipUnless(MODELS.exists(), "skipped: built without models")
    def test_an_unreadable_batch_is_a_step_without_compute_and_shifts_no_other(self):
        # If skipped items have rows in the results, the batch is handed on.
        for processor, unread in (("checksum", ["get batch"]), ("records", ["get batch", "queue output"])):
            with self.subTest(processor), tempfile.TemporaryDirectory() as folder:
                for index in range(8):
                    pathlib.Path(folder, f"{index}.png").write_bytes(b"no picture" if index in (2, 3, 6, 7) else PNG)
                with tempfile.TemporaryDirectory() as results:
                    recorded = record(
                        "--input",
                        folder,
                        "--processor",
                        processor,
                        "--output",
                        results,
                        work=(
                            "--device",
                            DEVICE,
                            *"--model cutout --image-size 64 --batch 2 --max-errors 100%".split(),
                        ),
                    )
                self.assertEqual([f"Batch {number}" for number in range(4)], [step.name for step in recorded.steps])
                self.assertEqual(
                    [STEPS["streams"], unread, STEPS["streams"], unread],
                    [recorded.inside(step) for step in recorded.steps],
                )
                computed = [one for one in recorded.producer if one.name == "compute"]
                self.assertEqual([0, 2], [one.payload for one in computed])
                self.assertEqual(
                    [(f"Batch {one.payload}", "compute") for one in computed], [one.path for one in computed]
                )

    def test_the_default_copies_on_a_separate_thread(self):
        recorded = record("--strategy", "streams")
        copies = [one for one in recorded.producer if one.name == "copy to CPU"]
        self.assertEqual(list(range(BATCHES)), [one.payload for one in copies])
        self.assertNotIn(recorded.model_thread, {one.thread for one in copies})
        events = [one for one in recorded.producer if one.name == "queue CUDA event"]
        self.assertEqual({("copy to CPU", "queue CUDA event")}, {one.path for one in events})

    def test_consumers_report_what_they_process(self):
        recorded = record("--strategy", "streams")
        processed = [one for ranges in recorded.consumers for one in ranges if one.name == "process output"]
        self.assertEqual(list(range(BATCHES)), sorted(one.payload for one in processed))
        self.assertEqual({("process output",)}, {one.path for one in processed})

    def test_threads_have_names(self):
        (events,) = record("--strategy", "streams").events["producer"]
        self.assertLessEqual(
            {"upload", "egress-copy", "egress-done", "broker"},
            {event["name"] for event in events if event["event"] == "thread"},
        )


class Capture(unittest.TestCase):
    def test_the_batches_to_profile_come_behind_the_warm_up(self):
        for rung in STEPS:
            with self.subTest(rung):
                recorded = record(
                    "--strategy", rung, "--profile-batches", str(PROFILED), consumers=0 if rung == "sequential" else 2
                )
                (capture,) = [one for one in recorded.producer if one.name == "capture"]
                self.assertEqual(recorded.model_thread, capture.thread)
                inside = [step.name for step in recorded.steps if capture.begin < step.begin and step.end < capture.end]
                self.assertEqual([f"Batch {WARMUP + number}" for number in range(PROFILED)], inside)
                self.assertEqual(
                    [f"Batch {number}" for number in range(BATCHES)], [step.name for step in recorded.steps]
                )
                # The capture ends after the delivery of its batches, so it contains the consumers' work.
                processed = [
                    one
                    for ranges in [recorded.producer, *recorded.consumers]
                    for one in ranges
                    if one.name == "process output"
                ]
                captured = [one.payload for one in processed if capture.begin < one.begin and one.end < capture.end]
                self.assertEqual(list(range(WARMUP, WARMUP + PROFILED)), sorted(captured))

    def test_without_the_flag_there_is_none(self):
        self.assertNotIn("capture", {one.name for one in record("--strategy", "streams").producer})

    @unittest.skipIf(DEVICE == "cpu", "CUDA's profiler is called on a GPU only: OFFRAMP_TEST_DEVICE=cuda")
    def test_cudas_profiler_is_started_and_stopped_around_them(self):
        recorded = record("--strategy", "streams", "--profile-batches", str(PROFILED))
        (events,) = recorded.events["producer"]
        (capture,) = [one for one in recorded.producer if one.name == "capture"]
        calls = [event for event in events if event["event"].startswith("profiler_")]
        self.assertEqual(["profiler_start", "profiler_stop"], [event["event"] for event in calls])
        self.assertLessEqual(calls[0]["ns"], capture.begin)
        self.assertLessEqual(capture.end, calls[1]["ns"])
