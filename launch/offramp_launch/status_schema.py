"""status.json, whichever program wrote it: what has another form than its readers know is left out, so that none of them trips over it."""

LARGEST = 1e300
NOTHING = object()


def is_number(value):
    """A finite one, which can be reckoned with."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def is_text(value):
    return isinstance(value, str)


def is_list(value):
    return isinstance(value, list)


def table_of(form):
    """By any name, what has that form."""
    return lambda value: rest_of(value, lambda name: form)


def record_of(forms):
    """What is known by its name has that form; anything may stand beside it."""
    return lambda value: rest_of(value, forms.get)


def list_of(form):
    """All of that form."""
    def of_list(value):
        kept = [NOTHING if each is None else of_form(each, form) for each in value] if isinstance(value, list) else [NOTHING]
        return NOTHING if NOTHING in kept else kept
    return of_list


def rest_of(value, form_of):
    """Of a table, without what has not the form that it is to have by its name."""
    if not isinstance(value, dict):
        return NOTHING
    kept = {name: of_form(each, form_of(name)) for name, each in value.items()}
    return {name: each for name, each in kept.items() if each is not NOTHING}


def of_form(value, form):
    """What is left of the value. `form`: says whether it is of that, or what is left; None: any will do."""
    if value is None or form is None:       # null is told for what is not known
        return value
    kept = form(value)
    return (value if kept else NOTHING) if isinstance(kept, bool) else kept


CONSUMER = {**dict.fromkeys(("pid", "session", "busy_seconds", "holding", "oldest_hold_seconds", "samples"), is_number), "end": is_text, "held": is_list}
FORMS = {
    **dict.fromkeys((
        "pid", "producers", "exit", "total_samples", "done_samples", "done_before", "batches", "released_samples", "released_batches", "released_bytes", "submitted_samples",
        "dead_lettered_samples", "dropped_samples", "spilled_samples", "redelivered", "skipped", "samples_per_second", "gpu_utilization", "consumer_utilization", "began_ns", "now_ns",
        "last_release_ns", "input_wait_seconds", "slab_wait_seconds", "output_wait_seconds", "visibility_timeouts", "slab_failures", "shm_bytes", "pinned_bytes_per_second"), is_number),
    **dict.fromkeys(("state", "time", "version", "model", "name", "device", "device_uuid", "limiting_stage", "last_failure", "failure", "message", "shortage", "slab_states"),
                    is_text),
    **dict.fromkeys(("slabs", "releases", "refused"), table_of(is_number)),
    "slab_state_letters": table_of(is_text),
    "totals": table_of(table_of(is_number)),
    "stage_seconds": table_of(record_of({"counts": list_of(is_number), "sum": is_number})),
    "stage_bounds_seconds": list_of(is_number),
    "consumers": list_of(record_of(CONSUMER)),
    "workers": list_of(lambda value: isinstance(value, dict)),
}


def validate_status(status):
    """(what its readers can use, the names of what was left out in part or in whole)."""
    kept = record_of(FORMS)(status)
    return kept, [name for name, value in status.items() if kept.get(name) != value]
