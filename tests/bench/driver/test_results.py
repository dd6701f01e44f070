"""RESULTS.md matches the summaries, and a summary matches `bench --json`."""

import json
import pathlib
import unittest

import results

ROW = {
    "row": "W6",
    "kind": "contest",
    "unit": "batches",
    "batch": 64,
    "ours": "ours",
    "beside": [],
    "curve": [],
    "failure": None,
    "left_out": None,
    "started_as": {
        name: {"program": "program", "flags": {"batch": 64}, "readers": 12}
        for name in ("ours", "copy ceiling", "article 4-pinned")
    },
    "contestants": {
        name: {"rate": {"median": rate}, "bytes_per_batch": {"median": 1.41e9}, "windows": [1, 2]}
        for name, rate in (("ours", 38.4), ("copy ceiling", 39.25), ("article 4-pinned", 30.0))
    },
    "ratios_of": {
        "ours": {
            name: {"median": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
            for name, ratio in (("copy ceiling", 0.978), ("article 4-pinned", 1.28))
        }
    },
    "targets": [
        {
            "what": "rate over copy ceiling",
            "wanted": "≥ 0.99",
            "found": "0.978",
            "value": 0.978,
            "reached": False,
            "reason": "",
        }
    ],
}


def whole(revision="abc", seconds=2, device="NVIDIA H200", **row):
    return {
        "machine": {"device": device, "gpu": True, "cores": 16, "probe": {}},
        "build": {"revision": revision},
        "pace": {"windows": 4, "seconds": seconds},
        "rows": [{**ROW, **row}],
    }


class Results(unittest.TestCase):
    def test_the_page_is_up_to_date(self):
        self.assertEqual(
            results.page(results.summaries()), results.PAGE.read_text(encoding="utf-8"), "run tests/bench/results.py"
        )

    def test_the_page_and_the_data_stay_small(self):
        self.assertLessEqual(len(results.PAGE.read_text(encoding="utf-8").splitlines()), 200)
        data = sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in pathlib.Path(results.HERE, "measured").glob("*.json")
        )
        self.assertLess(data, 2000)

    def test_a_row_becomes_a_line_with_its_missed_target(self):
        summary = results.merged({"reasons": {"W6": "a shared machine"}, "studies": []}, [whole()])
        self.assertEqual(
            "| W6 | no model: the link, every byte read | 38.4 batches/s, 54.1 GB/s | copy ceiling 39.2 | 0.978 [0.968, 0.988] | 1.28× [1.27, 1.29] | all of it |",
            results.row_table(summary)[2],
        )
        self.assertIn(
            "| One H200 | W6: rate over copy ceiling | ≥ 0.99 | 0.978 | a shared machine |",
            results.missed({"h200": summary}),
        )
        self.assertNotIn("windows", summary["rows"][0]["contestants"]["ours"])

    def test_a_summary_keeps_rows_of_one_revision(self):
        first = results.merged({}, [whole(), whole(row="W5")])
        self.assertEqual(["W5", "W6"], [row["row"] for row in results.merged(first, [whole(seconds=3)])["rows"]])
        self.assertEqual(["W6"], [row["row"] for row in results.merged(first, [whole("new")])["rows"]])
        self.assertEqual(
            ["W1-host-write", "W1-host-write, windows of 7 s"],
            [
                row["row"]
                for row in results.merged(
                    first, [whole("new", row="W1-host-write"), whole("new", 7, row="W1-host-write")]
                )["rows"]
            ],
        )

    def test_rows_that_do_not_belong_together_are_refused(self):
        for wholes in (
            [whole(None)],
            [whole("abc-dirty")],
            [whole(), whole("other")],
            [whole(), whole(device="another")],
        ):
            with self.subTest(wholes=[each["build"] for each in wholes]), self.assertRaises(ValueError):
                results.merged({}, wholes)

    def test_a_written_summary_reads_back(self):
        for summary in (*results.summaries().values(), results.merged({}, [whole()])):
            self.assertEqual(summary, json.loads(results.written(summary)))
