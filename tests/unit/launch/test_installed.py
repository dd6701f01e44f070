"""The command of the installed package: its checks of the machine and its folders."""

import pathlib
import tempfile
import unittest
import unittest.mock

from offramp_launch import commands, installed, places
from offramp_launch.exit_code import LaunchError
from offramp_launch.failure import dead_letters_failure
from offramp_launch.screen import Guarded


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
        Guarded(stream, "offramp").write("see ./launch/offramp help, in a checkout launch/offramp help\n")
        self.assertEqual("see offramp help, in a checkout launch/offramp help\n", stream.text)

    def test_reports_name_the_command_as_it_is_typed(self):
        with unittest.mock.patch("offramp_launch.places.here", lambda: places.Installed(pathlib.Path("/nowhere"))):
            self.assertIn(" offramp dead-letters list --run-dir /run", dead_letters_failure(1, pathlib.Path("/run")))

    def test_a_checkouts_command_works_in_the_current_folder(self):
        root = places.here().root
        for folder, command in ((root, "./launch/offramp"), ("/", f"{root}/launch/offramp")):
            with unittest.mock.patch("os.getcwd", return_value=str(folder)):
                self.assertEqual(command, places.here().command)
        with unittest.mock.patch("os.getcwd", return_value=str(root)):  # for a file, which may be read elsewhere
            message = dead_letters_failure(1, pathlib.Path("/run"))
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
