"""Groups of consumers: several kinds of post-processing of the same batches."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import re
from typing import Any, Mapping, NamedTuple, Sequence

from offramp import _validate
from offramp._errors import BadArgument

MOST_CONSUMERS = 64  # the size of a run's, or a group's, consumer table
MOST_GROUPS = 8
NAME = re.compile(r"[a-z][a-z0-9-]{0,15}", re.ASCII)
OPTIONAL = ",optional"
WHEN_FULL = {"wait": "", "drop-oldest": ",drop-oldest"}


@dataclasses.dataclass(frozen=True)
class Group:
    """
    A group of consumers that an Egress starts. Each group gets every batch, and writes to its own folder of the output:

        with offramp.Egress(groups={"masks": offramp.Group("mask-png", consumers=8),
                                    "preview": offramp.Group("post.py:show", optional=True)}, output="OUT") as egress:

    `processor`: one, as in Egress; no other group may have the same. `consumers`: their number at the start, 1 to 64
    [1]; those that die are replaced, and Egress.scale() changes the number. `when_full`: with "drop-oldest", the
    group's oldest waiting slab is dropped when the loop has a batch and no slab is free; with "wait" the loop waits.
    `optional`: the group drops in any case, the run does not wait for it at its end, and its failures never reach the
    loop.

    Errors: BadArgument.
    """

    processor: str
    consumers: int = 1
    optional: bool = False
    when_full: str = "wait"

    def __post_init__(self) -> None:
        processor = _validate.text("a group's processor", self.processor)
        if not processor or "," in processor or "\n" in processor:
            raise BadArgument(
                f"a group's processor is {processor!r:.80}. Give one name, such as 'npy' or 'post.py:save', and another "
                "group for each further one"
            )
        most = f"1 to {MOST_CONSUMERS}"
        consumers = _validate.whole("a group's consumers", self.consumers, MOST_CONSUMERS, most, least=1)
        object.__setattr__(self, "consumers", consumers)
        _validate.yes_or_no("optional", self.optional)
        if _validate.text("a group's when_full", self.when_full) not in WHEN_FULL:
            raise BadArgument(f"a group's when_full is {self.when_full!r:.80}. Give one of {', '.join(WHEN_FULL)}")


class GroupStats(NamedTuple):
    """Counters of one group of an Egress."""

    samples_completed: int = 0
    samples_dropped: int = 0
    samples_dead_lettered: int = 0
    slabs_waiting: int = 0  # for a consumer
    slabs_held: int = 0  # by consumers
    consumers: int = 0  # living


Groups = Mapping[str, Group]


def groups_started(groups: Sequence[str] | Groups) -> dict[str, Group]:
    """Those that the Egress starts; none, if `groups` only names them. Errors: BadArgument."""
    if not isinstance(groups, Mapping):
        return {}
    for name, group in groups.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadArgument(
                f"a group has the name {name!r:.80}. Give 1 to 16 lower-case letters, digits and '-', a letter first, such "
                "as 'masks'"
            )
        if not isinstance(group, Group):
            raise BadArgument(f"the group '{name}' is {group!r:.80}. Give offramp.Group(PROCESSOR, consumers=N)")
    if len(groups) > MOST_GROUPS:
        raise BadArgument(f"there are {len(groups)} groups. Give at most {MOST_GROUPS}")
    if groups and all(group.optional for group in groups.values()):
        raise BadArgument("all groups are optional: the run would wait for none of them. Omit optional=True in one")
    return dict(groups)


def words_of(group: Group) -> str:
    """What the library takes after the group's name."""
    return f"{OPTIONAL * group.optional}{WHEN_FULL[group.when_full]}"


def described(name: str, group: Group, consumers: str = "") -> str:
    """In the form of the flag --group, without what happens when no slab is free."""
    return f"{name}={group.processor}{consumers}{OPTIONAL * group.optional}"


def may_drop(groups: Sequence[str] | Groups) -> bool:
    """Whether a group that the run waits for may drop its oldest batches."""
    policies = map(words_of, groups.values()) if isinstance(groups, Mapping) else groups
    return any(WHEN_FULL["drop-oldest"] in words and OPTIONAL not in words for words in policies)


class Processing(NamedTuple):
    """What the consumers do that an Egress starts."""

    identity: str  # equal in a run that continues another
    processors: str  # separated by commas
    flags: list[str]  # of the command `consume`
    required: list[str]  # the names of consumers, without their number, for which the loop waits


def processing_of(processor: str | None, consumers: int, groups: Groups) -> Processing | None:
    """None if the Egress starts no consumers."""
    if groups:
        return Processing(
            " ".join(described(name, group) for name, group in groups.items()),
            ",".join(group.processor for group in groups.values()),
            [f"--group={described(name, group, f':{group.consumers}')}" for name, group in groups.items()],
            [name for name, group in groups.items() if not group.optional],
        )
    if processor is None:
        return None
    number = ["--consumers", str(consumers)] if consumers else []
    return Processing(processor, processor, ["--processor", processor, *number], ["consumer"])


def fields_of_groups(groups: Sequence[str] | Groups, when_full: str, are_launched: bool) -> dict[str, Any]:
    """
    The fields of offramp_egress_options. `are_launched`: others start the consumers of one processor. Errors:
    BadArgument; the library checks names.
    """
    if isinstance(groups, Mapping):
        names = [f"{name}{words_of(group)}" for name, group in groups.items()]
    else:
        given = _validate.sequence("groups", groups, "('masks', 'vectors')")
        names = [_validate.text("a group", each) for each in given]
    if not names:
        return {}
    if when_full != "wait":
        raise BadArgument(
            f"groups is {groups!r:.200}, and when_full is {when_full!r}. Omit when_full; each group has its own policy: "
            "'preview,drop-oldest', or offramp.Group(..., when_full='drop-oldest')"
        )
    if are_launched:
        raise BadArgument(
            f"groups is {groups!r:.200}, and the consumers are started for this Egress. Omit groups, or give run_dir= alone and "
            "start the consumers of each group yourself"
        )
    return {
        "groups": (ctypes.c_char_p * len(names))(*(name.encode() for name in names)),
        "group_count": len(names),
    }


def stats_in(run_dir: str) -> dict[str, GroupStats]:
    """By name, from the run's last status.json; empty without groups."""
    try:
        with open(os.path.join(run_dir, "status.json"), encoding="utf-8") as file:
            groups = json.load(file).get("groups") or []
        return {
            each["name"]: GroupStats(
                each["released_samples"],
                each["dropped_samples"],
                each["dead_lettered_samples"],
                each["waiting_slabs"],
                each["leased_slabs"],
                each["consumers"],
            )
            for each in groups
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none was written yet
        return {}
