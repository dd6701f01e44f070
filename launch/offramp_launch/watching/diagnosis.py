"""Diagnosis of a status document for people: one sentence, and the faults."""

import dataclasses
import datetime
import math
import re

from offramp_launch.exit_code import ExitCode
from offramp_launch.places import as_typed
from offramp_launch.retries import error_in
from offramp_launch.progress import BUSY, ENDS, LOSSES, seconds_left, settled
from offramp_launch.supervision.group_status import drops, unfinished
from offramp_launch.watching.timestamps import age_of, seconds_of

LISTED_DEATHS = 5
DAY_SECONDS = 86400
SILENT_SECONDS = 5  # for a producer that reports twice a second
OLD_STATUSES = 3  # for a producer that reports less often, in its intervals
LIMITS = {
    "turn": "Ready: another program computes on this device, and this one is next",
    "program": "The program is the limit: a slab is free whenever it has a batch",
}
# first words of a producer's message that explains why no slab is free
SHORTAGES = ("no consumers", "every consumer is leaving", "all slabs are in use")
ONE = {"s": "", "y": "y", "it": "it", "they": "it", "their": "its", "a": "a "}
SEVERAL = {"s": "s", "y": "ies", "it": "them", "they": "they", "their": "their", "a": ""}
REPLACEMENTS = ("restarts", "takeovers")
# (its count, the text, whether nothing is lost)
FAULTS = (
    (
        "dead_lettered_samples",
        "sample{s} dead-lettered because consumers died or failed on {it}: ./launch/offramp dead-letters list",
        False,
    ),
    ("dropped_samples", "sample{s} dropped: no slab was free", False),
    ("skipped", "item{s} skipped: {they} could not be read", False),
    ("spilled_samples", "sample{s} on disk, waiting for a consumer", True),
    ("failed", "slab{s} that {a}consumer{s} returned as failed", False),
    ("redelivered", "slab{s} redelivered: {their} first consumer{s} did not finish {it}", True),
    ("restarts", "consumer{s} restarted", True),
    ("takeovers", "producer{s} that replaced {a}dead one{s}", True),
    ("visibility_timeouts", "deliver{y} that exceeded the visibility timeout", False),
)


@dataclasses.dataclass(frozen=True)
class Sentence:
    kind: str
    text: str
    why: str = ""
    alarm: bool = False  # an operator has to act


def rounded(value):
    return math.floor(value + 0.5)


def number(value):
    return f"{rounded(value or 0):,}"


def percent(share):
    return f"{rounded(100 * share)} %"


def per_second(value):
    return f"{value or 0:.1f}/s" if (value or 0) < 100 else f"{number(value)}/s"


def counted(count, one, many=None):
    return f"{number(count)} {one if count == 1 else many or f'{one}s'}"


def are(count):
    return "is" if count == 1 else "are"


def in_words(seconds):
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"{rounded(seconds)} s"
    minutes = rounded(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def ran_seconds(status):
    """Seconds since the run began; None if not reported."""
    began, now = status.get("began_ns"), status.get("now_ns")
    return (now - began) / 1e9 if began and now and now > began else None


def amount(document):
    """Samples done and the time they took; after --resume also this run's share."""
    status = document.get("status") or {}
    done, total, seconds = status.get("done_samples") or 0, status.get("total_samples"), ran_seconds(status)
    before = status.get("done_before") or document.get("done_before") or 0
    lasted = f" in {in_words(seconds)}" if seconds else ""
    words = f"{number(done)} of {counted(total, 'sample')}" if total else counted(done, "sample")
    return f"{words}, {number(done - before)} of them{lasted or ' by this run'}" if before else f"{words}{lasted}"


def sentence(document, silent=0):
    """`silent`: seconds since the status last changed."""
    return sentence_of_an_end(document) or sentence_of_a_loss(document, silent) or sentence_of_the_limit(document)


def sentence_of_an_end(document):
    """The sentence of a run that has not begun, or that ends; else None."""
    status, note = document.get("status") or {}, message(document)
    state, alive, failure = status.get("state"), document.get("consumers_alive"), capital(status.get("failure") or "")
    if not state:
        return Sentence("starting", "Starting: no report from the producer yet")
    if state == "failed":
        reason, rest = in_two(status.get("failure") or note or "the log says why")
        return Sentence("failed", f"Failed: {reason}", f"{f'{rest} — ' if rest else ''}{amount(document)}", True)
    if document.get("finishing") and "exit" not in status:
        return Sentence("draining", "Finishing: merging the results", note)
    if state not in ENDS:
        return None
    if "exit" not in status and alive:
        return Sentence(
            "draining", f"Finishing: {counted(alive, 'consumer')} {'has' if alive == 1 else 'have'} not ended yet", note
        )
    is_stopped = status.get("exit") == ExitCode.INTERRUPTED
    alarm = bool(failure) and not is_stopped
    if state == "abandoned":
        return Sentence(
            "abandoned", f"Stopped: {amount(document)}", failure or note or "Pass --resume to do the rest", alarm
        )
    why = " — ".join(filter(None, (failure, outcome(status))))
    return Sentence("ended", f"{'Stopped' if is_stopped else 'Ended'}: {amount(document)}", why, alarm)


def sentence_of_a_loss(document, silent):
    """The sentence of a run in which a program is gone or silent; else None."""
    status, note = document.get("status") or {}, message(document)
    state, workers = status.get("state"), status.get("workers") or []
    if document.get("taking_over"):
        return Sentence("taking over", "The producer died: another one takes over", note)
    if state == "running" and silent > silent_after(document):
        text, last = f"The producer has not reported for {in_words(silent)}", sentence(document).text
        return Sentence("silent", text, f"Last report: {last}", True)
    if mute := mute_workers(document):
        name, seconds = mute[0]
        more = f", and {counted(len(mute) - 1, 'other')} too" if len(mute) > 1 else ""
        text, last = f"{name} has not reported for {in_words(seconds)}{more}", sentence(document["workers"][name]).text
        return Sentence("mute", text, f"Last report: {last}", True)
    if lost := [worker for worker in workers if worker.get("state") == "lost"]:
        number_lost = f"{len(lost)} of {counted(len(workers), 'producer')} {are(len(lost))} lost"
        return Sentence("lost", f"{number_lost}: {lost[0].get('why_lost')}", note or busy_shares(status), True)
    if (
        status.get("consumers")
        or state == "starting"
        or not ((status.get("slabs") or {}).get("ready") or status.get("limiting_stage") == "consumers")
    ):
        return None
    if alive := consumers_alive(document):
        joining = f"{counted(alive, 'process', 'processes')} {are(alive)} about to join"
        return Sentence("joining", f"Waiting for consumers: {joining}", note)
    return Sentence("no consumers", "Waiting for consumers: none is running", note, True)


def sentence_of_the_limit(document):
    """The sentence of a run at work: what limits it, or what is left to do."""
    status, note = document.get("status") or {}, message(document)
    who, waits = describe_waiting(status)
    slabs, limit, total = status.get("slabs") or {}, status.get("limiting_stage") or "", status.get("total_samples")
    kind, text, why = limit, capital(status["state"]), note or busy_shares(status)
    if total and settled(status) >= total:
        kind, text, why = "draining", "Finishing: every sample is done", note
    elif is_ending(document) or (slabs.get("free") and everything_is_published(status)):
        out = sum(slabs.get(name) or 0 for name in ("leased", "ready", "filling"))
        left = f"{counted(out, 'slab')} {are(out)} not done yet" if out else "moving the results into place"
        kind, text, why = "draining", f"Finishing: {left}", note
    elif limit == "consumers" and status.get("shortage") == "dead-letters":
        count = slabs.get("dead_letters")
        written = f"{counted(count, 'dead-lettered slab')} {are(count)} being written"
        kind, text = "disk", f"{who} {waits} for the disk: {written}"
    elif limit == "consumers":
        free, every = slabs.get("free") or 0, sum(filter(None, slabs.values()))
        is_past = 2 * free >= every > 0  # limiting_stage covers the last ten seconds
        text = f"{who} {waits} for consumers{of_the_slowest_group(status)}: {describe_slabs(status)}"
        if is_past:
            text = (
                f"{who} waited for consumers a moment ago: {number(free)} of {counted(every, 'slab')} {are(free)} free"
            )
    elif limit in ("input", "copy to host"):
        text = f"{who} {waits} for {'input' if limit == 'input' else 'the copy to the host'}"
    elif limit == "compute":
        share = status.get("gpu_utilization")
        text = "Compute is the limit" + (f": {percent(share)} busy" if share is not None else "")
        why = note or busy_shares({"consumer_utilization": status.get("consumer_utilization")})
    else:
        kind, why = limit if limit in LIMITS else "running", note
        text = LIMITS.get(limit, text)
    trouble = "; ".join(
        f"Consumer {name_of(each)} (process {each.get('pid')}) has held {held_by(each)} for {in_words(each.get('oldest_hold_seconds') or 0)} and is stalled"
        for each in status.get("consumers") or []
        if each.get("stalled")
    )
    return Sentence(kind, text, trouble or why, bool(trouble))


def silent_after(report):
    """Seconds without a report after which a producer counts as silent."""
    return max(SILENT_SECONDS, OLD_STATUSES * (report.get("status_seconds") or 0))


def mute_workers(document):
    """[(name, seconds)] of working --gpus producers that stopped reporting, longest first; not during a takeover."""
    status, found = document.get("status") or {}, []
    for name, report in (document.get("workers") or {}).items():
        own = report.get("status") or {}
        age = age_of(own, status)
        if (
            report.get("run_dir")
            and own.get("state") == "running"
            and not report.get("taking_over")
            and age is not None
            and age > silent_after(report)
        ):
            found.append((name, age))
    return sorted(found, key=lambda each: -each[1])


def in_two(text):
    """(first clause, rest)."""
    found = re.search("[.;] ", text)
    rest = text[found.end() :].strip() if found else ""
    return (text[: found.start()], capital(rest)) if found else (text, "")


def capital(text):
    return text[:1].upper() + text[1:]


def describe_waiting(status):
    if "submitted_samples" in status:
        return "The program", "waits"
    if (workers := status.get("workers")) is not None:
        return "The GPUs" if all(each["name"].startswith("GPU") for each in workers) else "The models", "wait"
    return "The model" if status.get("device") in (None, "", "cpu") else "The GPU", "waits"


def message(document):
    """The run's own message, without the reason why no slab is free: the sentence states that."""
    if document.get("workers"):
        return "; ".join(
            f"{name}: {message(report)}" for name, report in document["workers"].items() if message(report)
        )
    status = document.get("status") or {}
    note = status.get("message") or ""
    reason = re.sub("^group '[^']*': ", "", note)
    return "" if status.get("shortage") and reason.startswith(SHORTAGES) else note


def consumers_alive(document):
    """Consumer processes, joined or not. With --gpus only joined ones are known; each producer keeps its share up."""
    workers = (document.get("status") or {}).get("workers") or []
    at_work = (worker for worker in workers if worker.get("state") == "at work")
    return document.get("consumers_alive") or sum(worker.get("consumers") or 0 for worker in at_work)


def how_many_consumers(document):
    """Includes the autoscaling state and the restarts."""
    scaling, restarts = autoscaling(document.get("following")), document.get("restarts")
    scaling, again = f", {scaling}" if scaling else "", f", {restarts} restarted" if restarts else ""
    return f"{document.get('consumers_alive')} alive, {document.get('consumers_wanted')} wanted{scaling}{again}"


def autoscaling(following):
    """`following`: an autoscaling report, or None where it was never on."""
    if not following:
        return ""
    return f"autoscaled within {following.get('bounds')}" if following.get("follows") else "autoscaling off"


def everything_is_published(status):
    """No more input is on its way to a slab, as far as the status reports it."""
    totals = status.get("totals") or {}
    read = (
        sum((totals.get(name) or {}).get("samples") or 0 for name in ("published", "dropped"))
        + (status.get("done_before") or 0)
        + (status.get("skipped") or 0)
        - (status.get("dropped_waiting_samples") or 0)  # published, too
    )
    return bool(status.get("total_samples")) and read >= status["total_samples"]


def describe_slabs(status):
    slabs = status.get("slabs") or {}
    total, leased = sum(filter(None, slabs.values())), slabs.get("leased") or 0
    if status.get("shortage") == "retired-but-held":
        return f"a late consumer still holds {counted(slabs.get('retired'), 'retired slab')}"
    if status.get("shortage") == "draining":
        return "every consumer is leaving"
    if total and leased == total:
        return f"all {number(total)} slabs are leased"
    return (
        f"{number(leased)} of {counted(total, 'slab')} {are(leased)} leased" if slabs.get("free") else "no slab is free"
    )


def of_the_slowest_group(status):
    """With groups, the one with the most unfinished slabs, without groups that drop: ` of NAME`."""
    awaited = [each for each in status.get("groups") or [] if not drops(each)]
    return f" of {max(awaited, key=unfinished).get('name')}" if awaited else ""


def name_of(consumer):
    """Its number; the consumers of several groups may have the same, and are named after their group, too."""
    number, group = consumer.get("session"), consumer.get("group")
    return f"{group} {number}" if group else number


def held_by(consumer):
    held = consumer.get("held") or []
    if not held:
        return counted(consumer.get("holding") or 0, "slab")
    return f"slab{'s' if len(held) > 1 else ''} {', '.join(map(str, held))}"


def busy_shares(status):
    known = [f"{name} {percent(status[key])} busy" for key, name in BUSY if status.get(key) is not None]
    return ", ".join(known).capitalize()


def outcome(status):
    seconds = ran_seconds(status)
    parts = [f"{per_second((status.get('released_samples') or 0) / seconds)} on average"] if seconds else []
    parts += [f"{number(status[name])} {word}" for name, word in LOSSES.items() if status.get(name)]
    return ", ".join(parts)


def in_number(count, text):
    """The text with the forms of one, or of several."""
    return as_typed(text.format(**(ONE if count == 1 else SEVERAL)), anywhere=True)


def faults(document):
    """[(count, UTC time or name; text; whether nothing is lost)]"""
    status = document.get("status") or {}
    releases = status.get("releases") or {}
    counts = {**status, "failed": releases.get("failed"), **{name: document.get(name) for name in REPLACEMENTS}}
    known = [(counts.get(name), text, is_mild) for name, text, is_mild in FAULTS]
    known += [
        (releases.get(name), f"release{{s}} refused: {name}", False) for name in ("stale", "foreign", "malformed")
    ]
    found = [(number(count), in_number(count, text), is_mild) for count, text, is_mild in known if count]
    for reason, count in (status.get("refused") or {}).items():
        if count:
            found.append((number(count), f"{in_number(count, 'message{s} refused')}: {reason}", False))
    found += [
        (str(death.get("time")), f"{death.get('who')}: {death.get('how')}", False)
        for death in reversed((document.get("deaths") or [])[-LISTED_DEATHS:])
    ]
    if (status.get("last_failure") or "").strip():
        found.append(("last", error_in(status["last_failure"]), False))
    lost = [worker for worker in status.get("workers") or [] if worker.get("why_lost")]
    return found + [(worker["name"], f"given up: {worker['why_lost']}", False) for worker in lost]


def clock(time):
    """A UTC time in this machine's zone."""
    seconds = seconds_of(time)
    return str(time) if seconds is None else datetime.datetime.fromtimestamp(seconds).strftime("%H:%M:%S")


def at_clock(line):
    """A text that may begin with a UTC time, with that time in this machine's zone."""
    return re.sub(r"^\d{4}-\d\d-\d\dT\S*", lambda time: clock(time[0]), line)


def time_left(document):
    """Seconds at the current rate; None if unknown, or if the run is only finishing."""
    status = document.get("status") or {}
    return None if is_ending(document) or document.get("finishing") else seconds_left(status)


def is_ending(document):
    return (document.get("status") or {}).get("state") == "draining" or document.get("ending")


def until(left, now):
    """The time of day in `left` seconds. `now`: seconds since 1970."""
    moment = datetime.datetime.fromtimestamp(now + min(left, 1e8))
    return f"{moment:%a %H:%M}" if left >= DAY_SECONDS else f"{moment:%H:%M}"


def is_over(document):
    return (document.get("status") or {}).get("state") in ENDS
