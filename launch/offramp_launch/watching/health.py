"""Whether a run lives, and whether it takes work off the device: what /livez and /readyz say."""

from offramp_launch.progress import ENDS
from offramp_launch.watching.diagnosis import OLD_STATUSES, SILENT_SECONDS
from offramp_launch.watching.timestamps import seconds_of

TAKE_OVER_SECONDS = 600                 # from a producer's death to what the next one tells first: it opens the input, and loads the model


def alive(document, now):
    """(whether, why) of the status document. `now`: seconds since 1970."""
    if document.get("finishing"):
        return True, "the programs have ended; results are put together"
    told = [(f"{name}: ", each) for name, each in (document.get("workers") or {}).items() if each.get("run_dir")] or [("", document)]
    found = [(well, f"{whose}{why}") for whose, each in told for well, why in [alive_alone(each, now)]]
    return next((each for each in found if not each[0]), found[0])


def alive_alone(told, now):
    """Of one producer's run."""
    status = told.get("status") or {}
    if told.get("taking_over"):
        died = seconds_of(told.get("taking_over_since"))
        if died is None or now - died < TAKE_OVER_SECONDS:
            return True, "another producer takes over"
        return False, f"a producer died {now - died:.0f} s ago, and the one that is to take over has told nothing"
    if not status:
        return True, "the producer begins"
    if status.get("state") in ENDS:
        return True, f"the run has {status['state']}" if status["state"] != "abandoned" else "the run was abandoned"
    if (written := seconds_of(status.get("time"))) is None:
        return True, "the run is watched"
    age = now - written
    old = max(SILENT_SECONDS, OLD_STATUSES * (told.get("status_seconds") or 0))
    return (True, "the producer tells of itself") if age < old else (False, f"the producer has told nothing for {age:.0f} s (status.json is of {status['time']})")


def ready(document, now):
    """(whether, why): it runs, and a consumer is there that takes slabs."""
    well, why = alive(document, now)
    status = document.get("status") or {}
    if not well:
        return False, why
    if document.get("ending"):
        return False, "the run was told to end"
    if document.get("finishing") or status.get("state") != "running":
        return False, f"the run is {status.get('state') or 'starting'}"
    if not any(consumer.get("ready") and not consumer.get("stalled") and not consumer.get("end") for consumer in status.get("consumers") or []):
        return False, "no consumer takes slabs"
    return True, "the run takes work, and so do its consumers"
