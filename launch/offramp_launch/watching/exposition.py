"""Metrics as text for Prometheus: its format 0.0.4, or OpenMetrics 1.0.0 on request."""

import dataclasses
import math

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOTAL, INFO = "_total", "_info"


@dataclasses.dataclass
class Family:
    """All series of one name. `name`: as written in a sample, with `_total` or `_info` if any."""

    name: str
    kind: str  # counter, gauge, histogram, info
    help: str
    samples: list = dataclasses.field(default_factory=list)  # (suffix of the name, labels, value)

    def add(self, value, labels):
        if (value := number(value)) is not None:
            self.samples.append(("", labels, value))

    def add_histogram(self, bounds, counts, total, labels):
        """`bounds`: ascending. `counts`: of each bucket alone, one more. `total`: the sum of the observations."""
        bounds, counts, total = list(map(number, bounds)), list(map(number, counts)), number(total)
        if None in (*bounds, *counts, total) or len(counts) != len(bounds) + 1:
            return
        so_far = 0
        for bound, count in zip([*map(float, bounds), math.inf], counts):
            so_far += count
            self.samples.append(("_bucket", {**labels, "le": shown(bound)}, so_far))
        self.samples += [("_sum", labels, total), ("_count", labels, so_far)]


def text_of(families, open_metrics=False):
    lines = []
    for family in families:
        if family.samples:
            name, kind = named(family, open_metrics)
            lines += [f"# HELP {name} {escaped_help(family.help)}", f"# TYPE {name} {kind}"]
            lines += [
                f"{family.name}{suffix}{in_braces(labels)} {shown(value)}" for suffix, labels, value in family.samples
            ]
    return "\n".join([*lines, *(["# EOF"] if open_metrics else [])]) + "\n"


def named(family, open_metrics):
    """(the family's name, its type): the two formats differ in both."""
    if not open_metrics:
        return family.name, "gauge" if family.kind == "info" else family.kind
    ending = {"counter": TOTAL, "info": INFO}.get(family.kind, "")
    return family.name[: len(family.name) - len(ending)], family.kind


def in_braces(labels):
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def escaped(value):
    """A label's value. Invalid UTF-8 is replaced: it would make the whole text unreadable."""
    text = str(value).encode(errors="replace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def escaped_help(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def shown(value):
    if isinstance(value, float) and math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def number(value):
    """The value if it is a number, else None: another version may report something else, or nothing yet."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None
