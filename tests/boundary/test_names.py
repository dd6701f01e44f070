"""
One class per name: two definitions of one name in a program break it without a message of the linker. Short names of
tests. Twins: a second definition and a long name are found.
"""

import collections
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 70  # characters of a test's name
TEST = re.compile(r"\bTEST(?:_F|_P)?\((\w+), *(\w+)\)|^ +def (test_\w+)", re.MULTILINE)
ROOMS = ("common", "producer", "consumer")
PUBLIC = "common/abi/include/"  # its classes are in users' programs, ours are hidden in the library
OPENS = re.compile(r"^namespace ([\w:]+) \{")
DEFINES = re.compile(r"^(?:class|struct|enum class) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: :[^:;{]+.*)? \{")


def definitions(root):
    """Headers by the full names of the classes that they define outside other classes."""
    found = collections.defaultdict(set)
    for room in ROOMS:
        for path in (root / room).rglob("*.hpp"):
            file, namespaces = path.relative_to(root).as_posix(), []
            for line in path.read_text().splitlines() if not file.startswith(PUBLIC) else ():
                if opened := OPENS.match(line):
                    namespaces.append(opened[1])
                elif line.startswith("}  // namespace"):
                    namespaces.pop()
                elif defined := DEFINES.match(line):
                    found["::".join((*namespaces, defined[1]))].add(file)
    return found


def repeated(root):
    return {name: sorted(files) for name, files in definitions(root).items() if len(files) > 1}


class ClassNames(unittest.TestCase):
    def test_every_class_has_one_definition(self):
        self.assertGreater(len(definitions(ROOT)), 300)
        self.assertEqual({}, repeated(ROOT))

    def test_a_second_definition_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for room, base in (("common", ""), ("producer", " final : public Other")):
                pathlib.Path(folder, room).mkdir()
                text = f"namespace offramp {{\nclass Lock{base} {{\n}};\nstruct Lock{room} {{\n}};\n}}  // namespace offramp\n"
                pathlib.Path(folder, room, "lock.hpp").write_text(text)
            self.assertEqual(
                {"offramp::Lock": ["common/lock.hpp", "producer/lock.hpp"]}, repeated(pathlib.Path(folder))
            )


def long_names(text):
    names = (f"{suite}.{case}" if case else function for suite, case, function in TEST.findall(text))
    return [name for name in names if len(name) > LONGEST]


class TestNames(unittest.TestCase):
    def test_names_of_tests_are_short(self):
        sources = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".cpp")]
        self.assertEqual([], [name for path in sources for name in long_names(path.read_text(encoding="utf-8"))])

    def test_a_long_name_is_found(self):
        long = "x" * LONGEST
        text = f"TEST_F(Suite, {long}) {{\nTEST(Suite, Case) {{\n    def test_{long}(self):\n    def test_it(self):\n"
        self.assertEqual([f"Suite.{long}", f"test_{long}"], long_names(text))
