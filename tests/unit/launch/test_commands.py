"""Commands as typed: help for each, the version, and another user's build."""

import os
import pathlib
import pwd
import re
import subprocess
import sys
import tempfile
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, Stage, reachable_as

from offramp_launch.consume_command import flags_among
from offramp_launch.places import Places

COMMANDS = ("run", "job", "shard", "demo", "ladder", "tune", "bench", "test", "setup", "package", "scale", "reload", "status", "trace", "stop", "dead-letters", "new-processor", "clean", "doctor",
            "version")


class HelpTest(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        self.addCleanup(self.stage.close)

    def test_each_command_has_help_of_its_own(self):
        seen = set()
        for command in COMMANDS:
            code, said = self.stage.call(command, "--help")
            self.assertEqual(0, code, said)
            self.assertIn(f"./launch/offramp {command}", said.splitlines()[0])
            self.assertNotIn("  ladder [FLAGS]         measure", said, "the list of all commands is help's")
            seen.add(said)
        self.assertEqual(len(COMMANDS), len(seen))

    def test_processors_of_the_user_are_named_by_kind(self):
        for command in ("run", "consume"):
            # As they are written by hand: what programs say of their flags comes behind it.
            said = (pathlib.Path(OFFRAMP).parent / "help" / f"{command}.txt").read_text()
            self.assertTrue(self.stage.call(command, "--help")[1].startswith(said))
            entry = re.search(r"(?m)^  --processor A,B .*\n(?: {10,}.*\n)*", said)[0]
            for kind in ("post.py:save (Python)", "so:./mine.so (C, C++, Rust)", "exec:./tool (any language)"):
                self.assertIn(kind, entry)

    def test_consume_lists_what_its_program_reports_of_consumers_flags(self):
        said = ("Takes outputs.\nUsage: offramp-consumer [OPTIONS]\n\nDelivery:\n  --window N    Slabs\n\n\nConsumers:\n  --processor-option KEY=VALUE\n"
                "              Handed to one's own\n  --lifeline-fd N              Pipe\n                              on, off\n  --png-level N  Compression\n\n\n"
                "Instead of a run:\n  --sweep   Remove\n")
        self.assertEqual("Consumers:\n  --processor-option KEY=VALUE\n              Handed to one's own\n  --png-level N  Compression", flags_among(said))
        self.assertEqual("Something else", flags_among("Something else\n"), "all of it where it is not understood")

    def test_flags_of_consumers_stand_behind_a_sentence_where_their_program_reports_them(self):
        program = self.stage.folder / "bin/offramp-consumer"
        sentence = "All flags of consumers, those of each processor among them:"
        program.write_text("#!/bin/sh\nprintf 'Consumers:\\n  --png-level N  Compression\\n'\n")
        code, said = self.stage.call("consume", "--help")
        self.assertEqual(0, code, said)
        self.assertTrue(said.endswith(f"\n{sentence}\n\nConsumers:\n  --png-level N  Compression\n"), said)
        program.write_text("#!/bin/sh\necho 'no library of its own' >&2\nexit 127\n")
        code, said = self.stage.call("consume", "--help")
        self.assertEqual(71, code, said)
        self.assertRegex(said, r"no library of its own\n(.|\n)*offramp: the flags of consumers cannot be listed: .*/offramp-consumer --help-all ended with 127\n")
        program.unlink()
        code, said = self.stage.call("consume", "--help")
        self.assertEqual(0, code, said)
        self.assertIn("are listed here once `./launch/offramp setup` has built the programs", said)
        self.assertNotIn(sentence, said)

    def test_those_that_run_in_a_python_with_pytorch_have_it_where_there_is_none(self):
        for command, own, others in (("export", "--input-shape", "--database"), ("query", "--database", "--input-shape")):
            for flag in ("--help", "-h"):
                code, said = self.stage.call(command, flag)
                self.assertEqual(0, code, said)
                self.assertTrue(said.startswith(f"usage: ./launch/offramp {command} "), said)
                self.assertIn(f"  {own} ", said)
                self.assertNotIn(others, said)
        self.assertEqual([], self.stage.errands(), "nothing was set up for it")
        code, said = self.stage.call("query", "words", "--database", "/nowhere", "--model", "none.pt2")
        self.assertEqual(71, code, said)
        self.assertRegex(said, r"^offramp: '.*/venv/bin/python' cannot be started \(No such file or directory\)\n +\./launch/offramp setup .*--python\n$")

    def test_the_list_of_commands_names_them_all(self):
        code, said = self.stage.call("help")
        self.assertEqual(0, code)
        for command in (*COMMANDS, "export", "query"):
            self.assertRegex(said, rf"(?m)^  {command}\b")
        for typed, meant in (("runn", "run"), ("statsu", "status"), ("--verison", "version"), ("no-command", None), ("run-set-up", "setup"), ("xyzzy", None)):
            code, said = self.stage.call(typed, "--help")
            self.assertEqual(64, code, said)
            self.assertIn(f"offramp: '{typed}' is not a command" + (f"; did you mean '{meant}'?" if meant else "\n"), said)
            self.assertIn("Known: run, job, shard, demo, consume, export, query,", said)

    def test_wrong_words_of_package_and_demo_are_refused_before_anything_is_done(self):
        for words, why in ((("package", "--wheels"), "package knows no '--wheels'"), (("package", "--into", "/proc/no"), "--into /proc/no cannot be made"),
                           (("demo", "--batch", "4"), "demo knows no '--batch'")):
            code, said = self.stage.call(*words)
            self.assertIn(code, (64, 73), said)
            self.assertIn(why, said)

    def test_the_version_is_that_of_the_sources_and_reports_other_programs(self):
        for words in (("version",), ("--version",), ("run", "--version")):
            code, said = self.stage.call(*words)
            self.assertEqual(0, code, said)
            self.assertRegex(said.splitlines()[0], rf"^offramp {re.escape(Places().version())}( \(commit \w+\))?$")
            self.assertIn("are 1.2.3", said)


@unittest.skipUnless(os.geteuid() == 0, "only root may start programs as another user")
class AnotherUsersBuildTest(unittest.TestCase):
    def setUp(self):
        self.nobody = pwd.getpwnam("nobody")
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        if not all(reachable_as(self.nobody, path) for path in (os.path.abspath(__file__), os.__file__, sys.executable, str(OFFRAMP))):
            self.skipTest("another user can read neither this folder nor this Python")
        self.build = self.folder / "build"
        (self.build / "release" / "bin").mkdir(parents=True)
        (self.build / "setup.lock").touch()

    def call(self, *words):
        environment = {"PATH": os.environ["PATH"], "OFFRAMP_BUILD_DIR": str(self.build), "OFFRAMP_SKIP_PACKAGES": "1", "HOME": "/nonexistent"}
        done = subprocess.run([OFFRAMP, *words], env=environment, user=self.nobody.pw_uid, group=self.nobody.pw_gid, extra_groups=[], cwd="/",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WATCHDOG_SECONDS, check=False)
        self.assertNotIn("Traceback", done.stdout)
        return done.returncode, done.stdout

    def test_its_programs_are_used_as_they_are(self):
        program = self.build / "release" / "bin" / "offramp-producer"
        program.write_text("#!/bin/sh\necho 'offramp-producer: reached it' >&2\nexit 66\n")
        program.chmod(0o755)
        code, said = self.call("run", "--input", "/x")
        self.assertEqual(66, code, said)
        self.assertIn("its programs are used as they are", said)
        self.assertIn("offramp: reached it", said)

    def test_the_doctor_reports_it(self):
        self.assertRegex(self.call("doctor")[1], r"WANTING  build .*another user's, and has no programs yet\n +fix: .*OFFRAMP_BUILD_DIR=FOLDER")
        (self.build / "release" / "bin" / "offramp-producer").touch()
        self.assertRegex(self.call("doctor")[1], r"OK       build .*another user's: its programs are used as they are")

    def test_where_there_are_none_it_reports_who_can_make_them(self):
        for words in (("run",), ("setup",), ("run", "--cuda-dir", "/tmp")):
            code, said = self.call(*words)
            self.assertEqual(77, code, said)
            self.assertIn("is another user's", said)
            self.assertIn("OFFRAMP_BUILD_DIR=FOLDER", said)


if __name__ == "__main__":
    unittest.main()
