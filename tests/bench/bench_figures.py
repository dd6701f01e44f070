"""Where the figures of results.md come from, of what was measured. See figures.py."""

from check_figures import Figure, Source
from figures import ALONE, COPIES, PEER_ALONE, RUNG_4, RUNG_4_PINNED, TRANSFORMED, given, percent

QUEUE, PLAIN, SENTENCES = "multiprocessing.Queue", "plain PyTorch", "sentence-transformers"


def sources(bench, cores):
    return (*rows(bench), *prose(bench), *curve(bench), *lower_rungs(bench), *on_two_cores(cores))


def row(begins, *parts):
    return Source(f"| {begins}", tuple(figure for part in parts for figure in ((part,) if isinstance(part, Figure) else part)))


def rows(bench):
    def rate(name, text, step=None, contestant=None):
        return Figure(text, bench.rate(name, contestant), step)

    def images(name, text):
        return Figure(text, bench.rate(name) * bench.batch(name))

    def gigabytes(name, text, contestant=None):
        return Figure(text, bench.gigabytes(name, contestant))

    def megabytes(name, text):
        return Figure(text, 1000 * bench.gigabytes(name))

    def of_the_bytes(name, text):
        return percent(text, bench.median(name, "bytes_per_batch") / bench.row(name)["raw_bytes"])

    def w1(begins, name, long, ours, gigabytes_text, alone, limit, peer, *more):
        return row(begins, rate(long, ours), gigabytes(long, gigabytes_text), rate(long, alone, contestant=ALONE), bench.over(long, ALONE, limit),
                   given("0.995", "0.99"), bench.over(name, RUNG_4_PINNED, peer), *more)

    def small(begins, name, ours, share, alone, limit, over_w2, *wanted):
        return row(begins, rate(name, ours), of_the_bytes(name, share), rate(name, alone, contestant=TRANSFORMED), bench.over(name, TRANSFORMED, limit),
                   bench.over(name, "W2's compute alone", over_w2), given(*wanted))

    long = "{}, windows of 7 s".format
    return (
        w1("W1, fp32 from the host, consumers", "W1-host-write", "W1-host-write", "10.76", "15.2", "10.77", ("1.002", "0.990", "1.013"),
           ("1.72", "1.56", "1.79"), given("4"), bench.over("W1-host-write", RUNG_4, ("2.46", "2.29", "2.60"))),
        w1("W1, fp32 from the host, every", "W1-host-read", long("W1-host-read"), "10.93", "15.4", "10.88", ("1.005", "0.999", "1.009"),
           ("1.51", "1.49", "1.54")),
        w1("W1, input resident, consumers", "W1-device-write", long("W1-device-write"), "10.87", "15.3", "10.92", ("0.995", "0.990", "1.002"),
           ("1.53", "1.48", "1.57")),
        w1("W1, input resident, every", "W1-device-read", long("W1-device-read"), "10.88", "15.3", "10.91", ("0.998", "0.993", "1.005"),
           ("1.51", "1.49", "1.53")),
        row("W2, input resident", rate("W2-device", "21.24"), gigabytes("W2-device", "29.9"), rate("W2-device", "21.23", contestant=ALONE),
            bench.over("W2-device", ALONE, ("1.000", "0.988", "1.008")), given("0.99"), bench.over("W2-device", RUNG_4_PINNED, ("1.77", "1.76", "1.78"))),
        row("W2, fp32 from the host", rate("W2-host", "21.47"), gigabytes("W2-host", "30.3"), rate("W2-host", "21.61", contestant=ALONE),
            bench.over("W2-host", ALONE, ("0.993", "0.991", "1.001")), given("0.99"), bench.over("W2-host", RUNG_4_PINNED, ("1.77", "1.76", "1.78"))),
        row("W3 `class-map`", Figure("4", bench.readers("W3-class-map")), rate("W3-class-map", "21.65"), of_the_bytes("W3-class-map", "1.19"),
            rate("W3-class-map", "21.66", contestant=TRANSFORMED), bench.over("W3-class-map", TRANSFORMED, ("0.999", "0.998", "1.001")), given("0.99", "1.2")),
        small("W3 `low-res`, fp32", "W3-low-res-fp32", "22.07", "1.56", "22.06", ("1.000", "1.000", "1.001"), ("1.023", "1.022", "1.024"),
              "0.99", "1.0", "1.6"),
        small("W3 `low-res`, fp16", "W3-low-res-fp16", "21.73", "0.78", "21.70", ("1.002", "0.997", "1.004"), ("1.025", "1.022", "1.028"),
              "0.99", "1.0", "0.8"),
        row("W4a, 4 readers", Figure("4", bench.readers("W4a-4-readers")), rate("W4a-4-readers", "95,100", 100), gigabytes("W4a-4-readers", "24.9"),
            given("50,000"), bench.over("W4a-4-readers", RUNG_4_PINNED, ("10.1", "9.7", "10.5")), Figure("0.15", bench.target("W4a-4-readers", "producer's"))),
        row("W4a, 1 reader", Figure("1", bench.readers("W4a-1-reader")), rate("W4a-1-reader", "32,900", 100),
            bench.over("W4a-1-reader", RUNG_4_PINNED, ("3.4", "2.8", "4.0"))),
        row("W4b", rate("W4b", "2,639"), rate("W4b", "2,655", contestant=ALONE), bench.over("W4b", ALONE, ("0.994", "0.993", "0.995")), given("0.98"),
            bench.over("W4b", RUNG_4_PINNED, ("0.992", "0.991", "0.993"))),
        row("W5", rate("W5", "145.1"), gigabytes("W5", "54.8"), gigabytes("W5", "55.2", COPIES), bench.over("W5", COPIES, ("0.993", "0.961", "1.019")),
            given("0.98")),
        row("W6", Figure("12", bench.readers("W6")), rate("W6", "38.84"), gigabytes("W6", "54.7"), gigabytes("W6", "55.4", COPIES),
            bench.over("W6", COPIES, ("0.990", "0.987", "0.997")), given("0.99"), bench.over("W6", RUNG_4_PINNED, ("1.27", "1.23", "1.29"))),
        row("W7, JPEG", rate("W7", "21.99"), images("W7", "1,407"), rate("W7", "22.18", contestant=TRANSFORMED), rate("W7", "43.0", contestant="decode limit"),
            rate("W7", "90.7", contestant="encode limit"), bench.over("W7", TRANSFORMED, ("0.991", "0.980", "1.007")), given("0.95"),
            bench.over("W7", PLAIN, ("1.92", "1.90", "1.93"))),
        row("W10, rendered", rate("W10-cut-out", "13.83"), images("W10-cut-out", "885"), rate("W10-cut-out", "15.20", contestant="encode limit"),
            rate("W10-cut-out", "40.8", contestant="decode limit"), rate("W10-cut-out", "754", contestant="model alone"),
            bench.over("W10-cut-out", "encode limit", ("0.910", "0.865", "0.963")), given("0.9"), bench.over("W10-cut-out", PLAIN, ("2.10", "1.91", "2.26"))),
        text_row(bench, "W11, lines of text", "W11-sqlite", "111,400", megabytes("W11-sqlite", "171"), "executemany from a file", "107,000",
                 "156,100", "126,600", ("1.041", "0.978", "1.129"), ("12.8", "11.3", "15.2")),
        text_row(bench, "W11, the same in PostgreSQL", "W11-postgres", "102,400", megabytes("W11-postgres", "157"), "COPY from memory", "87,400", "150,200",
                 "101,500", ("1.047", "0.977", "1.221"), ()),
        row("W8, 1 reader", Figure("1", bench.readers("W8-1-reader")), rate("W8-1-reader", "744,000", 1000),
            bench.over("W8-1-reader", QUEUE, ("13.5", "11.9", "14.0"))),
        row("W8, 4 readers", Figure("4", bench.readers("W8-4-readers")), rate("W8-4-readers", "1,176,000", 1000),
            bench.over("W8-4-readers", QUEUE, ("18.1", "16.4", "23.5"))),
        row("W9, model, fp32", rate("W9-model", "21.58"), rate("W9-model", "21.60", contestant="resident"),
            bench.over("W9-model", "resident", ("1.000", "0.997", "1.001")), given("0.97")),
        row("W9, model, 8 bits", given("8"), rate("W9-model", "21.45", contestant="page-locked, prefetched, 8 bits"),
            rate("W9-model", "21.60", contestant="resident"),
            bench.over("W9-model", "resident", ("0.993", "0.992", "0.994"), of="page-locked, prefetched, 8 bits"), given("0.97")),
        row("W9, the peer's model", rate("W9-model", "9.47", contestant="article, pageable, blocking"),
            rate("W9-model", "9.26", contestant="article, pageable, async"), rate("W9-model", "12.16", contestant="article, resident"),
            bench.over("W9-model", "article, resident", ("0.778", "0.762", "0.789"), of="article, pageable, blocking"),
            bench.over("W9-model", "article, resident", ("0.761", "0.753", "0.772"), of="article, pageable, async")),
        row("W9, the link alone", gigabytes_in(bench, "55.3", "page-locked"), gigabytes_in(bench, "8.05", "pageable, async"),
            gigabytes_in(bench, "7.38", "pageable, blocking")))


def gigabytes_in(bench, text, contestant):
    return Figure(text, bench.gigabytes("W9-link", contestant))


def text_row(bench, begins, name, ours, megabytes, table, limit, model, tokenizer, ratio, peer):
    return row(begins, Figure(ours, bench.rate(name), 100), megabytes, Figure(limit, bench.rate(name, table), 100),
               Figure(model, bench.rate(name, "model alone"), 100), Figure(tokenizer, bench.rate(name, "tokenizer alone"), 100),
               bench.over(name, table, ratio), given("0.9"), bench.over(name, SENTENCES, peer) if peer else ())


def prose(bench):
    machine, pace = bench.saved["machine"], bench.saved["pace"]
    short = ("W1-host-read", "W1-device-write", "W1-device-read")
    long = [f"{name}, windows of 7 s" for name in short]

    def scatter(contestant):
        """The largest of any window from its row's median, as a share of it."""
        return max(abs(rate / bench.rate(name, contestant) - 1) for name in long for rate in bench.row(name)["contestants"][contestant]["rate_of_each_window"])

    def compute(name, contestant):
        return bench.median(name, "compute_ms_per_batch", contestant)

    apart = max(abs(compute(name, "ours") / compute(name, ALONE) - 1) for name in long[1:])
    interval = tuple(figure for name, texts in zip(short, (("0.993", "0.976", "1.006"), ("1.006", "0.980", "1.015"), ("0.997", "0.982", "1.006")), strict=True)
                     for figure in bench.over(name, ALONE, texts))
    return (
        Source("One H200", (*given("5", "16"), Figure("580", int(machine["driver"].split(".")[0])), Figure("16", machine["cores"]),
                            Figure("126", machine["memory_gib"]), Figure("6.18", ".".join(machine["kernel"].split(".")[:2])), *given("2026-11-21", "23"),
                            Figure("5", pace["windows"]), Figure("3", pace["seconds"]))),
        Source("\\* In windows", (*given("7"), Figure("3", pace["seconds"]), *interval, Figure("32", bench.rate("W1-host-read") * pace["seconds"]), *given("7"),
                                  percent("0.7", scatter("ours")), percent("0.2", scatter(ALONE)), Figure("91.4", compute(long[0], "ours")),
                                  Figure("91.9", compute(long[0], ALONE)), *given("1"), percent("0.1", apart))),
        Source("In W1 and W2 the peer's egress", (
            Figure("0.998", bench.ratio("W2-device", PEER_ALONE, of=RUNG_4_PINNED)), Figure("12.01", bench.rate("W2-device", PEER_ALONE)),
            Figure("344,000", bench.median("W1-host-write", "readers_faults_per_batch", RUNG_4_PINNED), 1000),
            Figure("377", 1e6 / bench.rate("W4b", PEER_ALONE)))))


def curve(bench):
    points = bench.row("E")["curve"]

    def medians(what, texts):
        return tuple(Figure(text, point[what]["median"]) for text, point in zip(texts, points, strict=True))

    (four,) = (point for point in points if point["consumers"] == 4)
    alone = [point["compute_of_limit"]["median"] for point in points]
    keep_up = [point["compute"]["median"] / point["compute_of_limit"]["median"] - 1 for point in points if point["consumers"] >= 6]
    return (
        row("consumers", tuple(Figure(str(point["consumers"]), point["consumers"]) for point in points)),
        row("batches/s", medians("rate", ("5.76", "10.57", "14.55", "20.07", "21.17", "21.25", "21.21", "21.19"))),
        row("E |", medians("ratio", ("0.27", "0.50", "0.68", "0.944", "0.996", "1.002", "0.998", "0.999"))),
        row("the model, ms", Figure("47.0", min(alone)), Figure("47.1", max(alone)),
            medians("compute", ("42.6", "43.0", "43.9", "46.2", "47.2", "47.1", "47.1", "47.1"))),
        Source("One consumer reads", (Figure("8.1", points[0]["rate"]["median"] * bench.median("W2-device", "bytes_per_batch") / 1e9),
                                      Figure("0.944", four["ratio"]["median"]), Figure("0.825", four["ratio"]["low"]), Figure("0.994", four["ratio"]["high"]),
                                      percent("0.1", min(keep_up)), percent("0.2", max(keep_up)))))


def lower_rungs(bench):
    contests = (("W1-rungs-0-1", "article 0"), ("W1-rungs-0-1", "article 1"), ("W1-rungs-2-3", "article 2"), ("W1-rungs-2-3", "article 3"))
    ratios = (("19.2", "18.0", "20.9"), ("11.8", "11.0", "12.4"), ("2.40", "2.30", "2.52"), ("2.41", "2.31", "2.54"))
    return (
        Source("The article's lower rungs", given("2")),
        row("| rung 0", given("0", "1", "2", "3")),
        row("the article's design", tuple(Figure(text, bench.rate(*contest))
                                          for text, contest in zip(("0.565", "0.922", "4.44", "4.50"), contests, strict=True))),
        row("ours over it", *(bench.over(name, contestant, texts) for (name, contestant), texts in zip(contests, ratios, strict=True))))


def on_two_cores(cores):
    def rate(name, text, contestant=None, step=None):
        return Figure(text, cores.rate(name, contestant), step)

    def cpu(name, contestants, text):
        """Producer's and readers', summed over the contestants."""
        return Figure(text, sum(cores.median(name, f"{role}_cpu_ms_per_batch", contestant) for contestant in contestants for role in ("producer", "readers")))

    def size(name, *flags):
        given_to = cores.row(name)["started_as"]["ours"]["flags"]
        return tuple(Figure(text, given_to[flag]) for text, flag in flags)

    def texts(begins, name, sizes, ours, model, tokenizer, table, table_text, over_model, over_peer, *cpus):
        parts = ("model alone", "tokenizer alone", table)
        return row(begins, sizes, rate(name, ours), rate(name, model, "model alone"), rate(name, tokenizer, "tokenizer alone", 50),
                   rate(name, table_text, table, 100),
                   cores.over(name, "model alone", over_model), cores.over(name, SENTENCES, over_peer),
                   *(cpu(name, of, text) for of, text in zip((("ours",), parts, (SENTENCES,)), cpus, strict=True)))

    machine = cores.saved["machine"]
    parts = ("decode limit", "encode limit")
    pictures = (("224", "image-size"), ("224", "image-size"), ("4", "batch")), (("256", "image-size"), ("256", "image-size"), ("16", "batch"))
    w7_cpu = [cores.median("W7", f"{role}_cpu_ms_per_batch", TRANSFORMED) for role in ("producer", "readers")]
    return (
        Source("AMD EPYC", (Figure("2", machine["cores"]), Figure("23.5", machine["memory_gib"]), Figure("6.18", ".".join(machine["kernel"].split(".")[:2])),
                            *given("2026-11-22"), Figure("5", cores.saved["pace"]["windows"]), Figure("3", cores.saved["pace"]["seconds"]),
                            *given("1,000", "2", "16"))),
        row("W7, 224×224", size("W7", *pictures[0]), rate("W7", "1.80"), rate("W7", "1.83", TRANSFORMED), rate("W7", "488", "decode limit"),
            rate("W7", "1,094", "encode limit"), cores.over("W7", TRANSFORMED, ("0.974", "0.942", "1.011")), cores.over("W7", PLAIN, ("1.02", "0.93", "1.13")),
            cpu("W7", ("ours",), "994"), cpu("W7", (TRANSFORMED, *parts), "981"), cpu("W7", (PLAIN,), "1,114")),
        row("W10, 256×256", size("W10-cut-out", *pictures[1]), rate("W10-cut-out", "6.97"),
            Figure("112", cores.rate("W10-cut-out") * cores.batch("W10-cut-out")), rate("W10-cut-out", "16.8", "model alone"),
            rate("W10-cut-out", "96.7", "decode limit"), rate("W10-cut-out", "12.5", "encode limit"),
            cores.over("W10-cut-out", "encode limit", ("0.553", "0.529", "0.583")), Figure("0.955", cores.target("W10-cut-out", "rate over what")),
            cores.over("W10-cut-out", PLAIN, ("2.14", "1.92", "2.28")), cpu("W10-cut-out", ("ours",), "270"),
            cpu("W10-cut-out", ("model alone", *parts), "274"), cpu("W10-cut-out", (PLAIN,), "600")),
        texts("W11-sqlite, 64", "W11-sqlite", (*given("64"), *size("W11-sqlite", ("16", "batch"))), "111", "115", "22,250", "executemany from a file",
              "121,100", ("0.965", "0.939", "0.984"), ("0.99", "0.92", "1.05"), "16.3", "16.0", "15.8"),
        texts("W11-postgres, the same", "W11-postgres", given("2026-11-23"), "100", "97.7", "21,650", "COPY from memory", "53,700", ("0.985", "0.873", "1.065"),
              ("0.99", "0.82", "1.14"), "18.0", "17.9", "17.2"),
        Source("- **W10 misses", (*given("0.9"), Figure("0.40", cores.ratio("W10-cut-out", "model alone")),
                                  Figure("0.955", cores.target("W10-cut-out", "rate over what")))),
        Source("- **W7** is as fast", (Figure("0.89", sum(w7_cpu) / 1000 * cores.rate("W7", TRANSFORMED) / machine["cores"]),)))
