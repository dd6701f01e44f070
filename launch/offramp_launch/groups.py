"""Consumer groups: several kinds of post-processing on the same slabs, each with its own consumers (`run --group`)."""

import contextlib
import dataclasses
import os
import pathlib
import re

from offramp_launch import shared_folder
from offramp_launch.arguments import setting_given, without_values
from offramp_launch.exit_code import UsageError
from offramp_launch.output_folder import OutputLock, output_errors
from offramp_launch.run_dir import LIVE, SETTINGS
from offramp_launch.settings import consumer_command, to_toml
from offramp_launch.supervision.consumer_groups import GroupPlan
from offramp_launch.supervision.scaling import MOST_CONSUMERS

FLAG = "--group"
FOLDER = "groups"  # in the run directory, a folder for each group, like a run directory to its consumers
MOST_GROUPS, LONGEST_NAME = 8, 16
NAME = re.compile(r"[a-z][a-z0-9-]*")
OPTIONAL = "optional"
OF_A_GROUP = ("processor", "consumers")  # settings that each group has for itself
FORM = "Give NAME=PROCESSOR, NAME=PROCESSOR:N or NAME=PROCESSOR:N,optional, such as --group masks=mask-png:8"


@dataclasses.dataclass(frozen=True)
class Group:
    """`consumers`: their number at the start. `optional`: its oldest waiting slab is dropped when no slab is free."""

    name: str
    processor: str
    consumers: int = 1
    optional: bool = False

    def flags_of_consumer(self, argv):
        return [*without_values(argv, (FLAG, "--processor", "--consumers")), "--processor", self.processor]


def groups_of(config, argv):
    """The groups of a run's settings, in the order of its flags; empty without --group. Errors: LaunchError (USAGE)."""
    groups = [parsed(text) for text in config.get("group") or []]
    if not groups:
        return groups
    for name, why in (
        ("processor", "each group names its own"),
        ("consumers", "each group has its own number: --group NAME=PROCESSOR:N"),
    ):
        if setting_given(name, argv):
            raise UsageError(f"--group cannot be combined with --{name}: {why}", f"Leave --{name} out")
    names = [group.name for group in groups]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--group names '{twice}' twice", "Give each group another name")
    if len(groups) > MOST_GROUPS:
        raise UsageError(f"{len(groups)} groups are more than a run can hold", f"Give at most {MOST_GROUPS}")
    if all(group.optional for group in groups):
        raise UsageError(
            f"every group is optional ({', '.join(names)}): the run would wait for none of them",
            "Leave ',optional' out of one --group at least",
        )
    return groups


def parsed(text):
    """Errors: LaunchError (USAGE) with the text and the form."""
    name, equals, rest = text.partition("=")
    if not equals:
        raise UsageError(f"--group '{text}' names no processor", FORM)
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"--group '{text}': '{name}' is not a name of a group",
            f"Give 1 to {LONGEST_NAME} lower-case letters, digits and '-', a letter first: --group masks=mask-png",
        )
    processor, comma, word = rest.partition(",")
    if comma and word != OPTIONAL:
        raise UsageError(f"--group '{text}': '{word}' is not '{OPTIONAL}', and a group has one processor", FORM)
    before, _, digits = processor.rpartition(":")
    number = 1
    if digits.isascii() and digits.isdigit():
        processor, number = before, int(digits)
    if not processor:
        raise UsageError(f"--group '{text}' names no processor", FORM)
    if not 1 <= number <= MOST_CONSUMERS:
        raise UsageError(
            f"--group '{text}': {number} consumers are out of bounds", f"Give 1 to {MOST_CONSUMERS} consumers"
        )
    return Group(name, processor, number, bool(comma))


# -- a run's groups -------------------------------------------------------------------------------------------------


def longest_folder(groups):
    """In the run directory: that of the group with the longest name, whose sockets need the longest paths."""
    return f"{FOLDER}/{max((group.name for group in groups), key=len)}" if groups else "."


def without_defaults(config):
    """A run's settings without those that each group has for itself, which a settings file with groups may not have."""
    return {name: value for name, value in config.items() if name not in OF_A_GROUP}


def plan_of(group, groups, places, argv, found, run_dir, settled, account):
    """
    Makes the group's folder in the run directory, with its settings. `argv`, `found`: as begin_work() has them.
    `settled`: the run's settings. Errors: OSError.
    """
    folder, output = run_dir.file(FOLDER) / group.name, os.path.join(settled["output"], group.name)
    for each in (folder.parent, folder, folder / LIVE):
        make_folder(each, account.gid if account else None)
    own = {**settled, "run-dir": str(folder), "output": output, "processor": group.processor}
    own.pop(FLAG[2:])
    shared_folder.write(folder, SETTINGS, to_toml(own, own).encode())
    most = sum(each.consumers for each in groups)
    flags = group.flags_of_consumer([*argv, *found])
    command = consumer_command(places, flags, folder, output, most)
    about = group.name, group.processor, group.optional, group.consumers
    return GroupPlan(*about, command, folder, output, settled.get("max-failures") or 1)


def make_folder(folder, gid):
    """`gid`: the consumers' group, where they run as another user."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if gid is not None:
        os.chown(folder, -1, gid, follow_symlinks=False)
        os.chmod(folder, 0o710)


@contextlib.contextmanager
def held_outputs(work):
    """Each group has a folder in the output, with a lock in which its consumers take their shares."""
    plan = work.plan
    with contextlib.ExitStack() as locks:
        for group in plan.groups:
            folder = pathlib.Path(group.output)
            with output_errors(folder):
                if not os.path.lexists(folder):
                    folder.mkdir()
                    work.made.insert(0, folder)
                    if plan.account:
                        os.chown(folder, plan.account.uid, plan.account.gid)
            locks.enter_context(contextlib.closing(OutputLock(folder, plan.run_id, work.note)))
        yield
