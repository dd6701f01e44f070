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


def documents(measured, read):
    """`read` gives the text of a file of the repository."""
    ladder, again = Ladder(measured["ladder-h200"]), Ladder(measured["ladder-h200-again"])
    now = Bench(measured["revision"])
    crash = read("tests/bench/deaths.md")

    def cited(text, phrase):
        """From another page, which has to say it so."""
        return Figure(text, text if phrase in crash else f"not '{phrase}' any more in tests/bench/deaths.md and so not {text}")

    import bench_figures
    return (Document("README.md", ("Why the GPU waits", "Measured"),
                     (*ladder_sources(ladder), *bench_sources(now), *other_sources(cited))),
            Document("tests/bench/article.md", ("How it was measured",), article_sources(ladder, again)),
            Document("tests/bench/beside.md", ("What the two libraries cost",), beside_build_sources(Bench(measured["beside-h200"]))),
            Document("tests/bench/beside.md", ("Again, with hosts for other people's code",),
                     beside_build_again_sources(Bench(measured["beside-h100"]), Bench(measured["beside-h100-again"]))),
            Document("tests/bench/beside.md", ("Again, with submit() that wakes nobody",), beside_build_late_sources(Bench(measured["beside-h100-late"]))),
            Document("tests/bench/processors.md", ("Processors of one's own, on a GPU machine",),
                     hosted_sources(now, measured["python-deaths-h100"])),
            Document("launch/python/from_queues.md", ("Measured",), queue_sources(measured, ladder)),
            Document("tests/bench/results.md", ("Consumers of W2", "Texts into PostgreSQL", "Private memory"),
                     bench_figures.sources(Bench(measured["bench-h200"]), now)))


def ladder_sources(ladder):
    return (
        Source("One batch of DeepLabV3's logits", (Figure("1.41", ladder.bytes / 1e9), *given("2026"))),
        Source("| `sequential`", (*ladder.row("sequential", "0.92", "12.1", "88.2", "1.8"), *ladder.article("sequential", "0.45"))),
        Source("| `workers`", (*ladder.row("workers", "0.95", "12.5", "87.8", "1.8"), gain("+3", ladder.gain("workers")),
                               *ladder.article("workers", "0.71", "+58"))),
        Source("| `pool`", (*ladder.row("pool", "4.82", "63.4", "38.2", "18.1"), Figure("5.1", ladder.gain("pool")),
                            *ladder.article("pool", "1.51", "2"))),
        Source("| `async`, as the article pins", (*ladder.row("async-pageable", "4.81", "63.2", "38.4", "18.0"),
                                                  gain("−0.3", ladder.gain("async-pageable")), *ladder.article("async-pageable", "1.55", "+2.6"))),
        Source("| `async`, page-locked", (*ladder.row("async", "6.41", "84.4", "17.4", "54.7"), gain("+33", ladder.gain("async")))),
        Source("| `streams`", (*ladder.row("streams", "7.49", "98.6", "1.3", "54.4"), gain("+17", ladder.gain("streams")),
                               *ladder.article("streams", "1.85", "+19.3"))),
        Source("| compute alone", (Figure("7.60", ladder.alone), percent("100", ladder.share("compute-alone")),
                                   percent("0", ladder.rungs["compute-alone"]["gpu_idle_share"]))),
        Source("In all", (Figure("8.1", ladder.rungs["streams"]["gain_in_all"]), *given("4"), Figure("18", ladder.copy("async-pageable")),
                          Figure("54.7", ladder.copy("async")), Figure("55.4", ladder.copies))))


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


def queue_sources(measured, ladder):
    loop, submit, now = measured["python-h200"]["loop"], measured["python-submit-h100"], Bench(measured["revision"])
    contest = measured["python-contest-h100"]["ratios"]["tf32"]["queue"]["median"]
    return (
        Source("On one NVIDIA H200", (
            *given("64", "512", "512"), Figure("1.41", loop["bytes"] / 1e9), Figure("8", loop["consumers"]), Figure("0.77", loop["batches_per_second"]["cpu"]),
            Figure("7.43", loop["batches_per_second"]["egress"]), Figure("7.40", loop["batches_per_second"]["dropped"]),
            *(Figure(text, loop["of_cpu"][part]) for text, part in (("9.68", "median"), ("9.10", "low"), ("9.97", "high"))))),
        Source("A new segment", (
            Figure("0.95", ladder.rate("workers")), Figure("7.49", ladder.rate("streams")), Figure("8.3", contest), Figure("4", now.readers("W8-4-readers")),
            Figure("1,150,000", now.rate("W8-4-readers"), 10000), Figure("18.1", now.ratio("W8-4-readers", "multiprocessing.Queue")))),
        Source("What it costs", (Figure("35", submit["submit"]["no keys"]["p50_us"]), *given("5", "9", "50"),
                                 Figure("3.3", now.target("W12-nothing", "a slab of in Python")))))


def bench_driver(machine):
    """580 of '…, driver 580.159.04, …'."""
    return int(machine.split("driver ")[1].split(".")[0])


def bench_sources(now):
    """`now`: the rows of one revision, whose tables revision_figures.py makes."""
    machine = now.saved["machine"]
    p50, p99 = ({name: contestant["figures"][part]["median"] for name, contestant in now.row("latency")["contestants"].items()} for part in ("p50_us", "p99_us"))
    start = {name: contestant["figures"] for name, contestant in now.row("start")["contestants"].items()}
    shown = [now.row(row.id) for row in revision_figures.ROWS if row.short]
    paces, lengths = {row["windows"] for row in shown}, {row["seconds_of_a_window"] for row in shown}
    return (
        Source("`./launch/offramp bench` on one NVIDIA H200", (
            *given("5", "16"), Figure("580", int(machine["driver"].split(".")[0])), Figure("16", machine["cores"]), *(Figure("4", windows) for windows in paces),
            *(Figure("2", seconds) for seconds in lengths), *given("95"))),
        Source("- DeepLabV3 makes", (Figure("1.41", now.median("W2-device", "bytes_per_batch") / 1e9),)),
        Source("A test holds these tables", (Figure("1.03", p50["ours"] / p50["libzmq alone"]), Figure("0.98", p99["ours"] / p99["libzmq alone"]))),
        Source("What was missed", (
            Figure("0.993", now.ratio("W1-host-write, windows of 7 s", ALONE)), *given("7", "0.995"), Figure("0.88", now.ratio("W10-cut-out", "decode limit")), *given("0.9"), Figure("3.0", now.target("W6", "producer's CPU")), Figure("2.3", now.cpu("W6")),
            *given("8"), Figure("1.07", now.target("W2-host", "producer's CPU")), *given("0.1"), Figure("11", 8 * now.median("W2-device", "bytes_per_batch") / 1e9), Figure("0.5", start["ours"]["first_slab_seconds"]["median"]), Figure("1.9", start["ours"]["all_slabs_seconds"]["median"]),
            Figure("3.0", start["ours"]["first_batch_seconds"]["median"]), Figure("2.5", start["smallest pool"]["first_batch_seconds"]["median"]))))


def other_sources(cited):
    return (
        Source("One consumer killed a second", (
            cited("0.998", "8 consumers that write a copy | 0.998"), cited("1.000", "12 consumers that read every byte | 1.000"),
            cited("55", "copies back to back, 55 GB/s"), cited("1.39", "median 1.39 s"), cited("11", "a pool of 11 GB"), cited("1.94", "worst 1.94"),
            cited("0.40", "until the pidfd says so 0.40"), cited("261", "median 261 ms"), cited("32", "8 slabs of 4 MiB"),
            cited("50", "50 deaths in 2 runs"), cited("45", "45 of them with slabs being filled"), cited("12", "12 of them with slabs being filled"))),)
