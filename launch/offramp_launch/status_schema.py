"""Removes fields of unknown form from a status.json of any version, so that readers need not check."""

LARGEST = 1e300
NOTHING = object()


def is_number(value):
    """Whether it is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def is_text(value):
    return isinstance(value, str)


def is_list(value):
    return isinstance(value, list)


def table_of(form):
    """A table whose values all have that form."""
    return lambda value: rest_of(value, lambda name: form)


def record_of(forms):
    """A table with forms by name; unknown names may have any value."""
    return lambda value: rest_of(value, forms.get)


def list_of(form):
    """A list whose elements all have that form."""

    def of_list(value):
        if not isinstance(value, list):
            return NOTHING
        kept = [NOTHING if each is None else of_form(each, form) for each in value]
        return NOTHING if NOTHING in kept else kept

    return of_list


def rest_of(value, form_of):
    """A table without the values that do not have the form of their name."""
    if not isinstance(value, dict):
        return NOTHING
    kept = {name: of_form(each, form_of(name)) for name, each in value.items()}
    return {name: each for name, each in kept.items() if each is not NOTHING}


def of_form(value, form):
    """The valid part of the value. `form(value)`: whether it is valid, or its valid part; None accepts any value."""
    if value is None or form is None:  # null means unknown
        return value
    kept = form(value)
    return (value if kept else NOTHING) if isinstance(kept, bool) else kept


NUMBERS = """
pid producers exit total_samples done_samples done_before batches released_samples released_batches released_bytes
submitted_samples dead_lettered_samples dropped_samples dropped_waiting_samples spilled_samples redelivered skipped
samples_per_second gpu_utilization consumer_utilization began_ns now_ns last_release_ns input_wait_seconds slab_wait_seconds
output_wait_seconds visibility_timeouts slab_failures shm_bytes pinned_bytes_per_second
"""
TEXTS = """
state time version model name device device_uuid limiting_stage last_failure failure message shortage slab_states
"""
NUMBERS_OF_A_CONSUMER = "pid session busy_seconds holding oldest_hold_seconds samples"
CONSUMER = {
    **dict.fromkeys(NUMBERS_OF_A_CONSUMER.split(), is_number),
    **dict.fromkeys(("end", "group"), is_text),
    "held": is_list,
}
NUMBERS_OF_A_GROUP = """
released_samples released_slabs dead_lettered_samples dropped_samples spilled_samples ever_spilled_samples
waiting_slabs leased_slabs last_release_ns consumers
"""
GROUP = {
    **dict.fromkeys(NUMBERS_OF_A_GROUP.split(), is_number),
    **dict.fromkeys(("name", "shortage", "when_full"), is_text),
    "optional": lambda value: isinstance(value, bool),
}
FORMS = {
    **dict.fromkeys(NUMBERS.split(), is_number),
    **dict.fromkeys(TEXTS.split(), is_text),
    **dict.fromkeys(("slabs", "releases", "refused"), table_of(is_number)),
    "slab_state_letters": table_of(is_text),
    "totals": table_of(table_of(is_number)),
    "stage_seconds": table_of(record_of({"counts": list_of(is_number), "sum": is_number})),
    "stage_bounds_seconds": list_of(is_number),
    "consumers": list_of(record_of(CONSUMER)),
    "groups": list_of(record_of(GROUP)),
    "workers": list_of(lambda value: isinstance(value, dict)),
}


def validate_status(status):
    """(the valid part of the status, the names of fields removed in part or in whole)."""
    kept = record_of(FORMS)(status)
    return kept, [name for name, value in status.items() if kept.get(name) != value]
