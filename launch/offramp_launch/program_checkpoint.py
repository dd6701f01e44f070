"""The launcher's view of an Egress's checkpoint in the output folder: launch/python/offramp/_checkpoint.py."""

import contextlib
import json
import os

from offramp_launch import shared_folder

CHECKPOINT = ".offramp-egress"
NEW_CHECKPOINT = ".offramp-egress.new"


def work_of(folder, name=CHECKPOINT):
    """The name of the work in the folder's checkpoint; None without a readable checkpoint."""
    try:
        header = json.loads(shared_folder.read(folder, name).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    work = header.get("work") if isinstance(header, dict) else None
    return work if isinstance(work, str) else None


def has_no_finished_batch(folder):
    """Whether the folder has a checkpoint without a finished batch."""
    try:
        lines = shared_folder.read(folder, CHECKPOINT).splitlines()
    except OSError:
        return False
    return work_of(folder) is not None and not any(b'"done"' in line for line in lines[1:])


def begin(folder, work):
    """Call before the consumers of this work start: puts the checkpoint that its Egress has written in place."""
    with shared_folder.folder_within(folder, CHECKPOINT) as (inside, name), contextlib.suppress(FileNotFoundError):
        if work_of(folder) != work and work_of(folder, NEW_CHECKPOINT) == work:
            os.replace(NEW_CHECKPOINT, name, src_dir_fd=inside, dst_dir_fd=inside)
