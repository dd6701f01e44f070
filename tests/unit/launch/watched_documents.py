"""The status documents in watched/, by name."""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "watched"
DOCUMENTS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
# What each says at a glance.
SENTENCES = {
    "computing": "Compute is the limit: 99 % busy",
    "ended": "Ended: 4,800 of 4,800 samples in 29 s",
    "failed": "Failed: the device is broken: CUDA error 719 (unspecified launch failure)",
    "finishing": "Finishing: the results are put together",
    "gpus": "The models wait for consumers: no slab is free",
    "loop": "The program is the limit: a slab is free whenever it has a batch",
    "lost_gpu": "1 of 2 producers is lost: the device is broken: CUDA error 719 (unspecified launch failure)",
    "nobody": "Nobody takes slabs: no consumers",
    "older": "The model waits for consumers: 2 of 24 slabs are leased",
    "set_aside": "Ended: 10,384 of 10,400 samples in 15 s",
    "starved": "The model waits for consumers: no slab is free",
    "stopped": "Stopped: 3,448 of 4,800 samples in 20 s",
    "trouble": "The model waits for consumers: 2 of 24 slabs are leased",
}
# Where somebody has to act.
ALARMING = {"failed", "lost_gpu", "nobody", "older", "set_aside", "trouble"}
