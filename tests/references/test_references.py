"""Generated pages are up to date, and the table of exit codes matches C++, Python and C."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

import references
from offramp_launch.exit_code import FATAL_FOR_A_CONSUMER, ExitCode

BINARIES = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"])
ROOT = references.ROOT
RUN = "run references.py"


def constant(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


class Pages(unittest.TestCase):
    @unittest.skipUnless(
        os.environ.get("OFFRAMP_TEST_MODELS") == "1", "this build lacks the producer, whose help is on a page"
    )
    def test_every_page_is_up_to_date(self):
        self.assertEqual([], references.outdated(BINARIES), RUN)

    def test_pages_without_programs_are_up_to_date(self):
        for name, text in (("exit-codes.md", references.exit_codes_page()), ("metrics.md", references.metrics_page())):
            self.assertEqual(text, (references.FOLDER / name).read_text(encoding="utf-8"), RUN)

    @unittest.skipUnless(
        os.environ.get("OFFRAMP_TEST_MODELS") == "1", "this build lacks the producer, whose help is on a page"
    )
    def test_a_changed_page_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = pathlib.Path(folder, "reference")
            shutil.copytree(references.FOLDER, pages)
            for name in ("cli.md", "metrics.md"):
                (pages / name).write_text(
                    (pages / name).read_text(encoding="utf-8").replace("run", "walk", 1), encoding="utf-8"
                )
            (pages / "exit-codes.md").unlink()
            self.assertEqual(["exit-codes.md", "metrics.md", "cli.md"], references.outdated(BINARIES, pages))


class ExitCodes(unittest.TestCase):
    def setUp(self):
        self.codes = {code["name"]: code["number"] for code in references.codes()}

    def test_numbers_and_names_are_unique(self):
        self.assertEqual(len(references.codes()), len(self.codes))
        self.assertEqual(len(self.codes), len(set(self.codes.values())))

    def test_cpp_has_the_same(self):
        found = {}
        for header in ("base/error_kind.hpp", "app/settings/exit_code.hpp"):
            found.update(re.findall(r"^    (\w+) = (\d+),", (ROOT / "common" / header).read_text(), re.MULTILINE))
        self.assertEqual("0", found.pop("None"), "ErrorKind::None is 0")
        self.assertEqual(self.codes, {name: int(number) for name, number in found.items()})

    def test_python_has_the_same(self):
        self.assertEqual(
            {constant(name): number for name, number in self.codes.items()},
            {code.name: code.value for code in ExitCode},
        )

    def test_c_has_the_same(self):
        header = (ROOT / "common/abi/include/offramp.h").read_text()
        listed = header.partition("typedef enum offramp_code {")[2].partition("}")[0]
        found = {name: int(number) for name, number in re.findall(r"OFFRAMP_(\w+) = (\d+)", listed)}
        named = {code.get("c", constant(code["name"])): code["number"] for code in references.codes()}
        self.assertGreater(len(found), 15)
        self.assertEqual(
            {}, {name: number for name, number in found.items() if not 2 <= number < 64 and named.get(name) != number}
        )

    def test_the_launcher_stops_the_run_on_the_same_codes(self):
        stopping = {code["number"] for code in references.codes() if code["consumer"] == "stops the run"}
        self.assertEqual({int(code) for code in FATAL_FOR_A_CONSUMER}, stopping)
