"""Timestamps of a status."""

import datetime


def seconds_of(time):
    """Seconds since 1970 for a UTC time such as `2026-01-31T12:00:00.000Z`; None if it is not one."""
    try:
        return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except (AttributeError, TypeError, ValueError):
        return None


def age_of(status, whole):
    """Seconds from the `time` of one table to that of the other; None if unknown."""
    then, now = seconds_of(status.get("time")), seconds_of(whole.get("time"))
    return max(0.0, now - then) if then is not None and now is not None else None
