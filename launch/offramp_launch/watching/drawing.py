"""Draws a run as lines of a terminal, for `offramp top`. Needs rich."""

import textwrap
import time

from rich.text import Text

from offramp_launch.screen import one_line
from offramp_launch.watching.diagnosis import at_clock, counted, in_words, number, percent, until
from offramp_launch.watching.view import LETTERS, STATES, view_of

WIDE = 120  # from this many columns on, two columns of blocks
TIGHT = 26  # below this many lines, the log and the faults give way
GUTTER = 4
CHART_SECONDS = 60
BARS = " ▁▂▃▄▅▆▇█"
# A slab's character and style per state. Characters differ, so colour is not needed.
CELLS = {
    "free": ("·", "dim"),
    "filling": ("▄", "blue dim"),
    "ready": ("▒", "blue"),
    "leased": ("█", "blue"),
    "retired": ("/", "dim"),
    "dead_letters": ("x", "bold red"),
}
ACCENT, QUIET, ALARM, HEAD = "blue", "dim", "red", "bold"
KEYS = "+ - one consumer more or less   f autoscale   r reload   q leave"
KEYS_WITH_GROUPS = "r reload   q leave   ./launch/offramp scale NAME=N sets a group's consumers"


def draw(document, seen, width, height, note=None):
    """At most `height` lines, none wider than `width`. `note`: (text, whether it alarms), such as a key's result."""
    view = view_of(document, seen)
    top = [*head_lines(document, view, width), *progress_lines(document, view, seen, width), Text()]
    room = height - len(top) - 1
    body = (two_columns if width >= WIDE else one_column)(view, seen, document.get("log") or [], width, room)
    lines = [*top, *body][: height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    last = (KEYS_WITH_GROUPS if view["groups"] else KEYS, QUIET)
    if note:
        last = (note[0], ALARM if note[1] else HEAD)
    return [cut(line, width) for line in (*lines, cells(last))]


def cells(*parts):
    """A line of (text, style) pairs. Markup and control characters in the text have no effect."""
    return Text.assemble(*((one_line(str(text)), style) for text, style in parts), no_wrap=True)


def cut(line, width, pad=False):
    line = line.copy()
    line.truncate(width, overflow="ellipsis", pad=pad)
    return line


def wrapped(text, style, width, most):
    """At most `most` lines."""
    lines = textwrap.wrap(one_line(text), max(1, width), break_long_words=False, break_on_hyphens=False) or [""]
    if len(lines) > most:
        lines[most - 1 :] = [" ".join(lines[most - 1 :])]
    return [cells((line, style)) for line in lines]


def beside(left, right, width):
    """One line with something at each end."""
    gap = width - left.cell_len - right.cell_len
    return Text.assemble(left, " " * gap, right) if gap > 1 else left


def head_lines(document, view, width):
    status, now = document.get("status") or {}, view["sentence"]
    model = (status.get("model") or status.get("name") or "").split(",")[0]
    facts = [f"run {document.get('run_id')}", model, status.get("device")]
    style = f"bold {ALARM}" if now["kind"] in ("failed", "no consumers") else "bold"
    why = wrapped(now["why"], ALARM, width, 3) if now["alarm"] else [cells((now["why"], QUIET))]
    first = cells(("offramp top  ", HEAD), ("  ".join(filter(None, facts)), QUIET))
    state = cells((status.get("state") or "starting", QUIET))
    return [beside(first, state, width), *wrapped(now["text"], style, width, 3), *why]


def progress_lines(document, view, seen, width):
    status, seconds = document.get("status") or {}, view["left_seconds"]
    done, total = status.get("done_samples") or 0, status.get("total_samples")
    share = cells((counted(done, "sample"), HEAD))
    if total:
        whole = min(99, int(100 * done / total)) if done < total else 100
        share = cells((f"{whole} %  ", HEAD), (f"{number(done)} of {number(total)}", ""))
    chart = chart_of(seen.line("rate", 20, CHART_SECONDS), None)
    left = "" if seconds is None else f"{in_words(seconds)} left, until {until(seconds, time.time())}"
    rate = ("" if view["is_over"] else view["rate"], HEAD)
    line = beside(Text.assemble(share, "   ", chart, "  ", rate), cells((left, "")), width)
    return [bar(done / total, (view["settled"] - done) / total, width), line] if total else [line]


def bar(done, lost, width):
    whole = min(width, int(done * width))
    bad = min(width - whole, round(lost * width) or bool(lost > 0))
    return Text.assemble(("━" * whole, ACCENT), ("━" * bad, ALARM), ("─" * (width - whole - bad), QUIET))


def chart_of(values, most=1.0):
    """A bar for each value. `most`: the value of a full bar; None: the greatest value."""
    most = most or max((value for value in values if value is not None), default=0)

    def bar_of(value):
        return BARS[max(1, min(8, round(8 * value / most)))] if most and value else "▁"

    return Text("".join(" " if value is None else bar_of(value) for value in values), ACCENT)


def headed(title, aside, lines, width):
    return [beside(cells((title, HEAD)), cells((aside, QUIET)), width), *lines]


def slab_lines(view, width, most):
    slabs = [LETTERS[letter] for each in view["slabs"] for letter in each["states"]]
    if not slabs:
        return []
    counts = {state: slabs.count(state) for state in LETTERS.values()}
    legend = Text("  ").join(
        cells(CELLS[state], (f" {number(counts[state])} {words}", "" if counts[state] else QUIET))
        for _, state, words in STATES
        if counts[state] or state not in ("retired", "dead_letters")
    )
    if legend.cell_len > width:
        shown = [(state, count) for state, count in counts.items() if count]
        legend = Text("  ").join(cells(CELLS[state], (f" {number(count)} {state}", "")) for state, count in shown)
    room = max(1, most - 2)
    per_line = width if len(slabs) > width // 2 * room else width // 2
    if len(slabs) > per_line * room:  # as shares of a line
        shares = ((CELLS[state], round(count / len(slabs) * width)) for state, count in counts.items())
        rows = [Text.assemble(*((character * share, style) for (character, style), share in shares))]
    else:
        space = " " if per_line < width else ""
        rows = [
            Text.assemble(*((CELLS[state][0] + space, CELLS[state][1]) for state in slabs[first : first + per_line]))
            for first in range(0, len(slabs), per_line)
        ]
    return headed("Slabs", view["slabs_in_words"], [*rows, legend], width)


def lane_lines(seen, width):
    lines = []
    for name in ("compute", "copy", "consumers"):
        now = getattr(seen.moments[-1], name) if seen.moments else None
        chart = chart_of(seen.line(name, max(10, width - 18), CHART_SECONDS))
        share = cells(("–" if now is None else percent(now), HEAD))
        lines.append(beside(Text.assemble(f"{name:10} ", chart), share, width))
    return headed("Busy", f"last {CHART_SECONDS} s", lines, width)


def group_lines(view, width):
    lines = [group_line("group", "consumers", "waiting", "leased", "done", "lost", QUIET)]
    for each in view["groups"]:
        about = ", ".join(filter(None, (each["scaling"], each["lost"], "optional" * each["optional"], each["note"])))
        numbers = each["consumers"], each["waiting"], each["leased"], each["done"]
        lines.append(group_line(each["name"], *numbers, about, f"bold {ALARM}" if each["is_alarm"] else ""))
    return headed("Groups", "slabs, samples", lines, width) if view["groups"] else []


def group_line(name, consumers, waiting, leased, done, about, style):
    return cells((f"{name:16} {consumers:>9} {waiting:>7} {leased:>6} {done:>10}  {about}", style))


def consumer_lines(view, width, most):
    consumers, aside = view["consumers"], view["consumers_in_words"]
    if not consumers:
        return headed("Consumers", aside, [cells((view["no_consumers"], QUIET))], width)
    shown = consumers
    if len(consumers) > most - 2:
        shown = sorted(consumers, key=lambda each: not each["is_stalled"])[: max(1, most - 3)]
    wide = max(len("number"), *(len(str(each["number"])) for each in shown))
    lines = [consumer_line("number", wide, "process", "busy", "rate", "done", "for", "holds slab", QUIET)]
    lines += [
        consumer_line(
            each["number"],
            wide,
            each["pid"],
            "–" if each["busy"] is None else percent(each["busy"]),
            each["rate"],
            each["done"],
            each["age"],
            each["held"] + "  stalled" * each["is_stalled"],
            f"bold {ALARM}" if each["is_stalled"] else "",
        )
        for each in shown
    ]
    if len(shown) < len(consumers):
        lines.append(cells((f"and {len(consumers) - len(shown)} more", QUIET)))
    return headed("Consumers", aside, lines, width)


def consumer_line(name, wide, pid, busy, rate, done, age, slabs, style):
    return cells((f"{name!s:>{wide}} {pid!s:>8} {busy:>6} {rate:>9} {done:>10} {age:>8}  {slabs}", style))


def producer_lines(view, width, most):
    lines = [
        cells(
            (f"{each['name']:14} ", HEAD),
            (f"{each['state']:12}", f"bold {ALARM}" if each["is_alarm"] else ""),
            (f"{each['rate']:>10}  {each['consumers']}  ", ""),
            (each["place"], QUIET),
        )
        for each in view["producers"]
    ]
    return headed("Producers", view["producers_in_words"], lines[: max(1, most - 1)], width) if lines else []


def fault_lines(view, width, most):
    """A single line if `most` is 1, or if there are no faults."""
    found = [(at_clock(count), text, mild) for count, text, mild in view["faults"]]
    if not found:
        return [beside(cells(("What went wrong", HEAD)), cells(("nothing", QUIET)), width)]
    if most == 1:
        all_found = Text("; ").join(cells((f"{count} {text}", "")) for count, text, _ in found)
        return [Text.assemble(cells(("Went wrong  ", f"bold {ALARM}")), all_found)]
    lines = [cells((f"{count:>8}  ", "" if mild else ALARM), (text, "")) for count, text, mild in found]
    return headed("What went wrong", "", lines[: most - 1], width)


def log_lines(log, width, most):
    lines = [cells((at_clock(line), "")) for line in log[-max(1, most - 1) :]]
    return headed("Log", "newest last", lines, width) if most > 1 and log else []


def stacked(*blocks):
    """Blocks of lines with an empty line between them."""
    lines: list[Text] = []
    for block in blocks:
        lines += [*([Text()] if lines and block else []), *block]
    return lines


def one_column(view, seen, log, width, room):
    above = stacked(
        producer_lines(view, width, 5),
        slab_lines(view, width, 3 if room < TIGHT else 8),
        lane_lines(seen, width),
        group_lines(view, width),
    )
    wrong = fault_lines(view, width, 1 if room < TIGHT else 7)
    consumers = consumer_lines(view, width, max(3, room - len(above) - len(wrong) - (2 if room < TIGHT else 10)))
    lines = stacked(above, consumers, wrong)
    return stacked(lines, log_lines(log, width, room - len(lines) - 1))


def two_columns(view, seen, log, width, room):
    half = (width - GUTTER) // 2
    left = stacked(slab_lines(view, half, 10), lane_lines(seen, half), fault_lines(view, half, 9))
    groups = group_lines(view, half)
    right = stacked(groups, consumer_lines(view, half, max(4, room - 12 - len(groups))))
    rows = max(len(left), len(right))
    both = [
        Text.assemble(cut(one, half, pad=True), " " * GUTTER, other)
        for one, other in zip([*left, *[Text()] * (rows - len(left))], [*right, *[Text()] * (rows - len(right))])
    ]
    lines = stacked(producer_lines(view, width, 9), both)
    return stacked(lines, log_lines(log, width, room - len(lines) - 1))
