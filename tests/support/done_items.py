"""Finished items of a run, by its checkpoint and by its files. The checkpoint may lag behind the files, never lead."""

import json


def items_of_checkpoint(output):
    """Items in the output folder's checkpoint; none without one."""
    try:
        lines = (output / ".offramp-checkpoint").read_text().split("\n")[1:-1]  # the last line may be incomplete
    except OSError:
        return set()
    return {item for line in lines for begin, end in json.loads(line).get("done", []) for item in range(begin, end)}


def items_of_checksums(output):
    """Items with a line in the merged output of the processor `checksum`."""
    try:
        lines = (output / "checksums.tsv").read_bytes().splitlines()
    except OSError:
        return set()
    return {int(line.split(b"\t", 1)[0]) for line in lines if not line.startswith((b"#", b"item"))}


def items_of_records(output):
    """Items with a line in the merged records.jsonl."""
    try:
        return {json.loads(line)["item"] for line in (output / "records.jsonl").read_bytes().splitlines()}
    except OSError:
        return set()


def led_by_the_checkpoint(output):
    """Items that the checkpoint has and the files lack, so that no run would make them."""
    return sorted(items_of_checkpoint(output) - items_of_checksums(output))
