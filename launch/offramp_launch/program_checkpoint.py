"""What an `offramp.Egress` keeps of its work in the output folder, as far as a launcher has to do with it: launch/python/offramp/_checkpoint.py."""

import contextlib
import json
import os

from offramp_launch import shared_folder

CHECKPOINT = ".offramp-egress"
NEW_CHECKPOINT = ".offramp-egress.new"


def work_of(folder, name=CHECKPOINT):
    """The name of the work that the folder's checkpoint is of; nothing where there is none, or none that can be read."""
    try:
        header = json.loads(shared_folder.read(folder, name).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    work = header.get("work") if isinstance(header, dict) else None
    return work if isinstance(work, str) else None


def begin(folder, work):
    """
    Of the work of this name the consumers are about to come. What another work's checkpoint says is done may be replaced from here on: the
    work's own takes its place.
    """
    with shared_folder.folder_within(folder, CHECKPOINT) as (inside, name), contextlib.suppress(FileNotFoundError):
        if work_of(folder) == work:
            return
        if work_of(folder, NEW_CHECKPOINT) == work:
            os.replace(NEW_CHECKPOINT, name, src_dir_fd=inside, dst_dir_fd=inside)
        else:
            os.unlink(name, dir_fd=inside)
