"""Health of a run for /livez and /readyz: whether it is alive, and whether its consumers take slabs."""

from offramp_launch.progress import ENDS
from offramp_launch.watching.diagnosis import silent_after
from offramp_launch.watching.timestamps import seconds_of

TAKE_OVER_SECONDS = (
    600  # from a producer's death to its replacement's first report: that opens the input and loads the model
)


def alive(document, now):
    """(whether the run is alive, why). `now`: seconds since 1970."""
    if document.get("finishing"):
        return True, "the programs have ended; the launcher merges the results"
    reports = [
        (f"{name}: ", each) for name, each in (document.get("workers") or {}).items() if each.get("run_dir")
    ] or [("", document)]
    found = [(well, f"{whose}{why}") for whose, each in reports for well, why in [producer_alive(each, now)]]
    return next((each for each in found if not each[0]), found[0])


def producer_alive(report, now):
    """(whether, why) of one producer's run."""
    status = report.get("status") or {}
    if report.get("taking_over"):
        died = seconds_of(report.get("taking_over_since"))
        if died is None or now - died < TAKE_OVER_SECONDS:
            return True, "another producer takes over"
        return False, f"a producer died {now - died:.0f} s ago, and its replacement has not reported"
    if not status:
        return True, "the producer is starting"
    if status.get("state") in ENDS:
        return True, f"the run has {status['state']}" if status["state"] != "abandoned" else "the run was abandoned"
    if (written := seconds_of(status.get("time"))) is None:
        return True, "the producer reports, without a time"
    age = now - written
    return (
        (True, "the producer reports")
        if age < silent_after(report)
        else (False, f"the producer has not reported for {age:.0f} s (status.json is from {status['time']})")
    )


def ready(document, now):
    """(whether the run works and a consumer takes slabs, why)."""
    well, why = alive(document, now)
    status = document.get("status") or {}
    if not well:
        return False, why
    if document.get("ending"):
        return False, "the run is being stopped"
    if document.get("finishing") or status.get("state") != "running":
        return False, f"the run is {status.get('state') or 'starting'}"
    if not any(
        consumer.get("ready") and not consumer.get("stalled") and not consumer.get("end")
        for consumer in status.get("consumers") or []
    ):
        return False, "no consumer takes slabs"
    return True, "the run and its consumers take work"
