"""Arithmetic of half-open intervals (begin, end), such as times in nanoseconds and numbers of items."""


def union(intervals, begin, end):
    """The intervals joined and cut to [begin, end), in order and without overlap."""
    joined: list = []
    for first, last in sorted((max(first, begin), min(last, end)) for first, last in intervals):
        if last <= first:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def gaps(intervals, begin, end):
    """The parts of [begin, end) that no interval covers."""
    found, at = [], begin
    for first, last in union(intervals, begin, end):
        if first > at:
            found.append((at, first))
        at = last
    return [*found, (at, end)] if at < end else found


def total(intervals):
    return sum(last - first for first, last in intervals)
