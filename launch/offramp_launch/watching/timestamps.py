"""Moments as a status tells them."""

import datetime


def seconds_of(time):
    """Since 1970, of a moment in UTC as `2026-01-31T12:00:00.000Z`; None where it is none."""
    try:
        return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except (AttributeError, TypeError, ValueError):
        return None


def age_of(told, whole):
    """Seconds from one `time` to another, of tables that have one; None where that is not known."""
    then, now = seconds_of(told.get("time")), seconds_of(whole.get("time"))
    return max(0.0, now - then) if then is not None and now is not None else None
