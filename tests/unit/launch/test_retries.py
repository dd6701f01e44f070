"""Retries of dead letters, sample by sample: the result of each, and when a run stops retrying."""

import json
import signal

from stage import InFolder

from offramp_launch import retries
from offramp_launch.exit_code import ExitCode

TRACEBACK = 'Traceback (most recent call last):\n  File "/work/post.py", line 4, in save\n    raise ValueError("odd")\nValueError: odd'


def incident(samples=4, end="failed", **changes):
    return {
        "run_id": "r",
        "batch": 1,
        "reason": "it failed 3 times: ValueError: odd",
        "payload": "batch-1-row-0.safetensors",
        "samples": [{"item": number, "key": f"s{number}", "empty": False} for number in range(samples)],
        "deliveries": [{"attempt": 1, "end": end, "counted": True, "why": TRACEBACK}],
        **changes,
    }


class Program:
    """Replaces offramp-consumer: appends given lines to the report and returns a given status."""

    def __init__(self, *lives):
        self._lives = list(lives)
        self.commands = []

    def __call__(self, command):
        self.commands.append(command)
        lines, status = self._lives.pop(0)
        with open(command[2], "a") as report:
            report.write("\n")
            report.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        return status


class RetriesTest(InFolder):
    def setUp(self):
        super().setUp()
        (self.folder / "dead-letters").mkdir()

    def process(self, report, *lives):
        program = Program(*lives)
        status = retries.process_samples(self.folder, "batch-1-row-0", report, ["consumer", "--output", "OUT"], program)
        self.assertEqual([], [path for path in self.folder.iterdir() if path.is_file()], "the report is removed")
        return status, program

    def test_each_sample_gets_its_result_from_the_report(self):
        report = incident()
        status, program = self.process(
            report,
            (
                [
                    {"trying": [0, 4]},
                    {"failed": [0, 4], "why": "x"},
                    {"trying": [0, 2]},
                    {"done": [0, 2]},
                    {"trying": [2, 4]},
                    {"failed": [2, 4], "why": "x"},
                    {"trying": [2, 3]},
                    {"failed": [2, 3], "why": TRACEBACK},
                    {"trying": [3, 4]},
                    {"done": [3, 4]},
                ],
                0,
            ),
        )
        self.assertEqual(0, status)
        self.assertEqual(["done", "done", "failed", "done"], [sample["result"] for sample in report["samples"]])
        self.assertEqual("sample 's2' failed: ValueError: odd (post.py:4)", retries.reason_of(report))
        self.assertEqual(
            [
                [
                    "consumer",
                    "retry-samples",
                    str(self.folder / "batch-1-row-0.tried"),
                    str(self.folder / "batch-1-row-0.safetensors"),
                    "--output",
                    "OUT",
                ]
            ],
            program.commands,
        )

    def test_the_line_of_the_users_code_is_named(self):
        inner = '\n  File "/usr/lib/python3.11/json/decoder.py", line 9, in decode\n    raise\nValueError: odd'
        package = (
            '\n  File "/venv/lib64/python3.9/site-packages/numpy/core.py", line 5, in sum\n    raise\nValueError: odd'
        )
        own = '\n  File "/checkout/launch/python/offramp/_slab.py", line 9, in torch\n    raise\nValueError: odd'
        for more in ("", inner, package, own):
            self.assertEqual("ValueError: odd (post.py:4)", retries.error_in(TRACEBACK + more))
        self.assertEqual("ValueError: odd (core.py:5)", retries.error_in(package))
        self.assertEqual("out of memory", retries.error_in("out of memory"))

    def test_samples_that_were_not_retried_are_named(self):
        for samples, named in ((1, "sample 's0': "), (3, "samples 's0' to 's2': "), (0, "")):
            self.assertEqual(
                f"{named}it failed 3 times: ValueError: odd (post.py:4)", retries.reason_of(incident(samples))
            )

    def test_a_sample_that_kills_the_program_fails_alone(self):
        report = incident(2)
        status, program = self.process(
            report,
            ([{"trying": [0, 2]}], -signal.SIGSEGV),
            ([{"trying": [0, 1]}, '{"do'], -signal.SIGABRT),
            ([{"trying": [1, 2]}, {"done": [1, 2]}], 0),
        )
        self.assertEqual((0, 3), (status, len(program.commands)))
        self.assertEqual(["failed", "done"], [sample["result"] for sample in report["samples"]])
        self.assertEqual("sample 's0' failed: the consumer was killed by SIGABRT", retries.reason_of(report))

    def test_a_program_that_always_dies_is_given_up(self):
        report = incident(2)
        status, program = self.process(report, *[([{"trying": [0, 2]}], -signal.SIGKILL)] * 1000)
        self.assertEqual((-signal.SIGKILL, retries.MOST_DEATHS), (status, len(program.commands)))
        self.assertEqual(2, len(retries.left_of(report)))

    def test_unreadable_samples_are_not_counted(self):
        report = incident(3)
        report["samples"][1]["empty"] = True
        self.process(
            report,
            (
                [
                    {"trying": [0, 3]},
                    {"failed": [0, 3], "why": "x"},
                    {"trying": [0, 1]},
                    {"failed": [0, 1], "why": "x"},
                    {"trying": [1, 3]},
                    {"done": [1, 3]},
                ],
                0,
            ),
        )
        recovered = retries.Recovered()
        recovered.take("payload", report)
        self.assertEqual(1, recovered.samples)
        self.assertEqual(
            ExitCode.DEAD_LETTERS, recovered.correct({"samples": {"dead_letters": 2}}, ExitCode.DEAD_LETTERS)
        )

    def test_no_restart_after_a_stop_or_a_death_before_the_first_sample(self):
        for life in (
            ([{"trying": [0, 2]}, {"failed": [0, 2], "why": "x"}, {"trying": [0, 1]}], -signal.SIGTERM),
            ([], -signal.SIGSEGV),
        ):
            report = incident(2)
            status, program = self.process(report, life)
            self.assertEqual((life[1], 1), (status, len(program.commands)))
            self.assertEqual([None, None], [sample.get("result") for sample in report["samples"]])

    def test_a_recovered_sample_leaves_the_dead_letters(self):
        report = incident(2)
        report["samples"][0].update(result="failed", why="odd")
        self.process(report, ([{"trying": [0, 2]}, {"done": [0, 2]}], 0))
        self.assertEqual([], retries.left_of(report))
        self.assertNotIn("why", report["samples"][0])

    def put(self, name, report):
        (self.folder / "dead-letters" / f"{name}.json").write_text(
            json.dumps({**report, "payload": f"{name}.safetensors"})
        )

    def test_a_run_retries_its_failed_dead_letters(self):
        self.put("a", incident())
        self.put("b", incident(end="died"))
        self.put("c", incident(run_id="another"))
        self.put("d", incident(payload=None) | {"deliveries": []})
        program = Program(([{"trying": [0, 4]}, {"done": [0, 4]}], 0))
        recovered = retries.retry_failed(self.folder, "r", ["consumer"], program)
        self.assertEqual((1, 4), (len(program.commands), recovered.samples))
        summary = {
            "samples": {"released": 8, "dead_letters": 8},
            "dead_letters": [
                {"payload": str(self.folder / "dead-letters/a.safetensors"), "samples": 4},
                {"payload": str(self.folder / "dead-letters/b.safetensors"), "samples": 4},
            ],
        }
        self.assertEqual(ExitCode.DEAD_LETTERS, recovered.correct(summary, ExitCode.DEAD_LETTERS))
        self.assertEqual({"released": 12, "dead_letters": 4, "recovered": 4}, summary["samples"])
        self.assertEqual(
            [str(self.folder / "dead-letters/b.safetensors")], [slab["payload"] for slab in summary["dead_letters"]]
        )

    def test_a_run_whose_dead_letters_all_recover_succeeds(self):
        self.put("a", incident())
        recovered = retries.retry_failed(
            self.folder, "r", ["consumer"], Program(([{"trying": [0, 4]}, {"done": [0, 4]}], 0))
        )
        self.assertEqual(
            ExitCode.OK, recovered.correct({"samples": {"released": 0, "dead_letters": 4}}, ExitCode.DEAD_LETTERS)
        )
        self.assertEqual(
            ExitCode.CANNOT_WRITE,
            recovered.correct({"samples": {"released": 0, "dead_letters": 4}}, ExitCode.CANNOT_WRITE),
        )

    def test_a_processor_that_always_fails_is_tried_three_times(self):
        for name in "abcdef":
            self.put(name, incident(1 + 1))
        failing = [
            {"trying": [0, 2]},
            {"failed": [0, 2], "why": "x"},
            {"trying": [0, 1]},
            {"failed": [0, 1], "why": "x"},
            {"trying": [1, 2]},
            {"failed": [1, 2], "why": "x"},
        ]
        program = Program(*[(failing, 0)] * 6)
        self.assertEqual(0, retries.retry_failed(self.folder, "r", ["consumer"], program).samples)
        self.assertEqual(retries.FRUITLESS, len(program.commands))
