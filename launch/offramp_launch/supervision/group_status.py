"""The status of a run as one of its groups of consumers sees it, for the autoscaling of that group."""


class GroupStatus:
    """
    Owns: how long the run has waited for this group. The producer waits for a slab that every group has finished with,
    so each wait counts for the group with the most unfinished slabs, or for several that have as many. A group that
    drops keeps no slab waiting: what it dropped counts. Thread: one.
    """

    def __init__(self, name):
        self._name = name
        self._latest = (None, 0.0)  # (pid, seconds of waiting) of the run
        self._here = self._elsewhere = 0.0

    def of(self, status):
        """`status`: the run's next one. Without this group in it, nothing is done yet."""
        groups = status.get("groups") or []
        own: dict = next((each for each in groups if each.get("name") == self._name), {})
        self._count_wait(status, own, groups)
        waiting, leased = own.get("waiting_slabs") or 0, own.get("leased_slabs") or 0
        slabs = dict(status.get("slabs") or {})
        usable = sum(slabs.pop(state, 0) or 0 for state in ("free", "filling", "ready", "leased"))
        return {
            **status,
            "released_samples": own.get("released_samples"),
            "last_release_ns": own.get("last_release_ns"),
            "dropped_samples": own.get("dropped_samples"),
            "spilled_samples": own.get("spilled_samples"),
            "slab_wait_seconds": self._here,
            "slab_wait_elsewhere_seconds": self._elsewhere,
            "slabs": {**slabs, "free": max(0, usable - waiting - leased), "ready": waiting, "leased": leased},
            "consumers": [each for each in status.get("consumers") or [] if each.get("group") == self._name],
        }

    def _count_wait(self, status, own, groups):
        now = status.get("pid"), status.get("slab_wait_seconds") or 0.0
        pid, before = self._latest
        self._latest = now
        if now[0] != pid or now[1] <= before:
            return  # another producer counts from 0
        awaited = [unfinished(each) for each in groups if not drops(each)]
        if own and not drops(own) and unfinished(own) >= max(awaited):
            self._here += now[1] - before
        else:
            self._elsewhere += now[1] - before


def drops(group):
    """Whether the group, as the producer reports it, drops a slab that waits for it instead of making the run wait."""
    return bool(group.get("optional")) or group.get("when_full") == "drop-oldest"


def unfinished(group):
    """Number of slabs that the group, as the producer reports it, has not finished with."""
    return (group.get("waiting_slabs") or 0) + (group.get("leased_slabs") or 0)
