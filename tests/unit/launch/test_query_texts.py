"""The texts that `query` shows, and its errors for other input: one line with a remedy."""

import importlib.util
import types

from stage import InFolder

from offramp_launch.exit_code import ExitCode, LaunchError
from searcher import command, texts

ROWS = '{"id": 7, "text": "slab", "year": 1990}\n{"id": "b", "text": "lease", "year": 1991}\n'


class QueryTexts(InFolder):
    def look_up(self, name, has_ids, text_column="text", **of_row):
        wish = types.SimpleNamespace(input=str(self.folder / name), id_column="id", text_column=text_column)
        rows = [types.SimpleNamespace(**{"item": 1, "id": "b", "chunk": None, **of_row})]
        return command.texts_of(wish, texts, types.SimpleNamespace(has_ids=has_ids), rows)

    def refusal(self, *arguments):
        with self.assertRaises(LaunchError) as refused:
            self.look_up(*arguments)
        return refused.exception

    def parquet(self):
        if importlib.util.find_spec("pyarrow") is None:
            self.skipTest("needs pyarrow")
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(
            pyarrow.table({"id": ["a", "b"], "text": ["slab", "lease"], "year": [1990, 1991]}),
            self.folder / "rows.parquet",
        )

    def test_lines_are_found_by_number(self):
        (self.folder / "lines").write_text('slab\n{"a": 1}\n')
        self.assertEqual(self.look_up("lines", False), ['{"a": 1}'])

    def test_chunks_are_found_by_the_line_in_their_key(self):
        (self.folder / "lines").write_text("slab\nlease\n")
        self.assertEqual(self.look_up("lines", False, item=7, key="0", chunk=3), ["slab"])
        with self.assertRaisesRegex(LaunchError, "have the text 'paper'"):
            self.look_up("lines", False, item=7, key="paper", chunk=0)
        (self.folder / "lines").write_text('{"text": "of a log"}\n{"text": "lease"}\n')
        self.assertEqual(self.look_up("lines", False), ['{"text": "lease"}'])

    def test_a_table_needs_ids(self):
        (self.folder / "rows.jsonl").write_text("\ufeff\n" + ROWS)
        self.parquet()
        for name in ("rows.jsonl", "rows.parquet"):
            with self.subTest(name):
                self.assertEqual(self.look_up(name, True), ["lease"])
                refused = self.refusal(name, False)
                self.assertEqual(refused.code, ExitCode.USAGE)
                for word in (name, "without ids (--vector-columns none)", "Leave --input out"):
                    self.assertIn(word, str(refused))

    def test_a_text_column_of_numbers_is_refused_with_its_line(self):
        (self.folder / "rows.jsonl").write_text(ROWS)
        self.parquet()
        for name, place in (("rows.jsonl", "line 1"), ("rows.parquet", "row 1")):
            with self.subTest(name):
                refused = self.refusal(name, True, "year")
                self.assertEqual(refused.code, ExitCode.BAD_INPUT)
                for word in (name, place, '"year" is not a text: 1990', "--text-column"):
                    self.assertIn(word, str(refused))
