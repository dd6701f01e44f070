"""Are the rungs' results identical? Compares the checksums that each rung's short run left."""

import dataclasses

from offramp_launch import shared_folder

CHECKSUMS = "checksums.tsv"


@dataclasses.dataclass(frozen=True)
class Check:
    """`verdict` of each rung in a word; `equal` is None when fewer than two rungs were to have results."""

    verdicts: dict
    equal: bool

    def tell(self):
        if self.equal is None:
            return "not compared (fewer than two rungs were run)"
        rows = max((verdict["rows"] for verdict in self.verdicts.values()), default=0)
        if self.equal:
            return f"identical on {len(self.verdicts)} rungs ({rows} checksums each)"
        return "DIFFERENT: " + ", ".join(f"{key} {verdict['word']}" for key, verdict in self.verdicts.items() if verdict["word"] != "equal")


def compare_checksums(folders):
    """`folders`: {rung: folder of its short run}, in the ladder's order. All are held against the first; one without a file has no results."""
    rows = {key: _rows(folder) for key, folder in folders.items()}
    first = next((found for found in rows.values() if found), None)
    verdicts = {key: {"rows": len(found), "word": _word(found, first)} for key, found in rows.items()}
    if len(rows) < 2:
        return Check(verdicts, None)
    return Check(verdicts, all(verdict["word"] == "equal" for verdict in verdicts.values()))


def _rows(folder):
    """Item, batch, key and output of each row, and its checksum. In which order rows were finished says nothing."""
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
