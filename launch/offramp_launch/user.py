"""The user of a run's consumers: --consumer-user, and a group without other members."""

import grp
import os
import pathlib
import pwd
import random

from offramp_launch.exit_code import ExitCode, LaunchError, UsageError

# Group ids that administrators do not assign: a large range where all are mapped, else the one that systemd reserves
# for dynamic users.
WIDE = (1 << 30, 1 << 31)
NARROW = (61184, 65520)


class ConsumerUser:
    """
    The user that consumers run as, with a single group: the user's, if it has no other members; else an unnamed group
    of this run only (members of a shared group, such as `nogroup` or `users`, could read the run's slabs). The producer
    stays the launcher's user, but with that group too, so that consumers can open the run's memory and nothing else of
    the launcher.
    """

    def __init__(self, name):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise UsageError(
                f"--consumer-user: the user '{name}' does not exist", "getent passwd lists the users"
            ) from None
        if os.geteuid() not in (0, entry.pw_uid):
            raise LaunchError(
                f"--consumer-user: only root may start consumers as '{name}'",
                "Run as root, or leave --consumer-user out",
                ExitCode.NOT_PERMITTED,
            )
        self.uid = entry.pw_uid
        self.gid = free_group() if is_shared(entry) and os.geteuid() == 0 else entry.pw_gid

    def of_consumers(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account_of(name):
    """The consumers' user; None when they run as this user, the default."""
    account = ConsumerUser(name) if name else None
    return account if account and account.uid != os.geteuid() else None


def is_shared(user):
    """Whether another listed user is in the user's group."""
    members = grp.getgrgid(user.pw_gid).gr_mem if has_name(user.pw_gid) else []
    return any(member != user.pw_name for member in members) or any(
        other.pw_gid == user.pw_gid and other.pw_uid != user.pw_uid for other in pwd.getpwall()
    )


def free_group(mapped=None, attempts=1000):
    """A group id without a name that no user and no process has. Errors: LaunchError where there is none."""
    ranges = mapped_within(pathlib.Path("/proc/self/gid_map").read_text() if mapped is None else mapped)
    taken = {user.pw_gid for user in pwd.getpwall()} | groups_of_processes()
    for _ in range(attempts if ranges else 0):
        begin, end = random.SystemRandom().choice(ranges)
        number = random.SystemRandom().randrange(begin, end)
        if number not in taken and not has_name(number):
            return number
    raise LaunchError(
        "--consumer-user: that user's group has other members, and no group id is free for the consumers",
        "Give a user with a private group: adduser --system --group NAME makes one",
        ExitCode.NOT_PERMITTED,
    )


def mapped_within(gid_map):
    """The parts of the wide range, else of the narrow one, that this user namespace maps: [(begin, end)]."""
    maps = [tuple(map(int, line.split())) for line in gid_map.splitlines()]
    for wanted in (WIDE, NARROW):
        found = [(max(begin, wanted[0]), min(begin + count, wanted[1])) for begin, _, count in maps]
        if found := [(begin, end) for begin, end in found if begin < end]:
            return found
    return []


def has_name(number):
    try:
        grp.getgrgid(number)
    except KeyError:
        return False
    return True


def groups_of_processes():
    found: set = set()
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):
            continue  # the process has ended
        found.update(map(int, (lines.get("Gid", "") + " " + lines.get("Groups", "")).split()))
    return found
