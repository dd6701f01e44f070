"""Where the figures of results.md come from, of what was measured. See figures.py."""

from check_figures import Figure, Source
from figures import given, percent

TABLE = "COPY from memory"
IN_PLACE = ("W1-host-read", "W1-device-read", "W2-device", "W2-host", "W5", "W6")
COPIED = ("W1-host-write", "W1-device-write", "W1-rungs-0-1", "W1-rungs-2-3")
DEEPLAB = ("W1-host-read", "W1-device-read", "W2-device", "W2-host", *COPIED)
WITHOUT_MODEL = ("W4a-4-readers", "W4a-1-reader", "W5", "W6")


def sources(earlier, now):
    """`earlier`: rows that only earlier revisions have; `now`: those of the newest."""
    return (*curve(earlier, now), *texts(earlier), memory(now))


def row(begins, *parts):
    return Source(f"| {begins}", tuple(figure for part in parts for figure in ((part,) if isinstance(part, Figure) else part)))


def curve(earlier, now):
    points = earlier.row("E")["curve"]

    def medians(what, texts):
        return tuple(Figure(text, point[what]["median"]) for text, point in zip(texts, points, strict=True))

    (four,) = (point for point in points if point["consumers"] == 4)
    alone = [point["compute_of_limit"]["median"] for point in points]
    newer = now.row("E")["curve"]
    (newer_four,) = (point for point in newer if point["consumers"] == 4)

    def beyond(curve, consumers):
        """By how much the model's batch is longer than alone, with so many consumers or more."""
        return [point["compute"]["median"] / point["compute_of_limit"]["median"] - 1 for point in curve if point["consumers"] >= consumers]

    keep_up = beyond(points, 6)
    return (
        Source("E, the row W2-device", given("4", "6", "12")),
        row("consumers", tuple(Figure(str(point["consumers"]), point["consumers"]) for point in points)),
        row("batches/s", medians("rate", ("5.76", "10.57", "14.55", "20.07", "21.17", "21.25", "21.21", "21.19"))),
        row("E |", medians("ratio", ("0.27", "0.50", "0.68", "0.944", "0.996", "1.002", "0.998", "0.999"))),
        row("the model, ms", Figure("47.0", min(alone)), Figure("47.1", max(alone)),
            medians("compute", ("42.6", "43.0", "43.9", "46.2", "47.2", "47.1", "47.1", "47.1"))),
        Source("One consumer reads", (Figure("8.1", points[0]["rate"]["median"] * now.median("W2-device", "bytes_per_batch") / 1e9),
                                      Figure("0.944", four["ratio"]["median"]), Figure("0.825", four["ratio"]["low"]), Figure("0.994", four["ratio"]["high"]),
                                      percent("0.1", min(keep_up)), percent("0.2", max(keep_up)),
                                      *(percent(text, each(beyond(newer, 6))) for text, each in (("0.76", min), ("0.84", max))),
                                      *(Figure(text, newer_four["ratio"][part]) for text, part in (("1.029", "median"), ("0.920", "low"), ("1.104", "high"))),
                                      Figure("2", now.row("E")["seconds_of_a_window"]))))


def texts(earlier):
    name = "W11-postgres"

    def rate(text, contestant=None):
        return Figure(text, earlier.rate(name, contestant), 100)

    def scatter(contestant, *texts):
        rates = earlier.row(name)["contestants"][contestant]["rate_of_each_window"]
        return tuple(Figure(text, each, 100) for text, each in zip(texts, (min(rates), max(rates)), strict=True))

    return (
        Source("W11-postgres with a GPU", (
            Figure("7", earlier.windows(name)), Figure("3", earlier.saved["pace"]["seconds"]), rate("102,400"), Figure("157", 1000 * earlier.gigabytes(name)),
            *earlier.over(name, TABLE, ("1.047", "0.977", "1.221")), rate("87,400", TABLE), *given("0.9"), rate("150,200", "model alone"),
            rate("101,500", "tokenizer alone"))),
        Source("It scatters", (*scatter("ours", "84,600", "118,800"), *scatter(TABLE, "81,700", "107,700"), *scatter("tokenizer alone", "94,800", "136,400"))))


def memory(now):
    def between(rows, role, least, most):
        return Figure(least, now.least(rows, f"{role}_private_mib")), Figure(most, now.most(rows, f"{role}_private_mib"))

    def same(text, rows, role):
        least, most = between(rows, role, text, text)
        return most if most.wrong() else least

    return Source("Producer 18", (
        *between(WITHOUT_MODEL, "producer", "18", "19"), *between(DEEPLAB, "producer", "806", "808"), *between(IN_PLACE, "readers", "8", "13"),
        same("72", COPIED, "readers"), Figure("1,544", now.median("W10-cut-out", "readers_private_mib")), Figure("12", now.readers("W10-cut-out"))))
