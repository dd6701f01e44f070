"""Draws a run as lines of a terminal, for `offramp top`. Needs rich."""

import time

from rich.text import Text

from offramp_launch.progress import settled
from offramp_launch.screen import one_line
from offramp_launch.watching.diagnosis import STATES, WORDS, at_clock, counted, faults, how_many_consumers, in_words, is_over, left_in_words, mute_workers, number, per_second, percent, sentence, slabs_of

WIDE = 120              # from this many columns on, two columns of blocks
TIGHT = 26              # below this many lines, the log and the faults give way
GUTTER = 4
CHART_SECONDS = 60
BARS = " ▁▂▃▄▅▆▇█"
# A slab's character and style per state. Characters differ, so colour is not needed.
CELLS = {"free": ("·", "dim"), "filling": ("▄", "blue dim"), "ready": ("▒", "blue"), "leased": ("█", "blue"), "retired": ("/", "dim"), "dead_letters": ("x", "bold red")}
ACCENT, QUIET, ALARM, HEAD = "blue", "dim", "red", "bold"
KEYS = "+ - one consumer more or less   f autoscale   r reload   q leave"


def draw(document, seen, width, height, note=None):
    """At most `height` lines, none wider than `width`. `note`: (text, whether it is an alarm), such as the result of the last key."""
    top = [*head_lines(document, seen, width), *progress_lines(document, seen, width), Text()]
    room = height - len(top) - 1
    body = two_columns(document, seen, width, room) if width >= WIDE else one_column(document, seen, width, room)
    lines = [*top, *body][:height - 1]
    lines += [Text()] * (height - 1 - len(lines))
    return [cut(line, width) for line in (*lines, cells((note[0], ALARM if note[1] else HEAD) if note else (KEYS, QUIET)))]


def cells(*parts):
    """A line of (text, style) pairs. Markup and control characters in the text have no effect."""
    return Text.assemble(*((one_line(str(text)), style) for text, style in parts), no_wrap=True)


def cut(line, width, pad=False):
    line = line.copy()
    line.truncate(width, overflow="ellipsis", pad=pad)
    return line


def wrapped(text, style, width, most):
    """At most `most` lines."""
    words, lines = one_line(text).split(" "), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) > most:
        lines[most - 1:] = [" ".join(lines[most - 1:])]
    return [cells((line, style)) for line in lines]


def beside(left, right, width):
    """One line with something at each end."""
    gap = width - left.cell_len - right.cell_len
    return Text.assemble(left, " " * gap, right) if gap > 1 else left


def head_lines(document, seen, width):
    status, now = document.get("status") or {}, sentence(document, seen.silent)
    facts = [f"run {document.get('run_id')}", (status.get("model") or status.get("name") or "").split(",")[0], status.get("device")]
    style = f"bold {ALARM}" if now.kind in ("failed", "no consumers") else "bold"
    why = wrapped(now.why, ALARM, width, 3) if now.alarm else [cells((now.why, QUIET))]
    return [beside(cells(("offramp top  ", HEAD), ("  ".join(filter(None, facts)), QUIET)), cells((status.get("state") or "starting", QUIET)), width),
            *wrapped(now.text, style, width, 3), *why]


def progress_lines(document, seen, width):
    status = document.get("status") or {}
    done, total = status.get("done_samples") or 0, status.get("total_samples")
    rate = "" if is_over(document) else per_second(status.get("samples_per_second"))
    left = cells((f"{min(99, int(100 * done / total)) if done < total else 100} %  ", HEAD), (f"{number(done)} of {number(total)}", "")) if total else cells((counted(done, "sample"), HEAD))
    chart = chart_of(seen.line("rate", 20, CHART_SECONDS), None)
    line = beside(Text.assemble(left, "   ", chart, "  ", (rate, HEAD)), cells((left_in_words(document, time.time()), "")), width)
    return [bar(done / total, (settled(status) - done) / total, width), line] if total else [line]


def bar(done, lost, width):
    whole = min(width, int(done * width))
    bad = min(width - whole, round(lost * width) or bool(lost > 0))
    return Text.assemble(("━" * whole, ACCENT), ("━" * bad, ALARM), ("─" * (width - whole - bad), QUIET))


def chart_of(values, most=1.0):
    """A bar for each value. `most`: the value of a full bar; None: the greatest value."""
    most = most or max((value for value in values if value is not None), default=0)
    return Text("".join(" " if value is None else BARS[max(1, min(8, round(8 * value / most)))] if most and value else "▁" for value in values), ACCENT)


def headed(title, aside, lines, width):
    return [beside(cells((title, HEAD)), cells((aside, QUIET)), width), *lines]


def slab_lines(document, width, most):
    slabs = slabs_of(document)
    if not slabs:
        return []
    counts = {state: sum(slab.state == state for slab in slabs) for state in STATES}
    legend = Text("  ").join(cells(CELLS[state], (f" {number(counts[state])} {WORDS[state]}", "" if counts[state] else QUIET)) for state in STATES
                             if counts[state] or state not in ("retired", "dead_letters"))
    legends = [legend] if legend.cell_len <= width else [Text("  ").join(cells(CELLS[state], (f" {number(counts[state])} {state}", "")) for state in STATES if counts[state])]
    room = max(1, most - 1 - len(legends))
    per_line = width if len(slabs) > width // 2 * room else width // 2
    if len(slabs) > per_line * room:        # as shares of a line
        rows = [Text.assemble(*((CELLS[state][0] * round(counts[state] / len(slabs) * width), CELLS[state][1]) for state in STATES))]
    else:
        space = " " if per_line < width else ""
        rows = [Text.assemble(*((CELLS[slab.state][0] + space, CELLS[slab.state][1]) for slab in slabs[first:first + per_line])) for first in range(0, len(slabs), per_line)]
    return headed("Slabs", number(len(slabs)), [*rows, *legends], width)


def lane_lines(seen, width):
    lines = []
    for name in ("compute", "copy", "consumers"):
        now = getattr(seen.moments[-1], name) if seen.moments else None
        lines.append(beside(Text.assemble(f"{name:10} ", chart_of(seen.line(name, max(10, width - 18), CHART_SECONDS))), cells(("–" if now is None else percent(now), HEAD)), width))
    return headed("Busy", f"last {CHART_SECONDS} s", lines, width)


def consumer_lines(document, seen, width, most):
    consumers = (document.get("status") or {}).get("consumers") or []
    aside = how_many_consumers(document)
    if not consumers:
        return headed("Consumers", aside, [cells(("All consumers have left." if is_over(document) else "No consumer is connected.", QUIET))], width)
    shown = consumers if len(consumers) <= most - 2 else sorted(consumers, key=lambda each: not each.get("stalled"))[:max(1, most - 3)]
    lines = [consumer_line("number", "process", "busy", "rate", "done", "for", "holds slab", QUIET)]
    for each in shown:
        pid = each.get("pid")
        share, rate = seen.growth(lambda moment: moment.busy.get(pid)), seen.growth(lambda moment: moment.done.get(pid))
        held = each.get("held") or []
        slabs = f"{len(held)} slabs" if len(held) > 6 else ", ".join(map(str, held)) or (each.get("holding") or ("–" if each.get("ready") is not False else "starting"))
        age = f"{each.get('oldest_hold_seconds') or 0:.1f} s" if each.get("holding") else "–"
        lines.append(consumer_line(each.get("session"), pid, "–" if share is None else percent(min(1, share)), "–" if rate is None else per_second(rate), number(each.get("samples")),
                                   age, f"{slabs}{'  stalled' if each.get('stalled') else ''}", f"bold {ALARM}" if each.get("stalled") else ""))
    if len(shown) < len(consumers):
        lines.append(cells((f"and {len(consumers) - len(shown)} more", QUIET)))
    return headed("Consumers", aside, lines, width)


def consumer_line(name, pid, busy, rate, done, age, slabs, style):
    return cells((f"{name!s:>6} {pid!s:>8} {busy:>6} {rate:>9} {done:>10} {age:>8}  {slabs}", style))


def producer_lines(document, width, most):
    workers = (document.get("status") or {}).get("workers") or []
    if not workers:
        return []
    mute = dict(mute_workers(document))
    lines = [cells((f"{worker.get('name')!s:14} ", HEAD), (f"{'shard ' + str(worker.get('shard')) if worker.get('shard') is not None else worker.get('state')!s:12}", ALARM if worker.get("state") == "lost" else ""),
                   (f"  silent for {in_words(mute[worker.get('name')])}" if worker.get("name") in mute else "", f"bold {ALARM}"),
                   (f"{per_second(worker.get('samples_per_second')):>10}  {counted(worker.get('consumers') or 0, 'consumer')}  ", ""), (worker.get("run_dir") or worker.get("why_lost") or "", QUIET)) for worker in workers]
    return headed("Producers", f"{sum(worker.get('state') == 'at work' for worker in workers)} of {len(workers)} at work", lines[:max(1, most - 1)], width)


def fault_lines(document, width, most):
    """A single line if `most` is 1, or if there are no faults."""
    found = faults(document)
    if not found:
        return [beside(cells(("What went wrong", HEAD)), cells(("nothing", QUIET)), width)]
    if most == 1:
        return [Text.assemble(cells(("Went wrong  ", f"bold {ALARM}")), Text("; ").join(cells((f"{count} {text}", "")) for count, text, _ in found))]
    return headed("What went wrong", "", [cells((f"{count:>8}  ", "" if mild else ALARM), (text, "")) for count, text, mild in found][:most - 1], width)


def log_lines(document, width, most):
    lines = document.get("log") or []
    return headed("Log", "newest last", [cells((at_clock(line), "")) for line in lines[-max(1, most - 1):]], width) if most > 1 and lines else []


def stacked(*blocks):
    """Blocks of lines with an empty line between them."""
    lines = []
    for block in blocks:
        lines += [*([Text()] if lines and block else []), *block]
    return lines


def one_column(document, seen, width, room):
    above = stacked(producer_lines(document, width, 5), slab_lines(document, width, 3 if room < TIGHT else 8), lane_lines(seen, width))
    wrong = fault_lines(document, width, 1 if room < TIGHT else 7)
    consumers = consumer_lines(document, seen, width, max(3, room - len(above) - len(wrong) - (2 if room < TIGHT else 10)))
    lines = stacked(above, consumers, wrong)
    return stacked(lines, log_lines(document, width, room - len(lines) - 1))


def two_columns(document, seen, width, room):
    half = (width - GUTTER) // 2
    left = stacked(slab_lines(document, half, 10), lane_lines(seen, half), fault_lines(document, half, 9))
    right = consumer_lines(document, seen, half, max(4, room - 12))
    producers = producer_lines(document, width, 9)
    rows = max(len(left), len(right))
    both = [Text.assemble(cut(one, half, pad=True), " " * GUTTER, other)
            for one, other in zip([*left, *[Text()] * (rows - len(left))], [*right, *[Text()] * (rows - len(right))])]
    lines = stacked(producers, both)
    return stacked(lines, log_lines(document, width, room - len(lines) - 1))
