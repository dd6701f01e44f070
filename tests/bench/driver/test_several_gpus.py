"""What measures several GPUs, on the CPU in small: every part comes to its end with all that its table is made of, and nothing is left. No time is asserted."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gpu_shares
from contestants import ContestantError
from left_behind import left_since, objects_of_all
from test_bench import left_processes

SEVERAL = pathlib.Path(__file__).resolve().parents[1] / "several_gpus.py"
BIN = os.environ["OFFRAMP_TEST_BIN"]
SETS = {"a": {"all", "one"}, "b": {"all", "one", "copies on all", "copies on one"}, "c": {"all", "one"}, "d": {"own node", "other node"}}


def run_several(*arguments, **environment):
    return subprocess.run([sys.executable, str(SEVERAL), "--bin", BIN, "--device", "cpu", *map(str, arguments)], capture_output=True, text=True, timeout=500,
                          check=False, env={**os.environ, **environment})


class SeveralProducers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="offramp-sg-")
        cls.addClassCleanup(cls.folder.cleanup)
        before = objects_of_all()
        file = pathlib.Path(cls.folder.name, "gpus.json")
        cls.done = run_several("--json", file, "--death-seconds", 4, "--kill-every", 1, "--keep-logs", pathlib.Path(cls.folder.name, "logs"),
                               OFFRAMP_BENCH_TEST=str(os.getpid()), TMPDIR=cls.folder.name)
        cls.left = left_since(before, objects_of_all)
        cls.told = cls.done.stdout + cls.done.stderr
        cls.whole = json.loads(file.read_text()) if file.exists() else {"parts": {}}
        cls.parts = cls.whole["parts"]

    def test_it_ends_well(self):
        self.assertEqual(0, self.done.returncode, self.told)
        self.assertEqual({}, {name: part["failure"] for name, part in self.parts.items() if part.get("failure")})
        self.assertEqual(list("abcdef"), list(self.parts), self.told)

    def test_windows_of_every_set_moved(self):
        found = {name: part for name, part in self.parts.items() if name in SETS and not part.get("left_out")}
        self.assertLessEqual(set("abc"), set(found))    # memory may be bound, or not
        for name, part in found.items():
            self.assertEqual(SETS[name], set(part["sets"]), name)
        for name, told in [*found.items(), *((row, told) for rows in self.parts["e"]["ways"].values() for row, told in rows.items())]:
            for each, own in told["sets"].items():
                with self.subTest(part=name, what=each):
                    self.assertEqual(self.whole["pace"]["windows"], len(own["windows"]))
                    self.assertTrue(all(window["rate"] > 0 and window["bytes"] > 0 and all(rate > 0 for rate in window["each"]) for window in own["windows"]))
                    self.assertEqual(2 if each in ("all", "copies on all", "together") else 1, len(own["windows"][0]["each"]))

    def test_runs_of_all_were_those_of_the_launch_script(self):
        for name in "abc":
            self.assertIn("--gpus 2", self.parts[name]["started"])

    def test_two_on_one_device_write_no_file_in_common(self):
        self.assertEqual({"W6", "W2-device"}, set(self.parts["e"]["ways"]["time slices"]))
        for told in self.parts["e"]["ways"]["time slices"].values():
            self.assertEqual([], told["files_in_common"])

    def test_a_run_with_deaths_left_what_an_undisturbed_one_leaves(self):
        part = self.parts["f"]
        self.assertGreater(part["deaths"], 0)
        self.assertEqual(part["items"], part["outputs"]["lines"])
        self.assertEqual(part["items"], part["outputs"]["pictures"])
        self.assertEqual(0, part["outputs"]["differing"], part["outputs"])
        self.assertEqual({"undisturbed": True, "killed": True}, part["conserved"])

    def test_nothing_is_left(self):
        self.assertEqual(set(), self.left)
        self.assertEqual([], left_processes(f"OFFRAMP_BENCH_TEST={os.getpid()}"))
        self.assertEqual({"gpus.json", "logs"}, {path.name for path in pathlib.Path(self.folder.name).iterdir()})


class Failures(unittest.TestCase):
    def test_a_part_that_fails_leaves_the_others_and_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("offramp-producer", "offramp-consumer"):    # no programs for the parts, all for the rest
                path = pathlib.Path(folder, program)
                path.write_text(f'#!/bin/sh\ncase " $* " in *" --probe "*|*" --version "*|*" --sweep "*) exec {BIN}/offramp-producer "$@";; esac\n'
                                'echo "it cannot go on" >&2; exit 3\n')
                path.chmod(0o755)
            done = run_several("--parts", "a,d,b", "--bin", folder)
        self.assertEqual(1, done.returncode)
        self.assertIn("it cannot go on", done.stdout)
        self.assertRegex(done.stdout, r"parts: a FAILED .*, d \w+.*, b FAILED")

    def test_a_part_that_takes_too_long_is_given_up(self):
        done = run_several("--parts", "a", "--part-seconds", "0.3")
        self.assertEqual(1, done.returncode)
        self.assertIn("part a took longer than 0.3 s, and was given up", done.stdout)

    def test_a_part_that_is_none_is_refused(self):
        done = run_several("--parts", "a,x")
        self.assertEqual(2, done.returncode)
        self.assertIn("--parts: 'x' is none; there are a, b, c, d, e, f", done.stderr)


class ControlDaemon(unittest.TestCase):
    """Of MPS: how it is started, told to end and seen to fail, with a script in its place, as CUDA's is on few machines."""

    @contextlib.contextmanager
    def daemon(self, script):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, gpu_shares.MPS)
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            with mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                yield

    def test_it_is_told_to_end_and_its_folder_goes(self):
        served = 'if [ "$1" = -f ]; then : > "$CUDA_MPS_PIPE_DIRECTORY/control"; until [ -e "$CUDA_MPS_LOG_DIRECTORY/end" ]; do sleep 0.05; done'
        with self.daemon(f'{served}\nelse read word; [ "$word" = quit ] && : > "$CUDA_MPS_LOG_DIRECTORY/end"; fi'), gpu_shares.mps() as environment:
            folder = pathlib.Path(environment["CUDA_MPS_PIPE_DIRECTORY"])
            running = gpu_shares.processes_naming(gpu_shares.MPS)
            self.assertTrue(running)
        self.assertFalse(folder.exists())
        self.assertEqual([], gpu_shares.processes_naming(gpu_shares.MPS))

    def test_one_that_does_not_start_says_why(self):
        with self.daemon("echo it may not; exit 1"), self.assertRaisesRegex(ContestantError, "did not start: it may not"), gpu_shares.mps():
            pass

    def test_none_is_told(self):
        with mock.patch.dict(os.environ, PATH=""), self.assertRaisesRegex(ContestantError, "is not here"), gpu_shares.mps():
            pass


class Parts(unittest.TestCase):
    def test_files_that_two_processes_write_are_found(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertIn(file.name, gpu_shares.files_written_by([os.getpid()]))
            with open(file.name, "rb") as reading:
                self.assertTrue(reading.readable())
        self.assertNotIn(file.name, gpu_shares.files_written_by([os.getpid()]))

    def test_memory_is_bound_to_a_node_or_it_is_said_why_not(self):
        for node in gpu_shares.nodes_of_this_machine():
            self.assertIsInstance(gpu_shares.why_memory_cannot_be_bound(node), str)
        self.assertTrue(gpu_shares.why_memory_cannot_be_bound(1023))


if __name__ == "__main__":
    unittest.main()
