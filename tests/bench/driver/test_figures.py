"""The READMEs' figures are those that were measured; and the check that says so finds what is not."""

import json
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import check_figures
import figures
import gpu_figures
import revision_figures
from check_figures import Figure, Source, blocks, check

SOURCES = (Source("| ours", (Figure("10.76", 10.7642), Figure("0.990", 0.99046), Figure("1.013", 1.01312))), Source("Faults:", (Figure("344,000", 344218, 1000),)))
TEXT = """# Title

What 99 figures stand here is nobody's affair.

## Measured

| what | rate |
|---|---|
| ours, bf16 on an H200 with `--slabs 64` | 10.76 batches/s [0.990, 1.013] |

Faults: 344,000
a batch.

```
echo 5
```

## Next

And 7 more.
"""


class CheckedText(unittest.TestCase):
    def wrong(self, text=TEXT, sources=SOURCES):
        return check("README.md", text, ("Measured",), sources)

    def test_figures_as_they_were_measured_are_right(self):
        self.assertEqual([], self.wrong())

    def test_a_changed_figure_is_wrong(self):
        self.assertIn("10.77", "".join(self.wrong(TEXT.replace("10.76", "10.77"))))

    def test_a_figure_rounded_the_other_way_is_wrong(self):
        sources = (Source("| ours", (Figure("10.76", 10.7642), Figure("0.991", 0.99046), Figure("1.013", 1.01312))), SOURCES[1])
        self.assertIn("0.991 is 0.99046", "".join(self.wrong(TEXT.replace("0.990", "0.991"), sources)))

    def test_a_figure_of_which_nothing_was_measured_is_wrong(self):
        self.assertIn("README.md:9", "".join(self.wrong(TEXT.replace("1.013] |", "1.013], 3.5 times as fast |"))))
        self.assertIn("no source says where its figures come from: 42", "".join(self.wrong(TEXT.replace("a batch.", "a batch.\n\nAlso 42 of them."))))

    def test_a_source_whose_text_is_gone_is_wrong(self):
        self.assertIn("nothing begins with 'Faults:'", "".join(self.wrong(TEXT.replace("Faults:", "Errors:"))))

    def test_names_code_and_other_sections_are_no_figures(self):
        self.assertEqual([[], [], ["10.76", "0.990", "1.013"], ["344,000"]], [block.figures() for block in blocks(TEXT, ("Measured",))])

    def test_signs_dates_and_ranges(self):
        self.assertEqual(["−0.3", "+58", "2026-11-21", "64", "512", "2", "0.16", "0.35"],
                         check_figures.Block(1, "−0.3 % of +58, 2026-11-21: 64×512 more than 2×, 0.16 to 0.35 (W10, x86-64)").figures())


class SeveralGpus(unittest.TestCase):
    SAVED = {"producers": 2, "machine": {"device": "A GPU"}, "parts": {"a": {
        "sets": {name: {"samples_per_second": {"median": rate}, "gigabytes_per_second": {"median": rate / 50}} for name, rate in (("all", 2700), ("one", 1380))},
        "ratios": {"all over one": {"median": 1.957, "low": 1.95, "high": 1.962}}, "targets": [{"what": "all over one", "wanted": 1.95}]},
        "d": {"left_out": "one node"}}}
    LINE = "| 2 × A GPU | W2, all GPUs over one | 2700 samples/s (54 GB/s) over 1380 samples/s (27.6 GB/s) | 1.957 [1.950, 1.962] | 1.95 |"

    def test_the_table_has_a_line_of_each_part_that_was_measured(self):
        self.assertEqual([self.LINE], gpu_figures.rows_of(self.SAVED))

    def test_the_page_has_what_was_measured_and_nothing_else(self):
        measured = {"gpus-made": self.SAVED, "bench-h200": {}}
        self.assertEqual([], gpu_figures.check(measured, f"text\n{self.LINE}\n"))
        self.assertIn("lacks what was measured", "".join(gpu_figures.check(measured, "text")))
        self.assertIn("nothing that was measured says so", "".join(gpu_figures.check(measured, f"{self.LINE}\n{self.LINE.replace('1.957', '1.967')}")))


class OneRevision(unittest.TestCase):
    ROW = {"row": "W6", "kind": "contest", "unit": "batches", "batch": 64, "ours": "ours", "revision": "abc", "device": "A GPU", "started_as": {"ours": {"readers": 12}},
           "contestants": {name: {"rate": {"median": rate}, "bytes_per_batch": {"median": 1.41e9}} for name, rate in (("ours", 38.4), ("copy ceiling", 39.25), ("article 4-pinned", 30.0))},
           "ratios_of": {"ours": {name: {"median": ratio, "low": ratio - 0.01, "high": ratio + 0.01} for name, ratio in (("copy ceiling", 0.978), ("article 4-pinned", 1.28))}}}
    LINE = "| W6 | no model: the link; every byte read | 38.4 batches/s, 54.1 GB/s | copy ceiling 39.2 | 0.978 [0.968, 0.988] | 1.28× [1.27, 1.29] | all of it | `abc` |"

    # On two cores, 160 ms of them a batch in each of three parts: 4.17 batches/s are allowed.
    CPU_ROW = {"row": "W10-cut-out", "unit": "batches", "batch": 16, "ours": "ours", "revision": "abc", "device": "no GPU",
               "contestants": {name: {"rate": {"median": rate}, "producer_cpu_ms_per_batch": {"median": 160}, "readers_cpu_ms_per_batch": {"median": 0},
                                      "producer_faults_per_batch": {"median": faults}, "readers_faults_per_batch": {"median": faults}}
                               for name, rate, faults in (("ours", 5, 0.138), ("model alone", 12.5, 0), ("decode limit", 12, 0), ("encode limit", 11.5, 0), ("plain PyTorch", 2, 20_400))},
               "ratios_of": {"ours": {name: {"median": ratio, "low": ratio - 0.01, "high": ratio + 0.01} for name, ratio in (("encode limit", 0.43), ("plain PyTorch", 2.5))}}}
    WITHOUT_GPU = {"machine": {"cores": 2}, "build": {"revision": "abc"}, "rows": [CPU_ROW]}
    CPU_LINE = ("| W10-cut-out | rendered JPEG pictures in, masks and cut-outs out as PNG | 80.0 images/s | encode limit 184 | 0.430 [0.420, 0.440] | 66.7; 1.20 | "
                "2.50× [2.49, 2.51] | 0.14, 0.14; 20,400, 20,400 | `abc` |")

    def test_without_a_gpu_what_the_cores_allow_and_page_faults_are_told(self):
        self.assertEqual([self.CPU_LINE], revision_figures.files_table(self.WITHOUT_GPU)[2:])

    def test_page_faults_of_lines_are_those_of_a_batch_of_them(self):
        lines = {**self.CPU_ROW, "row": "W11-sqlite", "unit": "lines", "batch": 1, "started_as": {name: {"flags": {"batch": 16}} for name in ("ours", "sentence-transformers")},
                 "contestants": {name: {"rate": {"median": 100}, "producer_cpu_ms_per_batch": {"median": 5}, "readers_cpu_ms_per_batch": {"median": 0},
                                        "producer_faults_per_batch": {"median": 0.13}, "readers_faults_per_batch": {"median": 0}}
                                 for name in ("ours", "sentence-transformers", "model alone", "tokenizer alone", "executemany from a file")},
                 "ratios_of": {"ours": {name: {"median": 1, "low": 1, "high": 1} for name in ("model alone", "sentence-transformers")}}}
        (line,) = revision_figures.files_table({**self.WITHOUT_GPU, "rows": [lines]})[2:]
        self.assertIn("| 100 lines/s | model alone 100 | 1.000 [1.000, 1.000] | no less | 1.00× [1.00, 1.00] | 2.1, 0; 2.1, 0 |", line)

    def test_of_several_limits_the_slowest_is_told(self):
        files = {**self.ROW, "row": "W10-cut-out", "batch": 64, "started_as": {"ours": {"readers": 12}},
                 "contestants": {name: {"rate": {"median": rate}} for name, rate in
                                 (("ours", 30), ("model alone", 700), ("decode limit", 35), ("encode limit", 40), ("plain PyTorch", 6))},
                 "ratios_of": {"ours": {name: {"median": over, "low": over, "high": over} for name, over in (("decode limit", 0.875), ("encode limit", 0.75), ("plain PyTorch", 5))}}}
        (line,) = revision_figures.table({"rows": [files]})[2:]
        self.assertIn("| 1,920 images/s | decode limit 2,240 | 0.875 [0.875, 0.875] | 5.00× [5.00, 5.00] | – |", line)

    def test_of_several_peers_each_is_told(self):
        rungs = {**self.ROW, "row": "W1-rungs-0-1",
                 "ratios_of": {"ours": {name: {"median": over, "low": over - 1, "high": over + 1} for name, over in (("article 0", 25.4), ("article 1", 15.4))}}}
        (line,) = revision_figures.table({"rows": [rungs]})[2:]
        self.assertIn("| 38.4 batches/s, 54.1 GB/s | – | – | 25.4× [24.4, 26.4]; 15.4× [14.4, 16.4] | – |", line)

    @staticmethod
    def whole(row, seconds=2, revision="abc"):
        """As bench.py tells it."""
        return {"machine": {"device": "A GPU", "probe": {}}, "build": {"revision": revision}, "pace": {"windows": 4, "seconds": seconds},
                "rows": [{"row": row, "kind": "start", "failure": "", "left_out": "", "contestants": {}}]}

    def test_rows_of_one_revision_come_together(self):
        saved = revision_figures.merged({"rows": []}, [self.whole("W1-host-write"), self.whole("W6")])
        again = revision_figures.merged({"rows": list(saved["rows"].values())},
                                        [self.whole("W1-host-write", seconds=7), self.whole("W6", seconds=3), self.whole("W2-host")])
        self.assertEqual({"W1-host-write": 2, "W6": 3, "W2-host": 2, "W1-host-write, windows of 7 s": 7},
                         {name: row["seconds_of_a_window"] for name, row in again["rows"].items()})
        self.assertEqual({"device": "A GPU"}, again["machine"])
        other = revision_figures.merged({"rows": list(again["rows"].values())}, [self.whole("W6", revision="other")])
        self.assertEqual(["W6"], list(other["rows"]))

    def test_what_does_not_belong_together_is_not_written(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(revision_figures, "HERE", pathlib.Path(folder)):
            file = pathlib.Path(folder, "measured", "revision.json")
            file.parent.mkdir()
            file.write_text(before := revision_figures.written({"machine": {}, "build": {"revision": "abc"}, "rows": [{**self.ROW, "device": "Another"}]}))
            for wholes, what in (([self.whole("W2-host")], "devices: A GPU, Another"), ([self.whole("W6"), self.whole("W2-host", revision="other")], "revisions: abc, other")):
                with self.subTest(what), self.assertRaisesRegex(SystemExit, f"rows of several {what}.*Nothing was written"):
                    revision_figures.merge_into("revision", revision_figures.ROWS, wholes)
                self.assertEqual(before, file.read_text())

    def test_what_is_written_is_read_again(self):
        saved = {"machine": {"cores": 2}, "build": {"revision": "abc"}, "rows": [self.ROW, self.CPU_ROW]}
        self.assertEqual(saved, json.loads(revision_figures.written(saved)))

    def test_the_table_is_of_what_was_measured(self):
        self.assertEqual([self.LINE], revision_figures.table({"rows": [self.ROW]})[2:])

    def test_a_page_with_another_figure_is_wrong(self):
        saved = {"build": {"revision": "abc"}, "rows": [self.ROW]}
        measured = {"revision": saved, "revision-without-gpu": self.WITHOUT_GPU}
        page = "\n".join([revision_figures.BEGIN, *revision_figures.table(saved), revision_figures.END,
                          revision_figures.BEGIN_WITHOUT_GPU, *revision_figures.files_table(self.WITHOUT_GPU), revision_figures.END])
        self.assertEqual([], revision_figures.check(measured, page))
        for figure in ("54.1", "20,400"):
            with self.subTest(figure=figure):
                self.assertEqual(1, len(revision_figures.check(measured, page.replace(figure, "54.2"))))

    def test_rows_of_two_revisions_or_machines_are_refused(self):
        for what in ("revision", "device"):
            saved = {"rows": [self.ROW, {**self.ROW, what: "another"}]}
            with self.subTest(what):
                self.assertIn(f"rows of several {what}s: ", "".join(revision_figures.check({"revision": saved, "revision-without-gpu": self.WITHOUT_GPU}, "")))

    def test_rows_of_a_revision_that_nobody_can_build_again_are_refused(self):
        for revision, build, told in ((None, None, "nobody can build again"), ("abc-dirty", "abc-dirty", "nobody can build again"),
                                      ("abc", "another", "tells of a build of another")):
            with self.subTest(revision=revision, build=build):
                saved = {"build": {"revision": build}, "rows": [{**self.ROW, "revision": revision}]}
                self.assertIn(told, "".join(revision_figures.check({"revision": saved, "revision-without-gpu": self.WITHOUT_GPU}, "")))
        self.assertIn("has no rows", "".join(revision_figures.check({"revision": {"rows": []}, "revision-without-gpu": self.WITHOUT_GPU}, "")))


class TheRepository(unittest.TestCase):
    def test_every_figure_is_what_was_measured(self):
        self.assertEqual([], check_figures.check_all(check_figures.ROOT))

    def test_another_measurement_makes_a_page_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("tests/bench/article.md", "tests/bench/beside.md", "tests/bench/processors.md", "tests/bench/results.md",
                         "tests/bench/gpus.md", "tests/bench/revision.md"):
                pathlib.Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(check_figures.ROOT / path, pathlib.Path(folder, path))
            measured = pathlib.Path(folder, check_figures.MEASURED)
            shutil.copytree(check_figures.ROOT / check_figures.MEASURED, measured)
            self.assertEqual([], check_figures.check_all(folder))

            ladder = measured / "ladder-h200-again.json"
            saved = json.loads(ladder.read_text())
            saved["rungs"]["streams"]["batches_per_second"] = 7.53
            ladder.write_text(json.dumps(saved))
            self.assertIn("7.33 is 7.53 in what was measured", "".join(check_figures.check_all(folder)))

    def test_any_figure_changed_by_its_last_digit_is_found(self):
        measured, changed = check_figures.read_measured(check_figures.ROOT), 0
        for document in figures.documents(measured):
            for block in blocks((check_figures.ROOT / document.path).read_text(), document.headings):
                for place in block.places():
                    digit = str((int(block.text[place.end() - 1]) + 1) % 10)
                    text = block.text[:place.end() - 1] + digit + block.text[place.end():]
                    wrong = check(document.path, f"# {document.headings[0]}\n\n{text}", document.headings, document.sources)
                    changed += 1
                    with self.subTest(text):
                        self.assertTrue([line for line in wrong if "nothing begins with" not in line])
        self.assertGreater(changed, 200)


if __name__ == "__main__":
    unittest.main()
