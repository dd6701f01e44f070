"""Consumer groups: several kinds of post-processing on the same slabs, each with its own consumers (`run --group`)."""

import contextlib
import dataclasses
import os
import re

from offramp_launch import shared_folder
from offramp_launch.arguments import setting_given, take_all, take_values, without_values
from offramp_launch.exit_code import UsageError
from offramp_launch.run_dir import LIVE, LOCK, SETTINGS
from offramp_launch.settings import consumer_command, to_toml
from offramp_launch.supervision.consumer_groups import GroupPlan
from offramp_launch.supervision.scaling import MOST_CONSUMERS, bounds_of

FLAG = "--group"
FOLDER = "groups"  # in the run directory: a folder for each group, which is a run directory to its consumers
NAME = re.compile(r"[a-z][a-z0-9-]*")
NUMBER = re.compile(r"[0-9]+(\.\.[0-9]+)?")
TRACES = "--trace-dir"
OF_A_GROUP = ("processor", "consumers")  # settings that each group has for itself


@dataclasses.dataclass(frozen=True)
class Group:
    """`number`: of its consumers, "N" or "A..B". `policy`: words such as "optional" and "drop-oldest"."""

    name: str
    processor: str
    number: str = "1"
    policy: tuple = ()

    @property
    def consumers(self):
        """Their number at the start."""
        return int(self.number.partition("..")[0])

    @property
    def bounds(self):
        """Of autoscaling; None for a fixed number."""
        return bounds_of(self.number)

    @property
    def most(self):
        """The largest number of its consumers under autoscaling, else that at the start."""
        return self.bounds.most if self.bounds else self.consumers

    @property
    def optional(self):
        """The run does not wait for it."""
        return "optional" in self.policy


def groups_of(config, argv):
    """
    The groups of a run's settings, in the order of its flags; empty without --group. The producer has checked them
    together (common/app/settings/setting_checks.cpp). Errors: LaunchError (USAGE).
    """
    groups = [parsed(line) for line in (config.get(FLAG[2:]) or "").splitlines()]
    for name, why in (
        ("processor", "each group names its own"),
        ("consumers", "each group has its own number: --group NAME=PROCESSOR:N"),
    ):
        if groups and setting_given(name, argv):
            raise UsageError(f"--group cannot be combined with --{name}: {why}", f"Leave --{name} out")
    return groups


def given_as_flags(groups, config, argv):
    """argv with the groups as flags, wherever they come from. Removes the variable, which consumers would read."""
    if not groups:
        return argv
    os.environ.pop("OFFRAMP_GROUP", None)
    return [*without_values(argv, (FLAG,)), *(word for line in config["group"].splitlines() for word in (FLAG, line))]


def parsed(text):
    """The group of a --group, whose form the producer checks (common/app/settings/sections.cpp)."""
    name, _, rest = text.partition("=")
    processor, *policy = rest.split(",")
    before, _, number = processor.rpartition(":")
    if before and NUMBER.fullmatch(number):
        return Group(name, before, number, tuple(policy))
    return Group(name, processor, policy=tuple(policy))


def with_number(text, consumers):
    """The text of a --group with another number of consumers. A producer takes 1 to 64 of them."""
    before, comma, words = text.partition(",")
    group = parsed(before)
    return f"{group.name}={group.processor}:{consumers}{comma}{words}"


def groups_in(flags):
    """The groups that the flags name."""
    return [parsed(text) for _, text in take_all(flags, (FLAG,))[0]]


def standalone_group(group):
    """The --group with which a consumer without a run works at this group's results only."""
    return f"{group.name}={group.processor}"


# -- a run's groups -------------------------------------------------------------------------------------------------


def longest_folder(groups):
    """In the run directory: that of the group with the longest name, whose sockets need the longest paths."""
    return f"{FOLDER}/{max((group.name for group in groups), key=len)}" if groups else "."


def without_defaults(config):
    """A run's settings without those that each group has for itself."""
    return {name: value for name, value in config.items() if name not in OF_A_GROUP}


def without_group(config):
    return {name: value for name, value in config.items() if name != FLAG[2:]}


def plan_of(group, groups, places, argv, found, run_dir, settled, account, is_own=False):
    """
    Makes the group's folder in the run directory, with its settings. `argv`, `found`: as begin_work() has them.
    `settled`: the run's settings. `is_own`: the run is a custom program's, so each group's folder of results has the
    notes of such a run (consumer/processors/results/own_run.hpp). Errors: OSError.
    """
    folder = run_dir.file(FOLDER) / group.name
    for each in (folder.parent, folder, folder / LIVE):
        make_folder(each, account.gid if account else None)
    (folder / LOCK).touch(mode=0o600)  # by which the producer knows the folder as a run's
    output, results = settled["output"], f"{settled['output']}/{group.name}"
    own = {**without_group(without_defaults(settled)), "run-dir": str(folder), "processor": group.processor}
    named = standalone_group(group)
    title = f"The settings of the consumers of group {group.name}; the run's are in {run_dir.file(SETTINGS)}"
    # A settings file that named the group would contradict --processor.
    noted = {**own, "output": results} if is_own else {**own, FLAG[2:]: named}
    shared_folder.write(folder, SETTINGS, to_toml({**own, "output": noted["output"]}, noted, title).encode())
    flags = without_values([*argv, *found], (FLAG, "--processor", "--config", TRACES))
    if settled.get(TRACES[2:]):
        flags += [TRACES, os.path.join(settled[TRACES[2:]], group.name)]
    if take_values(argv, ("--config",))[0] or os.environ.get("OFFRAMP_CONFIG"):
        flags += ["--config", str(folder / SETTINGS)]  # instead of the run's, which may name all groups
    most = min(MOST_CONSUMERS, sum(each.most for each in groups))

    def command(output, *which):
        return [*consumer_command(places, flags, folder, output, most), *which]

    # Consumers of offramp-producer's run learn their group from it.
    learning = command(output, "--processor", group.processor)
    knowing = command(output, FLAG, named)
    alone = command(results, "--processor", group.processor)
    return GroupPlan(
        group.name,
        group.optional,
        group.consumers,
        *((knowing, alone) if is_own else (learning, knowing)),
        folder,
        settled.get("max-failures") or 1,
        results,
        group.bounds,
        "drop-oldest" in group.policy,
    )


def make_folder(folder, gid):
    """`gid`: the consumers' group, where they run as another user."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if gid is not None:
        os.chown(folder, -1, gid, follow_symlinks=False)
        os.chmod(folder, 0o710)
