"""The groups of a run (`run --group`), as rows for people: what the producer and the launcher report of each."""

from offramp_launch.watching import diagnosis


def group_rows(document):
    """In the order of the flags; empty without groups."""
    own = {each["name"]: each for each in document.get("groups") or []}
    reported = {each.get("name"): each for each in (document.get("status") or {}).get("groups") or []}
    return [row_of(name, own.get(name) or {}, reported.get(name) or {}) for name in own or reported]


def row_of(name, own, status):
    alive, wanted = own.get("alive", status.get("consumers") or 0), own.get("wanted")
    is_over = wanted is None
    lost = [
        f"{diagnosis.number(status[field])} {word}"
        for field, word in (("dead_lettered_samples", "dead-lettered"), ("dropped_samples", "dropped"))
        if status.get(field)
    ]
    failure = own.get("failure") or ""
    return {
        "name": name,
        "optional": bool(own.get("optional", status.get("optional"))),
        "consumers": str(alive) if is_over else f"{alive} of {wanted}",
        "scaling": diagnosis.autoscaling(own.get("following")),
        "waiting": diagnosis.number(status.get("waiting_slabs")),
        "leased": diagnosis.number(status.get("leased_slabs")),
        "spilled": f"{diagnosis.number(spilled)} samples on disk" if (spilled := status.get("spilled_samples")) else "",
        "done": diagnosis.number(status.get("released_samples")),
        "lost": ", ".join(lost),
        "note": f"fails: {failure}" if failure else shortage_of(name, status),
        "is_alarm": bool(failure),
    }


def shortage_of(name, status):
    """The first words of why no slab is free for it; the row has the numbers."""
    return (status.get("shortage") or "").removeprefix(f"group '{name}': ").partition(",")[0]


def lines_of_groups(document):
    for row in group_rows(document):
        facts = [
            with_noun(row["consumers"], "consumer"),
            row["scaling"],
            f"{with_noun(row['done'], 'sample')} done",
            f"{with_noun(row['waiting'], 'slab')} waiting",
            f"{row['leased']} with consumers",
            row["spilled"],
            row["lost"],
            row["note"],
        ]
        yield f"{row['name']}{' (optional)' if row['optional'] else ''}: {', '.join(filter(None, facts))}"


def with_noun(numbers, noun):
    """As diagnosis.counted(), for "1" or "0 of 1"."""
    return f"{numbers} {noun if numbers.split()[-1] == '1' else f'{noun}s'}"
