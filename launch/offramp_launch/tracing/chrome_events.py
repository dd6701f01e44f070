"""Programs' time ranges in Chrome's JSON trace format, for Perfetto (https://ui.perfetto.dev)."""

import json

LANE_NAMES = {"h2d": "GPU h2d", "compute": "GPU compute", "d2h": "GPU d2h"}
# Ranges that overlap others on their thread: a thread's stack of slices cannot hold them.
OVERLAPPING = ("hand_over",)


def write(programs, out):
    """`programs`: the arguments of events_of() for each; they may be read while others are written to file `out`."""
    text_of = json.JSONEncoder(separators=(",", ":")).encode
    out.write('{"displayTimeUnit":"ms","traceEvents":[')
    comma = ""
    for program in programs:
        for event in events_of(*program):
            out.write(comma + text_of(event))
            comma = ",\n"
    out.write("]}\n")


def events_of(program, group, name, zero):
    """A program's events. `group`: its process number in the trace. `zero`: the trace's time 0, in nanoseconds."""
    yield _metadata(group, "process_name", name=name)
    yield _metadata(group, "process_sort_index", sort_index=group)
    yield from _of_program(program, group, zero)


def _metadata(group, what, thread=0, **arguments):
    return {"ph": "M", "pid": group, "tid": thread, "name": what, "args": arguments}


def _of_program(program, group, zero):
    # The device's lanes first: readers look for them.
    order = {"h2d": 0, "compute": 1, "d2h": 2}
    lanes = sorted(
        {_lane(entry) for entry in program.ranges}, key=lambda lane: (order.get(lane[0], 9) if lane[1] else 10, lane)
    )
    threads = {lane: thread for thread, lane in enumerate(lanes, start=1)}
    for lane, thread in threads.items():
        yield _metadata(group, "thread_name", thread, name=LANE_NAMES.get(lane[0], lane[0]) if lane[1] else lane[0])
        yield _metadata(group, "thread_sort_index", thread, sort_index=thread)
    for number, entry in enumerate(program.ranges):
        yield from _of_range(entry, group, threads[_lane(entry)], zero, f"{group}.{number}")


def _lane(entry):
    return (entry.lane, entry.device)


def _of_range(entry, group, thread, zero, identity):
    begin = (entry.begin - zero) / 1e3
    where = {"pid": group, "tid": thread, "name": entry.name, "cat": "device" if entry.device else "host"}
    if entry.name in OVERLAPPING:
        return [
            {"ph": "b", "id": identity, "ts": begin, "args": {"batch": entry.batch}, **where},
            {"ph": "e", "id": identity, "ts": (entry.end - zero) / 1e3, **where},
        ]
    if entry.begin == entry.end:
        return [{"ph": "i", "s": "p", "ts": begin, **where}]
    return [{"ph": "X", "ts": begin, "dur": (entry.end - entry.begin) / 1e3, "args": {"batch": entry.batch}, **where}]
