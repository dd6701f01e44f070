"""The command of the installed package: its checks of the machine and its folders."""

import contextlib
import importlib.util
import io
import pathlib
import tempfile
import unittest
import unittest.mock

from offramp_launch import commands, installed, places
from offramp_launch.exit_code import LaunchError, UsageError, in_one_line
from offramp_launch.failure import dead_letters_failure, failure_of
from offramp_launch.progress import LiveDisplay
from offramp_launch.screen import Guarded
from offramp_launch.settings import to_toml
from offramp_launch.supervision.logbook import Logbook
from offramp_launch.watching.diagnosis import faults
from offramp_launch.watching.rates import Rates
from offramp_launch.watching.view import producer_rows
from watched_documents import DOCUMENTS

INSTALLED = unittest.mock.patch("offramp_launch.places.here", lambda: places.Installed(pathlib.Path("/nowhere")))


class Stream:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


class InstalledTest(unittest.TestCase):
    def test_an_old_c_library_is_reported_with_the_remedy(self):
        for version in ("glibc 2.31", "glibc 2.9", None, "musl"):
            self.assertRegex(
                installed.glibc_problem(version), r"need glibc 2\.34 or later, and this machine has .*: use Debian 12"
            )
        for version in ("glibc 2.34", "glibc 2.36", "glibc 3.0", "glibc 2.39.9000"):
            self.assertIsNone(installed.glibc_problem(version))

    def test_commands_that_need_the_sources_are_refused(self):
        with unittest.mock.patch.dict("os.environ"):
            for command in filter(lambda name: commands.has(name, "packaged"), commands.COMMANDS):
                installed.begin(command)
            for command in installed.NEED_SOURCES:
                with self.assertRaisesRegex(LaunchError, f"`launch/offramp {command}`"):
                    installed.begin(command)

    def test_a_run_without_a_model_is_the_demo(self):
        for words, is_demo in (
            ((), True),
            (("--output", "X", "--overwrite"), True),
            (("--model", "m.pt2"), False),
            (("--input=x",), False),
        ):
            self.assertEqual(is_demo, installed.is_demo(words), words)

    def test_messages_name_the_command_as_it_is_typed(self):
        stream = Stream()
        with INSTALLED:
            Guarded(stream).write("see ./launch/offramp help, in a checkout launch/offramp help\n")
            Guarded(stream).write("'../launch/offramp' and './launch/offramp_launch' are paths\n")
        self.assertEqual(
            "see offramp help, in a checkout launch/offramp help\n"
            "'../launch/offramp' and './launch/offramp_launch' are paths\n",
            stream.text,
        )

    @unittest.skipUnless(importlib.util.find_spec("rich"), "this Python has no Rich")
    def test_terminals_that_are_drawn_name_the_command_as_it_is_typed(self):
        from rich.console import Console

        from offramp_launch.watching.drawing import draw

        for patched, command in ((INSTALLED, "offramp"), (contextlib.nullcontext(), places.here().command)):
            screen = io.StringIO()
            with patched:
                display = LiveDisplay("images", Console(file=screen, width=400))
                display.note("[./launch/offramp stop]")
                display.close()
                last = draw(DOCUMENTS["grouped"], Rates(), 400, 40)[-1].plain
                note = draw(DOCUMENTS["grouped"], Rates(), 400, 40, ("./launch/offramp scale", True))[-1].plain
            self.assertIn(f"[{command} stop]", screen.getvalue())
            self.assertIn(f" {command} scale NAME=N", last)
            self.assertEqual(f"{command} scale", note.strip())

    def test_reports_name_the_command_as_it_is_typed_in_any_folder(self):
        of_checkout = f"{places.here().root}/launch/offramp"
        for patched, command in ((INSTALLED, "offramp"), (contextlib.nullcontext(), of_checkout)):
            with patched:
                logbook = Logbook(None, unittest.mock.Mock())
                logbook.note("Run ./launch/offramp doctor")
                error = UsageError("refused", "Run ./launch/offramp doctor")
                reports = {
                    "a launcher's failure": failure_of(error.code, error, {}, None, None, None),
                    "a producer's failure": failure_of(65, None, {"failure": error.fix}, None, None, None),
                    "the page's error": error.in_one_line(),
                    "the log": logbook.record()["log"][0],
                    "settings": to_toml({}, title=error.fix).splitlines()[0],
                }
                fault = faults({"status": {"dead_lettered_samples": 2}})[0][1]
                facts = producer_rows({"status": {"workers": [{"name": "GPU 0", "run_dir": "/run"}]}})[0]["facts"]
            for name, text in reports.items():
                self.assertTrue(text.endswith(f"Run {command} doctor"), (name, text))
            self.assertTrue(fault.endswith(f": {command} dead-letters list"), fault)
            self.assertEqual(f"{command} top /run", dict(facts)["look closer"])

    def test_a_checkouts_command_works_in_the_current_folder(self):
        root = places.here().root
        for folder, command in ((root, "./launch/offramp"), ("/", f"{root}/launch/offramp")):
            with unittest.mock.patch("os.getcwd", return_value=str(folder)):
                self.assertEqual(command, places.here().command)
        with unittest.mock.patch("os.getcwd", return_value=str(root)):  # for a file, which may be read elsewhere
            message = in_one_line(dead_letters_failure(1, pathlib.Path("/run")))
        for words in ("Inspect them: %s list", "Fix the processor, then: %s retry --all"):
            self.assertIn(f"{words % f'{root}/launch/offramp dead-letters'} --run-dir /run", message)

    def test_generated_files_go_to_the_users_folders(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict("os.environ", clear=True):
            for environment, where in (
                ({"HOME": folder}, f"{folder}/.local/state/offramp"),
                ({"XDG_STATE_HOME": f"{folder}/state"}, f"{folder}/state/offramp"),
                ({"OFFRAMP_BUILD_DIR": f"{folder}/own"}, f"{folder}/own"),
            ):
                with unittest.mock.patch.dict("os.environ", environment):
                    found = places.Installed(pathlib.Path(folder))
                    self.assertEqual(
                        (pathlib.Path(where), pathlib.Path(folder, "bin", "offramp-consumer")),
                        (found.build, found.consumer()),
                    )

    def test_the_launcher_of_a_checkout_is_not_installed(self):
        self.assertFalse(places.here().is_installed)
