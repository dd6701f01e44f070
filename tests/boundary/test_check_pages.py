"""
Twins of the checks of pages: each breaks a rule once in a small repository. The repository itself keeps all rules.
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DECISION = "# A title\n\n**Decision.** This.\n\n**Why.** A reason.\n\n**Forbids** that.\n"
INDEX = "# Design\n\n[A title](decisions/a-title.md)\n"
MATRIX = "# Failures\n\n| event | test |\n| --- | --- |\n| `gone.word` dies | `Suite`, `Suite.Case`, `system.ends`, `launch.test_run`, `crash.matrix` |\n"


def check(source, *checks):
    """Exit status and standard error of the checker."""
    done = subprocess.run(
        [sys.executable, HERE / "check_pages.py", "--source", source, *checks], capture_output=True, text=True
    )
    return done.returncode, done.stderr


class Repository(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="offramp-pages-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def assert_clean(self, *checks):
        self.assertEqual((0, ""), check(self.folder, *checks))

    def assert_faulty(self, rule, *words):
        status, printed = check(self.folder, rule)
        self.assertEqual(1, status, printed)
        self.assertNotIn("Traceback", printed)
        for word in words:
            self.assertIn(word, printed)


class Links(Repository):
    def test_a_link_to_a_page_a_folder_and_a_heading_is_right(self):
        self.write("room/other.md", "# The Other, page\n")
        self.write(
            "room/README.md",
            "[a](other.md) [b](../room) [c](other.md#the-other-page) [`d`](other.md) [e](https://host/x.md) `room/other.md` `x.md`\n"
            "```\n[not](a-link.md)\n```\n`[nor](this.md)`\n",
        )
        self.assert_clean("links")

    def test_a_link_to_nothing_is_found(self):
        for text in ("[a](gone.md)", "[`a`](gone.md)", "![a](gone.png)", "| cell | [a](../gone/README.md) |"):
            with self.subTest(text):
                self.write("room/README.md", f"# room\n\n{text}\n")
                self.assert_faulty("links", "room/README.md:3", "leads to nothing")

    def test_a_link_to_a_heading_that_is_not_there_is_found(self):
        self.write("room/README.md", "# room\n\n[a](#elsewhere)\n")
        self.assert_faulty("links", "no heading")

    def test_a_page_that_is_named_and_not_there_is_found(self):
        self.write("room/README.md", "See `common/gone.md`.\n")
        self.assert_faulty("links", "missing: common/gone.md")

    def test_a_path_of_a_room_that_is_there_may_be_named(self):
        self.write("common/room/part.hpp", "// part\n")
        self.write(
            "common/README.md",
            "`common/room/` `common/room/part.hpp` `common/room/part` `cat common/room/part.hpp`\n"
            "`common/*.hpp` `common/room/NAME.hpp` `common/<room>` `room/gone.hpp`\n"
            "```\n`common/gone`\n```\n",
        )
        self.assert_clean("links")

    def test_a_path_of_a_room_that_is_named_and_not_there_is_found(self):
        self.write("common/room/part.hpp", "// part\n")
        for path in (
            "common/gone",
            "common/room/gone.hpp",
            "common/room/par",
            "consumer/gone/",
            "producer/gone",
            "launch/gone",
            "tests/gone.py",
        ):
            for text in (f"See `{path}`.", f"| `cat {path} {path}` | |"):
                with self.subTest(text):
                    self.write("common/README.md", f"# common\n\n{text}\n")
                    self.assert_faulty("links", f"common/README.md:3: missing: {path}")

    def test_build_folders_are_ignored(self):
        self.write("README.md", "# Title\n")
        self.write("build/page.md", "[a](gone.md)\n")
        self.assert_clean("links")

    def test_nothing_to_look_at_is_a_fault(self):
        self.assert_faulty("links", "no pages")


class Mentions(Repository):
    def test_a_page_that_is_there_may_be_mentioned(self):
        self.write("room/README.md", "# room\n")
        self.write("room/part.hpp", "// room/README.md has the order.\n")
        self.write("room/part.py", 'path = f"{folder}/written.md"\n')
        self.assert_clean("mentions")

    def test_a_page_that_is_not_there_is_found_in_comments_and_messages(self):
        for name, text in (
            ("room/part.hpp", "// room/gone.md has the order."),
            ("room/part.py", 'raise Error("room/gone.md lists them")'),
            ("help/run.txt", "Exit codes: room/gone.md."),
        ):
            with self.subTest(name):
                self.write(name, text + "\n")
                self.assert_faulty("mentions", f"{name}:1: missing: room/gone.md")

    def test_a_missing_source_is_found_outside_tests(self):
        self.write("common/part.hpp", "// common/part.hpp has it.\n")
        self.write("tests/test_part.py", 'write("common/gone.hpp")\n')
        self.assert_clean("mentions")
        self.write("launch/part.py", '"""As common/gone.hpp says."""\n')
        self.assert_faulty("mentions", "launch/part.py:1: missing: common/gone.hpp")

    def test_nothing_to_look_at_is_a_fault(self):
        self.assert_faulty("mentions", "no source files")


class Lengths(Repository):
    def test_pages_within_their_limits_are_right(self):
        self.write("room/README.md", "# room\n" + "a" * 100 + "\n" + "| " + "b" * 96 + " |\n" + "\n" * 12)
        self.write("tests/README.md", "# tests\n" + "\n" * 59)
        self.write("room/page.md", "line\n" * 200)
        self.write("README.md", "line\n" * 200)
        self.assert_clean("lengths")

    def test_a_table_of_a_page_that_is_not_a_readme_may_be_wider(self):
        self.write("room/page.md", "# page\n\n| " + "b" * 300 + " |\n")
        self.assert_clean("lengths")

    def test_a_generated_page_may_be_wider(self):
        self.write("room/page.md", "# Title\n\nGenerated by `script.py`.\n\n" + "a" * 101 + "\n")
        self.assert_clean("lengths")

    def test_a_wide_row_of_a_readmes_table_is_found(self):
        for name in ("room/README.md", "README.md"):
            with self.subTest(name):
                self.write(name, "# room\n\n| " + "b" * 97 + " |\n")
                self.assert_faulty("lengths", f"{name}:3: 101 columns")

    def test_a_longer_readme_is_found(self):
        self.write("room/README.md", "# room\n" + "\n" * 15)
        self.write("tests/README.md", "# tests\n" + "\n" * 60)
        self.assert_faulty(
            "lengths", "room/README.md: 16 lines, more than 15", "tests/README.md: 61 lines, more than 60"
        )

    def test_a_longer_line_is_found_on_any_page(self):
        for name in ("room/README.md", "room/page.md", "README.md", "CHANGELOG.md"):
            with self.subTest(name):
                self.write(name, "# room\n\n" + "a" * 101 + "\n")
                self.assert_faulty("lengths", f"{name}:3: 101 columns")

    def test_nothing_to_look_at_is_a_fault(self):
        self.assert_faulty("lengths", "no pages")


class Commands(Repository):
    def setUp(self):
        super().setUp()
        self.write("launch/guide/reference/cli.md", "# Commands\n\n## run\n\n```\n--input PATH\n```\n")
        self.write("tests/tool.py", 'parser.add_argument("--rounds")\n')

    def test_known_commands_and_flags_are_right(self):
        self.write(
            "page.md",
            "`offramp run --input A`, `--rounds`, `git log --gone`, `offramp COMMAND`, `--collector.path`\n```\n./launch/offramp run --input A  # --gone\nls --gone\n```\n",
        )
        self.assert_clean("commands")

    def test_an_unknown_flag_or_command_is_found(self):
        for text, word in (
            ("`--gone`", "--gone"),
            ("`offramp run --gone`", "--gone"),
            ("`offramp walk`", "'walk'"),
            ("```\n./launch/offramp run --gone\n```", "--gone"),
        ):
            with self.subTest(text):
                self.write("page.md", f"{text}\n")
                self.assert_faulty("commands", "page.md", word)

    def test_nothing_to_look_at_is_a_fault(self):
        (self.folder / "launch/guide/reference/cli.md").unlink()
        self.assert_faulty("commands", "no commands")


class Rooms(Repository):
    def setUp(self):
        super().setUp()
        self.write("common/base/error.hpp", "")
        self.write("producer/runner/run/run.hpp", "")
        self.write(
            "common/design/rooms.md",
            "| `common/base/` | a |\n| `producer/runner/` | b |\n| `producer/runner/run/` | c |\n",
        )

    def test_a_row_for_each_folder_is_right(self):
        self.assert_clean("rooms")

    def test_a_folder_without_a_row_and_a_row_without_a_folder_are_found(self):
        self.write("consumer/sinks/sink.hpp", "")
        shutil.rmtree(self.folder / "common/base")
        self.assert_faulty("rooms", "no row for consumer/sinks/", "common/base/, which is not a folder")

    def test_a_second_row_is_found(self):
        self.write("common/design/rooms.md", "| `common/base/` | a |\n" * 2)
        self.assert_faulty("rooms", "2 rows for common/base/")

    def test_nothing_to_look_at_is_a_fault(self):
        shutil.rmtree(self.folder / "common")
        shutil.rmtree(self.folder / "producer")
        self.assert_faulty("rooms", "no folders")


class Decisions(Repository):
    def setUp(self):
        super().setUp()
        self.write("common/design/README.md", INDEX)
        self.write("common/design/decisions/a-title.md", DECISION)

    def test_a_page_in_the_index_is_right(self):
        self.assert_clean("decisions")

    def test_each_fault_is_found(self):
        page = "decisions/a-title.md"
        for name, text, fault in (
            (page, DECISION.replace("**Decision.**", "Choice."), "has no '**Decision.**'"),
            (page, DECISION.replace("**Forbids**", "Not"), "has no '**Forbids**'"),
            ("README.md", "# Design\n", "0 times"),
            ("README.md", INDEX + INDEX, "2 times"),
            (page, DECISION + "word " * 200, "210 words, more than 200"),
        ):
            with self.subTest(fault):
                before = INDEX if name == "README.md" else DECISION
                self.write(f"common/design/{name}", text)
                self.assert_faulty("decisions", fault)
                self.write(f"common/design/{name}", before)

    def test_nothing_to_look_at_is_a_fault(self):
        shutil.rmtree(self.folder / "common")
        self.assert_faulty("decisions", "no decisions")


class Citations(Repository):
    def setUp(self):
        super().setUp()
        self.write("common/design/failure-matrix.md", MATRIX)
        self.write("common/design/promises.md", MATRIX.replace("| event", "| promise"))
        self.write("tests/unit/room/part_test.cpp", "TEST_F(Suite, Case) {}\n")
        self.write("tests/system/test_ends.py", "")
        self.write("tests/unit/launch/test_run.py", "")
        self.write("tests/crash/CMakeLists.txt", "add_test(NAME crash.matrix COMMAND x)\n")

    def test_tests_that_exist_may_be_cited(self):
        self.assert_clean("citations")

    def test_each_test_that_does_not_exist_is_found(self):
        for name, other in (
            ("`Suite`", "`Suit`"),
            ("Suite.Case", "Suite.Other"),
            ("system.ends", "system.gone"),
            ("launch.test_run", "launch.test_gone"),
            ("crash.matrix", "crash.mat"),
            ("system.ends", "gone.ends"),
        ):
            with self.subTest(other):
                self.write("common/design/failure-matrix.md", MATRIX.replace(name, other))
                self.assert_faulty("citations", f"failure-matrix.md:5: missing: test {other.strip('`')}")
                self.write("common/design/failure-matrix.md", MATRIX)
                self.write("common/design/promises.md", MATRIX.replace(name, other))
                self.assert_faulty("citations", f"promises.md:5: missing: test {other.strip('`')}")
                self.write("common/design/promises.md", MATRIX)

    def test_a_test_that_another_page_cites_exists(self):
        self.write("room/README.md", "# room\n\n`launch.test_run` `test_x.py` `a_test.cpp`\n")
        self.assert_clean("citations")
        for name in ("launch.test_gone", "GoneTest", "GoneTest.Case"):
            with self.subTest(name):
                self.write("room/README.md", f"# room\n\nSee `{name}`.\n")
                self.assert_faulty("citations", f"room/README.md:3: missing: test {name}")

    def test_a_row_without_a_test_is_a_fault(self):
        for page in ("failure-matrix.md", "promises.md"):
            with self.subTest(page):
                self.write(f"common/design/{page}", MATRIX + "| `Suite` | none |\n")
                self.assert_faulty("citations", f"{page}:6: cites no test")
                self.write(f"common/design/{page}", MATRIX)

    def test_nothing_to_look_at_is_a_fault(self):
        for page in ("failure-matrix.md", "promises.md"):
            with self.subTest(page):
                self.write(f"common/design/{page}", "# Failures\n")
                self.assert_faulty("citations", f"no cited tests in common/design/{page}")
                self.write(f"common/design/{page}", MATRIX)


class Answers(Repository):
    def setUp(self):
        super().setUp()
        self.write(
            "room/part.cpp",
            "#include <x>\n\nconst Slab& Part::wait(int patience) {\n    stop();\n    return give(1);\n}\n\n"
            "Part::Part(int size) : size_(size) {}\n",
        )
        self.write("room/part.hpp", "class Part {\n  public:\n    void stop(int why);\n};\n")

    def ask(self, *answers):
        self.write(
            "room/map.md",
            "# Title\n\n"
            + "".join(f"| find where it is | {answer} |\n" for answer in answers)
            + "| find a room | `room/` |\n",
        )

    def test_a_function_that_its_file_has_is_right(self):
        self.ask("`wait()` in `room/part.cpp`", "`Part()` in `room/part.cpp`, `stop()` in `room/part.hpp`")
        self.assert_clean("answers")

    def test_each_fault_is_found(self):
        for answer, fault in (
            ("`room/part.cpp`", "names no `function()`"),
            ("`wait()` in `room/gone.cpp`", "missing: room/gone.cpp"),
            ("`gone()` in `room/part.cpp`", "room/part.cpp has no gone()"),
            ("`stop()` in `room/part.cpp`", "has no stop()"),
            ("`give()` in `room/part.cpp`", "has no give()"),
            ("`wait()` in `room/part.cpp`, `go()` in `room/part.hpp`", "has no go()"),
        ):
            with self.subTest(answer):
                self.ask(answer)
                self.assert_faulty("answers", "room/map.md:3", fault)


class TheRepository(unittest.TestCase):
    def test_its_pages_lead_somewhere_and_are_short_enough_to_be_read(self):
        self.assertEqual(
            (0, ""),
            check(ROOT, "links", "mentions", "lengths", "rooms", "decisions", "citations", "answers", "commands"),
        )
