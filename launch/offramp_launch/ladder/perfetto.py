"""The ladder as a trace for Perfetto (https://ui.perfetto.dev) and chrome://tracing: one group of processes per rung."""

import json

from offramp_launch.ladder.rungs import rung_named
from offramp_launch.tracing.chrome_events import events_of

PROGRAMS_OF_A_RUNG = 1000


def trace_events(ladder):
    """Chrome's JSON trace format. Times are microseconds from each rung's first measured batch, so rungs are aligned."""
    events = []
    for index, key in enumerate(ladder.keys, start=1):
        trace = ladder.traces[key]
        begins = [entry.begin for program in trace.programs for entry in program.ranges]
        zero = trace.window[0] if trace.window else min(begins, default=0)
        for number, program in enumerate(trace.programs):
            name = f"{index} {rung_named(key).title}: {program.process} {program.pid}"
            events += events_of(program, index * PROGRAMS_OF_A_RUNG + number, name, zero)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def as_json(ladder):
    return json.dumps(trace_events(ladder), separators=(",", ":")) + "\n"
