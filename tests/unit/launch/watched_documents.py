"""The status documents in watched/, by name, and what becomes of them where a field or two differ."""

import copy
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "watched"
DOCUMENTS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def changed(name, status=(), without=(), **document):
    """One of them with other fields. `without`: those that its status has not."""
    one = copy.deepcopy({**DOCUMENTS[name], **document})
    one["status"].update(status)
    for field in without:
        del one["status"][field]
    return one


def slabs(**counts):
    return {"slabs": {**dict.fromkeys(("free", "filling", "ready", "leased", "retired", "quarantined"), 0), **counts}}


DOCUMENTS.update({
    "finishing": changed("ended", without=("exit", "failure")),
    "joining": changed("nobody", consumers_alive=4),
    "joining_one": changed("nobody", consumers_alive=1),
    "joining_gpus": changed("gpus", status={"consumers": []}, consumers_alive=0),
    "set_aside_slabs": changed("starved", status={"shortage": "quarantine", **slabs(quarantined=10, leased=6)}),
    "held": changed("starved", status={"shortage": "retired-but-held", **slabs(retired=1)}),
    "leaving": changed("starved", status={"shortage": "draining"}),
    "disk_full": changed("starved", status={"message": "spilling: no space left on device"}),
})
# What each says at a glance.
SENTENCES = {
    "computing": "Compute is the limit: 99 % busy",
    "disk_full": "The model waits for consumers: no slab is free",
    "ended": "Ended: 4,800 of 4,800 samples in 29 s",
    "failed": "Failed: the device is broken: CUDA error 719 (unspecified launch failure)",
    "finishing": "Finishing: the results are put together",
    "gpus": "The models wait for consumers: no slab is free",
    "held": "The model waits for consumers: 1 slab is done with, and a late one still holds it",
    "joining": "Waiting for consumers: 4 processes are about to join",
    "joining_gpus": "Waiting for consumers: 4 processes are about to join",
    "joining_one": "Waiting for consumers: 1 process is about to join",
    "leaving": "The model waits for consumers: all of them are leaving",
    "loop": "The program is the limit: a slab is free whenever it has a batch",
    "lost_gpu": "1 of 2 producers is lost: the device is broken: CUDA error 719 (unspecified launch failure)",
    "nobody": "Nobody takes slabs: no consumers",
    "older": "The model waits for consumers: 2 of 24 slabs are leased",
    "set_aside": "Ended: 10,384 of 10,400 samples in 15 s",
    "set_aside_slabs": "The model waits for the disk, to which 10 slabs set aside are written",
    "starved": "The model waits for consumers: no slab is free",
    "stopped": "Stopped: 3,448 of 4,800 samples in 20 s",
    "trouble": "Finishing: 2 slabs are not done yet",
}
# What stands below that, where it is more than who is busy.
BELOW = {
    "disk_full": "spilling: no space left on device",
    "set_aside": "16 samples were given up, since consumers died of their batches or failed at them: ./launch/offramp quarantine list --run-dir /runs/20261126-043019-f41c — "
                 "688/s on the whole, 16 set aside",
    "stopped": "The run was stopped before its input was used up",
    "trouble": "Consumer 2 (process 25884) has held slabs 8, 9 for 5 s and is overdue",
}
# Where somebody has to act.
ALARMING = {"failed", "lost_gpu", "nobody", "older", "set_aside", "trouble"}
