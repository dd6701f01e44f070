"""What the page and `offramp top` draw of a run: its sentence, and the rows and shares below it."""

import dataclasses

from offramp_launch.places import as_typed
from offramp_launch.progress import settled
from offramp_launch.watching import diagnosis
from offramp_launch.watching.groups import group_rows
from offramp_launch.watching.timestamps import age_of

# A letter for each state of a slab, the state, and its words.
STATES = (
    ("F", "free", "free"),
    ("G", "filling", "being filled"),
    ("P", "ready", "waiting for a consumer"),
    ("L", "leased", "with a consumer"),
    ("R", "retired", "retired"),
    ("D", "dead_letters", "dead-lettered"),
)
LETTERS = {letter: state for letter, state, _ in STATES}
LETTER_OF = {state: letter for letter, state in LETTERS.items()}
LISTED_SLABS = 4


def view_of(document, rates, now=None):
    """
    The view as JSON. A malformed document, such as one of another version, gets a view that says so. `rates`: the run's
    history. `now`: adds the document to it at that time (Rates.add); None: it ends with this document.
    """
    try:
        if now is not None:
            rates.add(document, now)
        return complete_view(document, rates)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        malformed = diagnosis.Sentence("malformed", "The run's status is malformed", repr(problem), True)
        return {**complete_view({}, rates), "sentence": dataclasses.asdict(malformed)}


def complete_view(document, rates):
    status, producers, slabs = document.get("status") or {}, producer_rows(document), slabs_of(document)
    seconds, over = diagnosis.ran_seconds(status), diagnosis.is_over(document)
    return {
        "sentence": dataclasses.asdict(diagnosis.sentence(document, rates.silent)),
        "is_over": over,
        "settled": settled(status),
        "left_seconds": diagnosis.time_left(document),
        "is_ending": bool(over or diagnosis.is_ending(document) or document.get("finishing")),
        "since": f"{'ran' if over else 'running for'} {diagnosis.in_words(seconds)}" if seconds else "",
        "rate": "–" if over else diagnosis.per_second(status.get("samples_per_second")),
        "slabs": slabs,
        "slabs_in_words": slabs_in_words(document, slabs),
        "states": STATES,
        "faults": diagnosis.faults(document),
        "consumers": consumer_rows(document, rates),
        "consumers_in_words": diagnosis.how_many_consumers(document),
        "no_consumers": "All consumers have left." if over else "No consumer is connected.",
        "groups": group_rows(document),
        "producers": producers,
        "producers_in_words": f"{sum(each['is_at_work'] for each in producers)} of {len(producers)} at work",
        "now": {**rates.now(), "producers": {each["name"]: each["per_second"] for each in producers}},
    }


def consumer_rows(document, rates):
    rows = []
    for each in (document.get("status") or {}).get("consumers") or []:
        pid, held = each.get("pid"), each.get("held") or []
        share = rates.growth(lambda moment: moment.busy.get(pid))
        rate = rates.growth(lambda moment: moment.done.get(pid))
        listed = f"{len(held)} slabs" if len(held) > LISTED_SLABS else ", ".join(map(str, held))
        rows.append(
            {
                "number": diagnosis.name_of(each),
                "pid": pid,
                "busy": None if share is None else min(1.0, share),
                "rate": "–" if rate is None or diagnosis.is_over(document) else diagnosis.per_second(rate),
                "done": diagnosis.number(each.get("samples")),
                "held": listed or str(each.get("holding") or ("–" if each.get("ready") is not False else "starting")),
                "holds": diagnosis.held_by(each) if each.get("holding") else "nothing",
                "age": f"{each.get('oldest_hold_seconds') or 0:.1f} s" if each.get("holding") else "–",
                "is_stalled": bool(each.get("stalled")),
            }
        )
    return rows


def producer_rows(document):
    status, mute, rows = document.get("status") or {}, dict(diagnosis.mute_workers(document)), []
    for worker in status.get("workers") or []:
        name, run_dir, age = worker["name"], worker.get("run_dir"), age_of(worker, status)
        report, silent = (document.get("workers") or {}).get(name), mute.get(name)
        state = f"shard {worker.get('shard')}" if worker.get("state") == "at work" else str(worker.get("state"))
        if silent is not None:
            state = f"shard {worker.get('shard')}, silent for {diagnosis.in_words(silent)}"
        facts = [
            *([("now", diagnosis.sentence(report).text)] if report and run_dir else []),
            ("done of its shard", diagnosis.counted(worker.get("done_samples"), "sample")),
            ("shards done", diagnosis.number(worker.get("shards_done"))),
            ("last report", "–" if age is None else f"{age:.1f} s before this page"),
            ("process", str(worker.get("pid") or "–")),
            ("run directory", run_dir or "–"),
            *([("given up", worker["why_lost"])] if worker.get("why_lost") else []),
            *([("look closer", as_typed(f"./launch/offramp top {run_dir}", anywhere=True))] if run_dir else []),
        ]
        rows.append(
            {
                "name": name,
                "state": state,
                "is_at_work": worker.get("state") == "at work",
                "is_alarm": worker.get("state") == "lost" or silent is not None,
                "per_second": worker.get("samples_per_second") or 0,
                "rate": diagnosis.per_second(worker.get("samples_per_second")),
                "consumers": diagnosis.counted(worker.get("consumers") or 0, "consumer"),
                "place": run_dir or worker.get("why_lost") or "",
                "facts": facts,
            }
        )
    return rows


def slabs_of(document):
    workers = (document.get("workers") or {}).items()
    several = [slabs_of_one(report.get("status") or {}, f"{name}, ") for name, report in workers]
    whole = [each for each in several if each["states"]] or [slabs_of_one(document.get("status") or {}, "")]
    return [each for each in whole if each["states"]]


def slabs_of_one(status, whose):
    """A letter per slab, by number, or by state if only counts are reported. `holders`: processes by slab."""
    names, reported = status.get("slab_state_letters") or LETTERS, status.get("slab_states")
    counts = status.get("slabs") or {}
    states = "".join(letter * (counts.get(state) or 0) for letter, state, _ in reversed(STATES))
    if reported:
        states = "".join(LETTER_OF.get(names.get(letter) or "", "F") for letter in reported)
    holders: dict = {}
    for consumer in status.get("consumers") or [] if reported else []:
        holders.update(dict.fromkeys(consumer.get("held") or [], consumer.get("pid")))
    return {"whose": whose, "states": states, "is_known": bool(reported), "holders": holders}


def slabs_in_words(document, slabs):
    count = sum(len(each["states"]) for each in slabs)
    runs = (document, *(document.get("workers") or {}).values())
    memory = int(sum((each.get("status") or {}).get("shm_bytes") or 0 for each in runs))
    by_number = "" if any(each["is_known"] for each in slabs) else ", by number"
    memory_in_words = f", {in_bytes(memory)} of shared memory" if memory else ""
    return f"{diagnosis.number(count)}{memory_in_words}{by_number}" if count else "none yet"


def in_bytes(count):
    power = min(4, (count.bit_length() - 1) // 10)
    value = count / 1024**power
    return f"{value:.{int(value < 10 and power > 0)}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
