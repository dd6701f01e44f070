"""The status documents in watched/, by name, and what becomes of them where a field or two differ."""

import copy
import json
import pathlib
import selectors
import threading

from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.supervision.control import ControlServer

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
    "one_leased": changed("starved", status={"shortage": "", "message": "", **slabs(free=1, ready=22, leased=1)}),
    "going": changed("ended", without=("exit", "failure"), finishing=False, consumers_alive=1),
    "resumed": changed("ended", status={"done_before": 4792, "released_samples": 8}),
    "resumed_gpus": changed("gpus", status={"state": "ended", "exit": 0, "done_samples": 2400, "released_samples": 2400}, done_before=2392),
    "one_of_each": changed("starved", status={"quarantined_samples": 1, "dropped_samples": 1, "skipped": 1, "spilled_samples": 1, "redelivered": 1, "leases_expired": 1,
                                              "releases": dict.fromkeys(("failed", "stale", "foreign", "malformed"), 1), "refused": {"of another run": 1}}, restarts=1, takeovers=1),
    "ages_untold": changed("trouble", status={"consumers": [{name: value for name, value in consumer.items() if name != "oldest_hold_seconds"}
                                                            for consumer in DOCUMENTS["trouble"]["status"]["consumers"]]}),
    "mute_gpu": changed("gpus", status={"time": "2026-11-26T04:40:44.602Z"}, workers={
        **DOCUMENTS["gpus"]["workers"], "producer 2": {**DOCUMENTS["gpus"]["workers"]["producer 2"],
                                                       "status": {**DOCUMENTS["gpus"]["workers"]["producer 2"]["status"], "time": "2026-11-26T04:40:44.500Z"}}}),
    "mute_gpus": changed("gpus", status={"time": "2026-11-26T04:41:44.602Z"}),
    "drained": changed("stopped", status={"state": "ended"}),
    "follows": changed("starved", following={"bounds": "2..12", "follows": True}),
    "followed": changed("starved", following={"bounds": "2..12", "follows": False}, restarts=3),
    "turn": changed("computing", status={"limiting_stage": "turn"}),
    "disk_full": changed("starved", status={"message": "spilling: no space left on device"}),
})
# What each says at a glance.
SENTENCES = {
    "computing": "Compute is the limit: 99 % busy",
    "disk_full": "The model waits for consumers: no slab is free",
    "drained": "Stopped: 3,448 of 4,800 samples in 20 s",
    "ended": "Ended: 4,800 of 4,800 samples in 29 s",
    "failed": "Failed: the device is broken: CUDA error 719 (unspecified launch failure)",
    "finishing": "Finishing: the results are put together",
    "followed": "The model waits for consumers: no slab is free",
    "follows": "The model waits for consumers: no slab is free",
    "going": "Finishing: 1 consumer has not ended yet",
    "gpus": "The models wait for consumers: no slab is free",
    "held": "The model waits for consumers: 1 slab is done with, and a late one still holds it",
    "joining": "Waiting for consumers: 4 processes are about to join",
    "joining_gpus": "Waiting for consumers: 4 processes are about to join",
    "joining_one": "Waiting for consumers: 1 process is about to join",
    "leaving": "The model waits for consumers: all of them are leaving",
    "loop": "The program is the limit: a slab is free whenever it has a batch",
    "lost_gpu": "1 of 2 producers is lost: the device is broken: CUDA error 719 (unspecified launch failure)",
    "mute_gpu": "producer 1 has told nothing for 8 s",
    "mute_gpus": "producer 1 has told nothing for 68 s, and 1 other too",
    "nobody": "Nobody takes slabs: no consumers",
    "older": "The model waited for consumers a moment ago: 22 of 24 slabs are free",
    "one_leased": "The model waits for consumers: 1 of 24 slabs is leased",
    "one_of_each": "The model waits for consumers: no slab is free",
    "ages_untold": "Finishing: 2 slabs are not done yet",
    "resumed": "Ended: 4,800 of 4,800 samples, 8 of them in 29 s",
    "resumed_gpus": "Ended: 2,400 of 2,400 samples, 8 of them by this run",
    "set_aside": "Ended: 10,384 of 10,400 samples in 15 s",
    "set_aside_slabs": "The model waits for the disk, to which 10 slabs set aside are written",
    "starved": "The model waits for consumers: no slab is free",
    "stopped": "Stopped: 3,448 of 4,800 samples in 20 s",
    "trouble": "Finishing: 2 slabs are not done yet",
    "turn": "Everything is loaded: another program computes on this device, and its turn comes next",
}
# What stands below that, where it is more than who is busy.
BELOW = {
    "disk_full": "spilling: no space left on device",
    "mute_gpu": "Its last word: The model waits for consumers: no slab is free",
    "drained": "The run was stopped before its input was used up — 172/s on the whole",
    "set_aside": "16 samples were given up, since consumers died of their batches or failed at them: ./launch/offramp quarantine list --run-dir /runs/20261126-043019-f41c — "
                 "688/s on the whole, 16 set aside",
    "stopped": "The run was stopped before its input was used up",
    "trouble": "Consumer 2 (process 25884) has held slabs 8, 9 for 5 s and is overdue",
}
# Where somebody has to act.
ALARMING = {"ages_untold", "failed", "lost_gpu", "mute_gpu", "mute_gpus", "nobody", "older", "set_aside", "trouble"}


class Answering:
    """
    The control socket of a run in `folder`, which answers a document until mute(), and is gone after end(). Owns: a thread. `asked`: every request.
    """

    def __init__(self, folder, document):
        self.document, self.asked = document, []
        self._selector = selectors.DefaultSelector()
        self._server = ControlServer(pathlib.Path(folder, CONTROL_SOCKET), self._selector, self._answer)
        self._goes_on = True
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _serve(self):
        while self._goes_on:
            for key, _ in self._selector.select(0.05):
                key.data()

    def _answer(self, request):
        self.asked.append(request)
        return self.document

    def mute(self):
        self._goes_on = False
        self._thread.join()

    def end(self):
        if self._server:
            self.mute()
            self._server.close()
            self._selector.close()
            self._server = None
