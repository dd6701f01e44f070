"""Twins of check_tidy.py: each kind of finding occurs once in a small project, and the checker must report it."""

import json
import pathlib
import shutil
import tempfile
import unittest

import check_tidy

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = check_tidy.find_tool()
SOUND = "namespace offramp {\nint answer() { return 42; }\n}  // namespace offramp\n"


@unittest.skipIf(TOOL is None, f"needs clang-tidy {check_tidy.OLDEST} or later, as launch/packages-debian.txt names it")
class CheckTidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="offramp-tidy-")
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name).resolve()
        self.build = self.source / "build"
        self.build.mkdir()
        shutil.copy(ROOT / ".clang-tidy", self.source / ".clang-tidy")

    def found(self, room="common/room", together=False, **files):
        """Findings in files of a room that the build compiles separately or, with `together`, as one."""
        folder = self.source / room
        folder.mkdir(parents=True, exist_ok=True)
        commands, compiled = [], []
        for name, text in files.items():
            path = folder / name.replace("_dot_", ".")
            path.write_text(text)
            if path.suffix == ".cpp":
                compiled.append(path)
        if together:
            unity = self.build / room / "CMakeFiles/room.dir/Unity/unity_0_cxx.cxx"
            unity.parent.mkdir(parents=True)
            unity.write_text("".join(f'#include "{path}"\n\n' for path in compiled))
            compiled = [unity]
        for path in compiled:
            commands.append(
                {
                    "directory": str(self.build),
                    "file": str(path),
                    "command": f"c++ -I{self.source} -std=c++20 -Werror -o {room}/CMakeFiles/room.dir/{path.name}.o -c {path}",
                }
            )
        (self.build / "compile_commands.json").write_text(json.dumps(commands))
        lines, _ = check_tidy.check(TOOL, self.build, self.source, 1)
        return "\n".join(lines)

    def test_a_sound_room_is_clean(self):
        self.assertEqual("", self.found(one_dot_cpp=SOUND))

    def test_a_name_of_another_form_is_found_in_each_kind_of_file(self):
        wrong = SOUND.replace("answer", "Answer")
        self.assertRegex(
            self.found(one_dot_cpp=SOUND, two_dot_cpp=wrong),
            r"common/room/two\.cpp:2:5: .*'Answer'.*readability-identifier-naming",
        )
        header = '#include "common/room/wrong.hpp"\n'
        found = self.found(one_dot_cpp=header, wrong_dot_hpp=wrong.replace("int", "inline int"))
        self.assertRegex(found, r"common/room/wrong\.hpp:2:12: .*readability-identifier-naming")

    def test_tests_are_read_even_from_unity_builds(self):
        wrong = SOUND.replace("answer", "Answer")
        for together in (False, True):
            found = self.found("tests/unit/room", together, one_dot_cpp=SOUND, two_dot_cpp=wrong)
            self.assertRegex(found, r"tests/unit/room/two\.cpp:2:5: .*'Answer'.*readability-identifier-naming")

    def test_other_checks_are_on(self):
        found = self.found(
            one_dot_cpp="#include <string>\n#include <utility>\nnamespace offramp {\n"
            "std::size_t twice(std::string text) {\n    const std::string moved = std::move(text);\n"
            "    return moved.size() + text.size();\n}\n}  // namespace offramp\n"
        )
        self.assertIn("bugprone-use-after-move", found)

    def test_files_with_the_same_local_name_are_read_apart(self):
        own = "namespace offramp {\nnamespace {\nint own() { return 1; }\n}  // namespace\nint NUMBER() { return own(); }\n}  // namespace offramp\n"
        found = self.found(one_dot_cpp=own.replace("NUMBER", "first"), two_dot_cpp=own.replace("NUMBER", "Second"))
        self.assertIn("'Second'", found)
        self.assertNotIn("clang-diagnostic", found)

    def test_a_local_name_that_another_files_header_declares_is_no_error(self):
        own = "namespace offramp {\nnamespace {\nstruct Form {};\n}  // namespace\nForm form() { return {}; }\n}  // namespace offramp\n"
        header = "#pragma once\nnamespace offramp {\nstruct Form { int size = 0; };\nint Size(Form form);\n}  // namespace offramp\n"
        found = self.found(
            form_dot_hpp=header,
            one_dot_cpp=own,
            two_dot_cpp='#include "common/room/form.hpp"\n' + SOUND.replace("answer", "Third"),
        )
        self.assertIn("'Size'", found)
        self.assertIn("'Third'", found)
        self.assertNotIn("clang-diagnostic", found)

    def test_programs_are_read_together(self):
        program = "int main() { return 0; }\nnamespace offramp {\nint NUMBER() { return 1; }\n}  // namespace offramp\n"
        found = self.found(
            "tests/bench/room",
            one_dot_cpp=program.replace("NUMBER", "First"),
            two_dot_cpp=program.replace("NUMBER", "Second"),
        )
        self.assertIn("'First'", found)
        self.assertIn("'Second'", found)
        self.assertNotIn("clang-diagnostic", found)

    def test_an_unreadable_source_is_a_finding(self):
        self.assertIn(
            "clang-diagnostic-error",
            self.found(one_dot_cpp="namespace offramp {\nint answer() { return nowhere; }\n}\n"),
        )
