"""Commands as typed: help for each, the version, and another user's build."""

import os
import pathlib
import pwd
import re
import subprocess
import sys
import tempfile
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, OnStage, reachable_as

from offramp_launch.consume_command import flags_among
from offramp_launch.places import Places

COMMANDS = (
    "run",
    "job",
    "shard",
    "demo",
    "ladder",
    "chaos",
    "tune",
    "bench",
    "test",
    "setup",
    "package",
    "scale",
    "reload",
    "status",
    "trace",
    "stop",
    "dead-letters",
    "new-processor",
    "clean",
    "doctor",
    "version",
)


class HelpTest(OnStage):
    def test_each_command_has_its_own_help(self):
        seen = set()
        for command in COMMANDS:
            code, output = self.stage.call(command, "--help")
            self.assertEqual(0, code, output)
            self.assertIn(f"/launch/offramp {command}", output.splitlines()[0])
            self.assertNotIn("  ladder [FLAGS]         measure", output, "only `help` lists all commands")
            seen.add(output)
        self.assertEqual(len(COMMANDS), len(seen))

    def test_help_lists_each_kind_of_user_processor(self):
        for command in ("run", "consume"):
            # The hand-written text; the flags of the programs follow it.
            output = (pathlib.Path(OFFRAMP).parent / "help" / f"{command}.txt").read_text()
            output = output.replace("./launch/offramp", str(OFFRAMP))
            self.assertTrue(self.stage.call(command, "--help")[1].startswith(output))
            entry = re.search(r"(?m)^  --processor A,B .*\n(?: {10,}.*\n)*", output)[0]
            for kind in ("post.py:save (Python)", "so:./mine.so (C, C++, Rust)", "exec:./tool (any language)"):
                self.assertIn(kind, entry)

    def test_consume_lists_the_flags_of_its_program(self):
        output = (
            "Takes outputs.\nUsage: offramp-consumer [OPTIONS]\n\nDelivery:\n  --window N    Slabs\n\n\nConsumers:\n  --processor-option KEY=VALUE\n"
            "              Handed to one's own\n  --lifeline-fd N              Pipe\n                              on, off\n  --png-level N  Compression\n\n\n"
            "Instead of a run:\n  --list   Print\n"
        )
        self.assertEqual(
            "Consumers:\n  --processor-option KEY=VALUE\n              Handed to one's own\n  --png-level N  Compression",
            flags_among(output),
        )
        self.assertEqual("Something else", flags_among("Something else\n"), "an unknown text is returned whole")

    def test_consume_help_ends_with_the_flags_of_its_program(self):
        program = self.stage.folder / "bin/offramp-consumer"
        sentence = "All flags of consumers, those of each processor among them:"
        program.write_text("#!/bin/sh\nprintf 'Consumers:\\n  --png-level N  Compression\\n'\n")
        code, output = self.stage.call("consume", "--help")
        self.assertEqual(0, code, output)
        self.assertTrue(output.endswith(f"\n{sentence}\n\nConsumers:\n  --png-level N  Compression\n"), output)
        program.write_text("#!/bin/sh\necho 'libfake.so is missing' >&2\nexit 127\n")
        code, output = self.stage.call("consume", "--help")
        self.assertEqual(71, code, output)
        self.assertRegex(
            output,
            r"libfake.so is missing\n(.|\n)*offramp: the flags of consumers cannot be listed: .*/offramp-consumer --help-all ended with exit code 127\n",
        )
        program.unlink()
        code, output = self.stage.call("consume", "--help")
        self.assertEqual(0, code, output)
        self.assertIn(f"are listed here once `{OFFRAMP} setup` has built the programs", output)
        self.assertNotIn(sentence, output)

    def test_export_and_query_have_help_without_pytorch(self):
        for command, own, others in (
            ("export", "--input-shape", "--database"),
            ("query", "--database", "--input-shape"),
        ):
            for flag in ("--help", "-h"):
                code, output = self.stage.call(command, flag)
                self.assertEqual(0, code, output)
                self.assertTrue(output.startswith(f"usage: {OFFRAMP} {command} "), output)
                self.assertIn(f"  {own} ", output)
                self.assertNotIn(others, output)
        self.assertEqual([], self.stage.errands(), "help sets nothing up")
        code, output = self.stage.call("query", "words", "--database", "/nowhere", "--model", "none.pt2")
        self.assertEqual(71, code, output)
        self.assertRegex(
            output,
            r"^offramp: '.*/venv/bin/python' cannot be started \(No such file or directory\)\n +/\S*/launch/offramp setup .*--python\n$",
        )

    def test_help_lists_every_command(self):
        code, output = self.stage.call("help")
        self.assertEqual(0, code)
        for command in (*COMMANDS, "export", "query"):
            self.assertRegex(output, rf"(?m)^  {command}\b")
        for typed, meant in (
            ("runn", "run"),
            ("statsu", "status"),
            ("--verison", "version"),
            ("no-command", None),
            ("run-set-up", "setup"),
            ("xyzzy", None),
        ):
            code, output = self.stage.call(typed, "--help")
            self.assertEqual(64, code, output)
            self.assertIn(
                f"offramp: '{typed}' is not a command" + (f"; did you mean '{meant}'?" if meant else "\n"), output
            )
            self.assertIn("Known: run, job, shard, demo, consume, export, query,", output)

    def test_package_and_demo_refuse_wrong_arguments_first(self):
        for words, why in (
            (("package", "--wheels"), "package does not accept '--wheels'"),
            (("package", "--into", "/proc/no"), "--into /proc/no cannot be made"),
            (("demo", "--batch", "4"), "demo does not accept '--batch'"),
        ):
            code, output = self.stage.call(*words)
            self.assertIn(code, (64, 73), output)
            self.assertIn(why, output)

    def test_commands_that_make_a_folder_refuse_a_url(self):
        for words, flag in (
            (("job", "init", "--shards", "2", "--job", "s3://bucket/job"), "--job"),
            (("job", "init", "--shards", "2", "--job", "job", "--output", "s3://bucket/out"), "--output"),
            (("demo", "--output", "s3://bucket/out"), "--output"),
            (("ladder", "--output", "s3://bucket/out"), "--output"),
        ):
            code, output = self.stage.call(*words)
            self.assertEqual(64, code, output)
            self.assertIn(f"{flag} '{words[-1]}' is a URL, and s3:// is not supported here", output)
            self.assertFalse(os.path.exists("s3:"), output)

    def test_version_names_the_sources_and_the_built_programs(self):
        for words in (("version",), ("--version",), ("run", "--version")):
            code, output = self.stage.call(*words)
            self.assertEqual(0, code, output)
            self.assertRegex(output.splitlines()[0], rf"^offramp {re.escape(Places().version())}( \(commit \w+\))?$")
            self.assertIn("are 1.2.3", output)


@unittest.skipUnless(os.geteuid() == 0, "only root may start programs as another user")
class AnotherUsersBuildTest(unittest.TestCase):
    def setUp(self):
        self.user = pwd.getpwnam("nobody")
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        if not all(
            reachable_as(self.user, path)
            for path in (os.path.abspath(__file__), os.__file__, sys.executable, str(OFFRAMP))
        ):
            self.skipTest("another user can read neither this folder nor this Python")
        self.build = self.folder / "build"
        (self.build / "release" / "bin").mkdir(parents=True)
        (self.build / "setup.lock").touch()

    def call(self, *words):
        environment = {
            "PATH": os.environ["PATH"],
            "OFFRAMP_BUILD_DIR": str(self.build),
            "OFFRAMP_SKIP_PACKAGES": "1",
            "HOME": "/nonexistent",
        }
        done = subprocess.run(
            [OFFRAMP, *words],
            env=environment,
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        self.assertNotIn("Traceback", done.stdout)
        return done.returncode, done.stdout

    def test_run_uses_the_built_programs(self):
        program = self.build / "release" / "bin" / "offramp-producer"
        program.write_text("#!/bin/sh\necho 'offramp-producer: reached it' >&2\nexit 66\n")
        program.chmod(0o755)
        code, output = self.call("run", "--input", "/x")
        self.assertEqual(66, code, output)
        self.assertIn("its programs are used as they are", output)
        self.assertIn("offramp: reached it", output)

    def test_doctor_reports_the_owner(self):
        self.assertRegex(
            self.call("doctor")[1],
            r"PROBLEM  build .*another user, and has no programs yet\n +fix: .*OFFRAMP_BUILD_DIR=FOLDER",
        )
        (self.build / "release" / "bin" / "offramp-producer").touch()
        self.assertRegex(self.call("doctor")[1], r"OK       build .*another user; its programs are used as they are")

    def test_reports_missing_programs_with_the_remedy(self):
        for words in (("run",), ("setup",), ("run", "--cuda-dir", "/tmp")):
            code, output = self.call(*words)
            self.assertEqual(77, code, output)
            self.assertIn("belongs to another user", output)
            self.assertIn("OFFRAMP_BUILD_DIR=FOLDER", output)
