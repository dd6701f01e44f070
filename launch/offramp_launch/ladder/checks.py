"""Checks that the rungs' results are identical: compares the checksums of each rung's short run."""

import dataclasses

from offramp_launch import shared_folder

CHECKSUMS = "checksums.tsv"


@dataclasses.dataclass(frozen=True)
class Check:
    """`verdicts`: of each rung, in a word. `equal`: None if fewer than two rungs should have results."""

    verdicts: dict
    equal: bool

    def describe(self):
        if self.equal is None:
            return "not compared (fewer than two rungs were run)"
        rows = max((verdict["rows"] for verdict in self.verdicts.values()), default=0)
        if self.equal:
            return f"identical on {len(self.verdicts)} rungs ({rows} checksums each)"
        return "DIFFERENT: " + ", ".join(f"{key} {verdict['word']}" for key, verdict in self.verdicts.items() if verdict["word"] != "equal")


def compare_checksums(folders):
    """`folders`: {rung: folder of its short run}, in the ladder's order. All are compared with the first that has results."""
    rows = {key: _rows(folder) for key, folder in folders.items()}
    first = next((found for found in rows.values() if found), None)
    verdicts = {key: {"rows": len(found), "word": _word(found, first)} for key, found in rows.items()}
    if len(rows) < 2:
        return Check(verdicts, None)
    return Check(verdicts, all(verdict["word"] == "equal" for verdict in verdicts.values()))


def _rows(folder):
    """{item, batch, key and output of a row: its checksum}. The order of rows does not matter."""
    try:
        lines = shared_folder.read(folder, CHECKSUMS).decode(errors="replace").splitlines()
    except OSError:
        return {}
    return {key: checksum for key, _, checksum in (line.rpartition("\t") for line in lines)}


def _word(found, first):
    if not found:
        return "no results"
    differing = sum(found.get(key) != first.get(key) for key in found.keys() | first.keys())
    return f"differs in {differing} of {len(first)}" if differing else "equal"
