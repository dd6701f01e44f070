"""Where each figure of the READMEs' measured sections comes from: check_figures.py holds one against the other."""

from typing import NamedTuple

import revision_figures
from check_figures import Figure, Source

PAGE = 4096
ALONE, COPIES = "compute alone", "copy ceiling"
OTHER_BUILD = "other build"


class Document(NamedTuple):
    path: str
    headings: tuple
    sources: tuple


def given(*texts):
    """What is set or known, not measured: sizes, versions, names, the article's words, what was to be reached."""
    return tuple(Figure(text, text) for text in texts)


def percent(text, share):
    return Figure(text, 100 * share)


def gain(text, ratio):
    return Figure(text, 100 * (ratio - 1))


class Ladder:
    def __init__(self, saved):
        self.saved, self.rungs = saved, saved["rungs"]
        self.alone = saved["limits"]["compute_alone_batches_per_second"]
        self.copies = saved["limits"]["copy_gigabytes_per_second"]
        self.bytes = self.rungs["streams"]["copy_bytes_per_batch"]

    def rate(self, rung):
        return self.rungs[rung]["batches_per_second"]

    def copy(self, rung):
        return self.rungs[rung]["copy_gigabytes_per_second"]

    def share(self, rung):
        return self.rungs[rung]["share_of_compute_alone"]

    def gain(self, rung):
        return self.rungs[rung]["gain_over_the_rung_before"]

    def ms(self, rung, what):
        return self.rungs[rung]["per_batch_ms"][what]

    def rest(self, rung, *known):
        """Of a step, beside what is known."""
        return self.ms(rung, "step") - sum(self.ms(rung, name) for name in known)

    def row(self, rung, rate, share, idle, copy):
        return (Figure(rate, self.rate(rung)), percent(share, self.share(rung)), percent(idle, self.rungs[rung]["gpu_idle_share"]),
                Figure(copy, self.copy(rung)))

    def article(self, rung, *texts):
        """Rate, and gain in the article's words."""
        saved = self.saved["article"][rung]
        gained = given(*texts[1:])
        assert all(figure.text in saved["gain"] for figure in gained), f"the article's {rung}: {saved['gain']}"
        return (Figure(texts[0], saved["steps_per_second"]), *gained)


class Bench:
    def __init__(self, saved):
        self.saved = saved
        self._rows = {row["row"]: row for row in saved["rows"]}

    def row(self, name):
        return self._rows[name]

    def median(self, row, what="rate", contestant=None):
        row = self._rows[row]
        return row["contestants"][contestant or row["ours"]][what]["median"]

    def rate(self, row, contestant=None):
        return self.median(row, contestant=contestant)

    def gigabytes(self, row, contestant=None):
        return self.rate(row, contestant) * self.median(row, "bytes_per_batch", contestant) / 1e9

    def readers(self, row, contestant=None):
        row = self._rows[row]
        return row["started_as"][contestant or row["ours"]]["readers"]

    def ratio(self, row, over, of=None, part="median"):
        row = self._rows[row]
        return row["ratios_of"][of or row["ours"]][over][part]

    def over(self, row, contestant, texts, of=None):
        """Three figures: the median and its interval."""
        return tuple(Figure(text, self.ratio(row, contestant, of, part)) for text, part in zip(texts, ("median", "low", "high"), strict=True))

    def cpu(self, row, contestant=None):
        return self.median(row, "producer_cpu_ms_per_batch", contestant)

    def windows(self, row):
        row = self._rows[row]
        return len(row["contestants"][row["ours"]]["rate_of_each_window"])

    def target(self, row, beginning):
        return next(target["value"] for target in self._rows[row]["targets"] if target["what"].startswith(beginning))

    def least(self, rows, what):
        return min(self.median(row, what) for row in rows)

    def most(self, rows, what):
        return max(self.median(row, what) for row in rows)


def documents(measured):
    ladder, again = Ladder(measured["ladder-h200"]), Ladder(measured["ladder-h200-again"])
    now = Bench(measured["revision"])
    import bench_figures
    return (Document("tests/bench/article.md", ("How it was measured",), article_sources(ladder, again)),
            Document("tests/bench/beside.md", ("What the two libraries cost",), beside_build_sources(Bench(measured["beside-h200"]))),
            Document("tests/bench/beside.md", ("Again, with hosts for other people's code",),
                     beside_build_again_sources(Bench(measured["beside-h100"]), Bench(measured["beside-h100-again"]))),
            Document("tests/bench/beside.md", ("Again, with submit() that wakes nobody",), beside_build_late_sources(Bench(measured["beside-h100-late"]))),
            Document("tests/bench/processors.md", ("Processors of one's own, on a GPU machine",),
                     hosted_sources(now, measured["python-deaths-h100"])),
            Document("tests/bench/results.md", ("Consumers of W2", "Texts into PostgreSQL", "Private memory"),
                     bench_figures.sources(Bench(measured["bench-h200"]), now)))


BESIDE_ROWS = (     # how the line begins, the row, what the rates are rounded to, readers
    ("W1, fp32", "W1-host-write", None, ()), ("W2, input", "W2-device", None, ()), ("W4a, 4 reader", "W4a-4-readers", 100, ("4",)), ("W4b", "W4b", None, ()),
    ("W6", "W6", None, ("12",)), ("W8, 1 reader", "W8-1-reader", 1000, ("1",)), ("W8, 4 reader", "W8-4-readers", 1000, ("4",)))


def beside_row(beside, begins, name, now, before, ratio, step=None, readers=()):
    return Source(f"| {begins}", (*given(*readers), Figure(now, beside.rate(name), step), Figure(before, beside.rate(name, OTHER_BUILD), step),
                                  *beside.over(name, OTHER_BUILD, ratio)))


def beside_rows(beside, *figures):
    """`figures`: of each row, in their order: now, before, the ratio with its interval."""
    return tuple(beside_row(beside, begins, name, *each, step, readers) for (begins, name, step, readers), each in zip(BESIDE_ROWS, figures, strict=True))


def beside_pace(beside):
    pace = beside.saved["pace"]
    return Source("Revision", (Figure("5", pace["windows"]), Figure("3", pace["seconds"])))


def computed(beside, text, contestant=None):
    """Milliseconds of the model's kernels, a batch of W2."""
    return Figure(text, beside.median("W2-device", "compute_ms_per_batch", contestant))


def beside_build_sources(beside):
    return (
        beside_pace(beside),
        *beside_rows(beside, ("10.97", "10.93", ("0.994", "0.980", "1.021")), ("21.71", "20.88", ("1.037", "1.027", "1.047")),
                     ("97,300", "100,700", ("0.967", "0.862", "1.027")), ("2,632", "2,625", ("1.003", "0.990", "1.030")),
                     ("39.16", "39.15", ("1.002", "0.999", "1.003")), ("815,000", "778,000", ("0.997", "0.931", "1.129")),
                     ("1,198,000", "1,157,000", ("0.996", "0.898", "1.103"))),
        Source("No interval", (*given("1"), computed(beside, "46.1"), computed(beside, "47.8", OTHER_BUILD))))


def beside_build_again_sources(beside, again):
    return (
        beside_pace(beside),
        *beside_rows(beside, ("10.31", "10.31", ("0.995", "0.972", "1.008")), ("20.16", "20.76", ("0.972", "0.965", "0.984")),
                     ("91,300", "85,800", ("1.036", "0.977", "1.107")), ("2,650", "2,638", ("1.005", "1.004", "1.005")),
                     ("37.85", "37.52", ("1.017", "0.999", "1.030")), ("589,000", "581,000", ("0.978", "0.959", "1.045")),
                     ("885,000", "888,000", ("0.974", "0.897", "1.059"))),
        beside_row(again, "W2 again", "W2-device", "20.68", "20.66", ("1.003", "0.994", "1.010")),
        Source("W2's loss", (computed(beside, "49.5"), computed(beside, "48.2", OTHER_BUILD), computed(again, "48.4"), computed(again, "48.3", OTHER_BUILD))))


def beside_build_late_sources(beside):
    paces = [row["pace"] for row in beside.saved["rows"]]
    runs = ("W6", "W6, again", "W6, a third time", "W6, beside itself")
    return (
        Source("Revision", (Figure("4", min(pace["windows"] for pace in paces)), Figure("6", max(pace["windows"] for pace in paces)),
                            Figure("2", min(pace["seconds"] for pace in paces)), Figure("3", max(pace["seconds"] for pace in paces)))),
        *beside_rows(beside, ("10.22", "10.26", ("0.997", "0.960", "1.038")), ("20.66", "20.47", ("1.011", "0.992", "1.023")),
                     ("93,400", "89,900", ("1.042", "0.969", "1.107")), ("2,622", "2,623", ("1.000", "0.999", "1.001")),
                     ("35.64", "36.24", ("0.979", "0.963", "0.995")), ("548,000", "532,000", ("1.008", "0.929", "1.142")),
                     ("1,000,000", "972,000", ("1.034", "1.007", "1.059"))),
        beside_row(beside, "again in", "W6, again", "36.69", "36.37", ("1.022", "0.954", "1.080")),
        beside_row(beside, "once more", "W6, a third time", "36.61", "37.68", ("0.990", "0.954", "1.004")),
        beside_row(beside, "this build", "W6, beside itself", "37.07", "36.81", ("1.006", "0.966", "1.049")),
        Source("Over bare", tuple(Figure(text, beside.ratio(run, COPIES)) for text, run in zip(("0.959", "0.981", "0.982", "0.993"),
                                                                                             (runs[0], runs[1], runs[2], runs[3]), strict=True))))


def hosted_sources(now, deaths):
    ratios = sorted(deaths["ratios"])
    return (
        Source("Rows W12", (Figure("16", now.saved["machine"]["cores"]), Figure("4", now.row("W12-nothing")["windows"]),
                            Figure("2", now.row("W12-nothing")["seconds_of_a_window"]))),
        Source("One of", (*given("12"), Figure("50", sum(window["deaths"] for window in deaths["windows"])), Figure("0.940", ratios[len(ratios) // 2]),
                          *given("0.99"))),
        Source("| a Python function", (Figure("3.3", now.target("W12-nothing", "a slab of in Python")), *given("30"))),
        Source("| a program behind", (Figure("64", now.target("W12-nothing", "a slab of program")), *given("150"))),
        Source("| 4 consumers with", (Figure("4", now.readers("W12-readers")), Figure("772,000", now.rate("W12-readers"), 1000), *given("60,000"))),
        Source("| a shared object", (*now.over("W12-hash", "compiled in", ("1.021", "0.978", "1.078")), *given("0.99"))),
        Source("| 12 consumers", (Figure("12", now.readers("W12-copy")), *now.over("W12-copy", "shared object", ("1.017", "0.939", "1.073")),
                                  *given("0.98"))))


def article_sources(ladder, again):
    unit = ladder.saved["workload"]
    gone = ladder.ms("sequential", "process")
    return (
        Source("One NVIDIA H200", (
            *given("5", "16"), Figure("580", bench_driver(ladder.saved["machine"])), Figure("16", ladder.saved["probe"]["cores"]),
            Figure("2026-11-21", ladder.saved["made"].split()[0]), Figure("64", unit["batch"]), *given("3"), Figure("512", unit["image-size"]),
            Figure("512", unit["image-size"]), Figure("8", unit["slabs"]), Figure("8", unit["consumers"]), Figure("10", unit["warmup_batches"]),
            Figure("100", unit["measured_batches"]), Figure("94", ladder.rungs["compute-alone"]["batches"]),
            Figure("192", ladder.saved["results"]["rungs"]["streams"]["rows"]), percent("1.4", 1 - ladder.share("streams")),
            Figure("7.33", again.rate("streams")), Figure("7.48", again.alone), percent("97.9", again.share("streams")),
            Figure("10.2", again.rungs["streams"]["gain_in_all"]), Figure("15", again.copy("pool")), gain("14", again.gain("workers")),
            Figure("885", again.ms("workers", "d2h")), Figure("1,042", again.ms("sequential", "d2h")))),
        Source("**Why `workers` gains", (
            gain("3", ladder.gain("workers")), *given("58"), Figure("138", gone), Figure("1,083", ladder.ms("sequential", "step")),
            gain("15", ladder.ms("sequential", "step") / ladder.rest("sequential", "process")),
            Figure("0.81", 1 / ladder.saved["article"]["sequential"]["steps_per_second"] - 1 / ladder.saved["article"]["workers"]["steps_per_second"]),
            Figure("1.8", ladder.copy("workers")), Figure("782", ladder.ms("sequential", "d2h")), Figure("773", ladder.ms("workers", "d2h")),
            Figure("344,000", ladder.bytes / PAGE, 1000), *given("4"), Figure("138", gone),
            Figure("32", ladder.rest("sequential", "compute", "d2h", "h2d", "process")),
            Figure("146", ladder.rest("workers", "compute", "d2h", "h2d")))))


def bench_driver(machine):
    """580 of '…, driver 580.159.04, …'."""
    return int(machine.split("driver ")[1].split(".")[0])
