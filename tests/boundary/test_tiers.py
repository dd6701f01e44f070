"""
The quick tests, which run without --all, cover every promise and every row of the failure matrix. All test cases are
run.
"""

import os
import pathlib
import re
import tempfile
import unittest

from check_pages import CITED, CITING

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rows_with_slow_tests_only(page, slow, known):
    """The events of the page's rows without a quick test: a name that ctest knows, or a GoogleTest suite."""
    rows = [line.strip(" |").split("|") for line in page.splitlines() if line.startswith("| ")]
    cited = {row[0].strip(): CITED.findall(row[-1]) for row in rows}
    quick = known - slow
    return [event for event, tests in cited.items() if tests and not any(t in quick or t[:1].isupper() for t in tests)]


def names_of_tests(build):
    """All but those of GoogleTest, which ctest finds out when it runs."""
    files = build.glob("tests/**/CTestTestfile.cmake")
    return {
        name for file in files for name in re.findall(r"^add_test\(\[=\[([\w.]+)\]=\]", file.read_text(), re.MULTILINE)
    }


class Tiers(unittest.TestCase):
    def test_every_promise_and_failure_has_a_quick_test(self):
        build = pathlib.Path(os.environ["OFFRAMP_BUILD"])
        slow, known = set((build / "slow_tests.txt").read_text().split()), names_of_tests(build)
        self.assertLessEqual({"boundary.tidy", *slow}, known)
        for page in CITING:
            with self.subTest(page):
                self.assertEqual([], rows_with_slow_tests_only((ROOT / page).read_text(), slow, known))

    def test_a_row_with_slow_tests_only_is_found(self):
        page = "| event | test |\n| --- | --- |\n| dies | `e.tiles`, `Suite` |\n| stops | `e.tiles`, `e.gone` |\n"
        self.assertEqual(["stops"], rows_with_slow_tests_only(page, {"e.tiles"}, {"e.tiles", "e.other"}))
        self.assertEqual([], rows_with_slow_tests_only(page, {"e.tiles"}, {"e.tiles", "e.gone"}))


def modules_and_classes(build):
    """
    (module's path below the sources, class or "" for all of it) of each unittest command that ctest knows in this build
    folder.
    """
    for file in build.glob("tests/**/CTestTestfile.cmake"):
        for command in re.findall(r'^add_test\(.*"unittest"(.*)\)$', file.read_text(), re.MULTILINE):
            for word in re.findall(r'"([\w.]+)"', command):
                folder, module, rest = re.fullmatch(r"((?:\w+\.)*?)(test_\w+)\.?(\w*).*", word).groups()
                folder = folder.replace(".", "/") or f"{file.parent.relative_to(build)}/"
                yield f"{folder}{module}.py", rest


def classes_not_run(source, build):
    """Classes of test cases in modules of which ctest runs other classes only, and modules of which it runs none."""
    run = set(modules_and_classes(build))
    missing = []
    for path in sorted(source.glob("tests/**/test_*.py")):
        name = path.relative_to(source).as_posix()
        classes = re.findall(r"^class (\w+)\(.+\):(?:\n(?:    .*)?)*?\n    def test_", path.read_text(), re.MULTILINE)
        missing += [f"{name}: {each}" for each in classes if (name, "") not in run and (name, each) not in run]
    return missing


class AllAreRun(unittest.TestCase):
    def test_every_class_of_test_cases_is_run(self):
        build = pathlib.Path(os.environ["OFFRAMP_BUILD"])
        self.assertGreater(len(set(modules_and_classes(build))), 100)
        self.assertEqual([], classes_not_run(ROOT, build))

    def test_a_class_that_is_not_run_is_found(self):
        case = "class {}(unittest.TestCase):\n    def test_it(self):\n        pass\n\n\n"
        with tempfile.TemporaryDirectory() as folder:
            tests = pathlib.Path(folder, "tests/room")
            tests.mkdir(parents=True)
            (tests / "test_part.py").write_text(case.format("One") + case.format("Two"))
            for words, missing in (
                ('"test_part"', []),
                ('"tests.room.test_part.One" "tests.room.test_part.Two"', []),
                ('"test_part.One"', ["tests/room/test_part.py: Two"]),
            ):
                (tests / "CTestTestfile.cmake").write_text(
                    f'add_test(room.part "python3" "-m" "unittest" "-v" {words})\n'
                )
                self.assertEqual(missing, classes_not_run(pathlib.Path(folder), pathlib.Path(folder)))
