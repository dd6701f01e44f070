"""Reads why samples of a run became dead letters."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any, Container

from offramp._errors import ConsumersFailed

DEAD_LETTERS = 84  # launch/guide/reference/exit-codes.md
# As in offramp_launch/retries.py.
CODE_LOCATION = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
NOT_THE_USERS = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python3|/offramp/_\w+\.py$|^<")


def reason_of_the_first(run_dir: str, since: float, items: Container[int] | None = None) -> str:
    """
    The keys, the error and the line of the first dead letter that was written after `since` (seconds since the epoch)
    and has one of these items; "" if there is none. `items`: None for all.
    """
    incidents = []
    for path in pathlib.Path(run_dir, "dead-letters").glob("*.json"):
        try:
            incident = json.loads(path.read_text(encoding="utf-8"))
            has_items = items is None or any(sample["item"] in items for sample in incident["samples"])
            if incident["dead_lettered_at"] >= since and has_items:
                incidents.append((incident["dead_lettered_at"], _described(incident)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # the reason only completes the message
    return min(incidents)[1] if incidents else ""


def require_none(run_dir: str, since: float, samples: int) -> None:
    """
    For consumers that the program did not start: no other command reports their failures. `samples`: their number.
    Errors: ConsumersFailed.
    """
    if samples:
        lost = "1 sample was" if samples == 1 else f"{samples} samples were"
        reason = reason_of_the_first(run_dir, since)
        raise ConsumersFailed(
            f"{lost} dead-lettered, since post-processing failed{': ' * bool(reason)}{reason}. Inspect them: "
            f"{typed_launcher()} dead-letters list --run-dir {run_dir}",
            DEAD_LETTERS,
        )


def typed_launcher() -> str:
    """The launcher's command, as typed from any folder: a checkout's, or the installed one."""
    of_checkout = pathlib.Path(__file__).resolve().parents[2] / "offramp"
    return str(of_checkout) if of_checkout.is_file() else "offramp"


def _described(incident: Any) -> str:
    keys = [sample["key"] for sample in incident["samples"] if not sample["empty"]]
    which = f"sample '{keys[0]}'" if len(keys) == 1 else f"samples '{keys[0]}' to '{keys[-1]}'" if keys else "the slab"
    why = next((delivery["why"] for delivery in reversed(incident["deliveries"]) if delivery["why"]), "")
    place = _place_in(why)
    return f"{which}: {incident['reason']}" + (f" ({place})" if place else "")


def _place_in(why: str) -> str:
    """The innermost line of the user's code in a traceback: "post.py:4"."""
    places = [place for place in CODE_LOCATION.findall(why) if not NOT_THE_USERS.search(place[0])]
    return f"{os.path.basename(places[-1][0])}:{places[-1][1]}" if places else ""
