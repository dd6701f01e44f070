"""Named status documents in the form of a control socket's answers. Each entry gives only its special fields."""

import copy
import pathlib
import selectors
import threading

from offramp_launch.run_dir import CONTROL_SOCKET
from offramp_launch.supervision.control import ControlServer

LETTERS = {"F": "free", "G": "filling", "P": "ready", "L": "leased", "R": "retired", "D": "dead_letters"}
STATES = {letter: state for state, letter in LETTERS.items()}
STAGES = ("compute", "d2h", "queue", "process")
BROKEN = "the device is broken: CUDA error 719 (unspecified launch failure)"
GIVEN_UP = "16 samples were dead-lettered, since consumers died of their batches or failed at them: ./launch/offramp dead-letters list --run-dir /runs/{run}"
LOG = [
    "2026-11-26T04:32:55.582Z info    producer[1690] source: synthetic: 4800 items, made on the host",
    "a line without a time",
]
KILLED = [{"time": "2026-11-26T04:30:34.100Z", "who": "consumer-3", "how": "killed by SIGKILL"}]


def consumer(pid, session, held=(), busy=13.1, samples=2568, hold_seconds=0.2, stalled=False):
    return {
        "pid": pid,
        "session": session,
        "consumer_index": session - 1,
        "ready": True,
        "end": "",
        "busy_seconds": busy,
        "samples": samples,
        "batches": samples // 8,
        "slabs": samples // 8,
        "bytes": samples << 17,
        "held": list(held),
        "holding": len(held),
        "oldest_hold_seconds": hold_seconds,
        "stalled": stalled,
    }


def status(slab_states="", samples=0, total=None, published=None, redelivered=0, seconds=30, stage_seconds=1.5, **more):
    """One producer's status. `slab_states`: one letter per slab."""
    sums = {
        "completed": samples,
        "published": samples if published is None else published,
        "redelivered": redelivered,
        "dead_letters": 0,
        "dropped": 0,
        "spilled": 0,
    }
    return {
        "state": "running",
        "run_id": "run-1",
        "pid": 3747,
        "producers": 1,
        "version": "0.1.0",
        "model": "cutout",
        "device": "cpu",
        "device_uuid": "",
        "time": "2026-11-26T05:16:16.362Z",
        "began_ns": 10**12,
        "now_ns": 10**12 + int(seconds * 1e9),
        "last_release_ns": 10**12 + int((seconds - 0.3) * 1e9),
        "total_samples": total,
        "done_samples": samples,
        "done_before": 0,
        "released_samples": samples,
        "released_batches": samples // 8,
        "released_bytes": samples << 17,
        "batches": samples // 8,
        "samples_per_second": samples / seconds,
        "skipped": 0,
        "dead_lettered_samples": 0,
        "dropped_samples": 0,
        "spilled_samples": 0,
        "redelivered": redelivered // 8,
        "visibility_timeouts": 0,
        "slab_failures": 0,
        "limiting_stage": "consumers",
        "shortage": "",
        "message": "",
        "last_failure": "",
        "gpu_utilization": 0.115,
        "consumer_utilization": 1.0,
        "compute_busy_batches": samples // 8,
        "compute_busy_seconds": stage_seconds,
        "input_wait_seconds": 0.4,
        "slab_wait_seconds": 13.8,
        "output_wait_seconds": 0.1,
        "shm_bytes": 1 << 24,
        "pinned_bytes_per_second": None,
        "consumers": [],
        "slab_states": slab_states,
        "slab_state_letters": LETTERS,
        "slabs": {state: slab_states.count(letter) for state, letter in STATES.items()},
        "releases": {
            **dict.fromkeys(("failed", "foreign", "holder-removed", "malformed", "repeated", "returned", "stale"), 0),
            "completed": samples // 8,
        },
        "refused": {},
        "totals": {
            name: {"slabs": count // 8, "batches": count // 8, "samples": count, "bytes": count << 17}
            for name, count in sums.items()
        },
        "stage_bounds_seconds": [0.0001, 0.001, 0.01, 0.1, 1],
        "stage_seconds": {stage: {"counts": [0, 0, samples // 8, 0, 0, 0], "sum": stage_seconds} for stage in STAGES},
        **more,
    }


def run(run_id, its_status, **more):
    """A launcher's answer for a run with one producer."""
    return {
        "run_id": run_id,
        "run_dir": f"/runs/{run_id}",
        "consumers_wanted": 4,
        "consumers_alive": len(its_status["consumers"]),
        "launcher_pid": 3723,
        "producer_pid": its_status["pid"],
        "producer_restarts": 0,
        "taking_over": False,
        "ending": False,
        "reload": None,
        "restarts": 0,
        "takeovers": 0,
        "deaths": [],
        "log": list(LOG),
        "consumer_busy_seconds": 56.4,
        "status": {**its_status, "run_id": run_id},
        **more,
    }


def ended(run_id, state, code, failure, its_status, **more):
    return run(
        run_id,
        {**its_status, "state": state, "exit": code, "failure": failure and failure.format(run=run_id)},
        finishing=True,
        **more,
    )


def worker(shard, consumers):
    """One of several producers, at work on its third shard."""
    earlier = {
        "skipped": 0,
        "slab_wait_seconds": 3.6,
        "visibility_timeouts": 0,
        "refused": {"foreign": 0, "malformed": 0, "stale": 0},
        "totals": {
            "completed": {"samples": 600, "batches": 76, "bytes": 79691776},
            "dead_letters": {"samples": 0},
            "dropped": {"samples": 0},
        },
        "stage_seconds": {stage: {"counts": [0, 80, 0, 0, 0, 0], "sum": 3.0} for stage in STAGES},
    }
    its_status = status(
        "PPLPPLPPLPPPPLPP",
        total=300,
        consumers=consumers,
        shortage="all-leased",
        message="all slabs are in use, 12 ready, 4 leased",
        time="2026-11-26T04:40:36.602Z",
    )
    return {
        "run_dir": f"/runs/of-gpus/s{shard}",
        "status": its_status,
        "earlier": earlier,
        "consumer_busy_seconds": 8.4,
        "taking_over": False,
        "restarts": 0,
        "takeovers": 0,
        "status_seconds": 0.5,
    }


def of_gpus(names, lost=None, **more):
    """A launcher's answer for a run with several producers. `lost`: the producer that ended."""
    workers = {
        name: worker(
            4 + number, [consumer(7700 + 10 * number + each, each, (3 * each, 3 * each + 1), 0, 0) for each in (1, 2)]
        )
        for number, name in enumerate(names)
    }
    rows = [
        {
            "name": name,
            "state": "at work",
            "why_lost": None,
            "shard": 4 + number,
            "run_dir": each["run_dir"],
            "pid": 7575 + number,
            "done_samples": 0,
            "samples_per_second": 0.0,
            "consumers": 2,
            "shards_done": 2,
            "time": "2026-11-26T04:40:36.602Z",
        }
        for number, (name, each) in enumerate(workers.items())
    ]
    one = status(
        samples=1200,
        total=2400,
        shortage="all-leased",
        message="producer 1: all slabs are in use",
        consumer_utilization=None,
    )
    every = [each for found in workers.values() for each in found["status"]["consumers"]]
    whole = {
        field: one[field]
        for field in (
            "state",
            "total_samples",
            "done_samples",
            "skipped",
            "dead_lettered_samples",
            "dropped_samples",
            "released_samples",
            "redelivered",
            "spilled_samples",
            "samples_per_second",
            "gpu_utilization",
            "consumer_utilization",
            "releases",
            "refused",
            "limiting_stage",
            "message",
        )
    }
    whole.update(
        time="2026-11-26T04:40:37.000Z",
        slabs={state: 2 * count for state, count in workers[names[0]]["status"]["slabs"].items()},
        workers=rows,
        consumers=[{field: value for field, value in each.items() if field != "held"} for each in every],
    )
    if lost:
        workers[lost].update(run_dir=None, status={})
        rows[names.index(lost)].update(state="lost", why_lost=BROKEN, shard=None, run_dir=None, pid=None, time=None)
    return {
        "run_id": "of-gpus",
        "run_dir": "/runs/of-gpus",
        "consumers_wanted": 4,
        "consumers_alive": 4,
        "launcher_pid": 5663,
        "ending": False,
        "reload": None,
        "restarts": 0,
        "takeovers": 0,
        "deaths": [],
        "consumer_busy_seconds": 17.7,
        "log": list(LOG),
        "workers": workers,
        "done_before": 0,
        "status": whole,
        **more,
    }


FOUR = [consumer(3749 + number, 1 + number, (11 + number, 15 + number)) for number in range(4)]
LATE = [consumer(25884, 2, (8, 9), hold_seconds=5.1, stalled=True), consumer(25870, 4), consumer(26698, 5)]
FULL = "all slabs are in use, 16 ready, 8 leased; pid 3749 holds 2 for 0.9 s"
MINE = {"samples": 10384, "total": 10400, "published": 10408, "seconds": 15.1, "time": "2026-11-26T04:30:39.285Z"}
FAILED = {**MINE, "redelivered": 16, "dead_lettered_samples": 16, "last_failure": "Traceback\nValueError: <b>shape</b>"}
DOCUMENTS = {
    "computing": run(
        "of-a-gpu",
        status(
            "FFFFFFFFFFFFFFFLGGGGGGFF",
            8412,
            10400,
            limiting_stage="compute",
            gpu_utilization=0.985,
            device="NVIDIA H200",
            device_uuid="GPU-5d8a3a5e",
            samples_per_second=284.0,
            time="2026-11-26T05:16:01.308Z",
            consumers=FOUR,
        ),
    ),
    "starved": run(
        "of-a-cpu",
        status("PPPPPPPPPPPLLLLLLLLPPPPP", 9068, 10400, 9164, shortage="all-leased", message=FULL, consumers=FOUR),
    ),
    "no_consumers": run(
        "of-none", status("P" * 16, 320, 12000, 344, shortage="no-consumers", message="no consumers, 16 ready")
    ),
    "loop": run(
        "of-a-loop",
        status(
            "FLFFLFFGFLFFFLFF",
            6184,
            None,
            6208,
            limiting_stage="program",
            model=None,
            name="my loop",
            gpu_utilization=None,
            input_wait_seconds=None,
            output_wait_seconds=None,
            consumers=FOUR,
        ),
    ),
    "trouble": run(
        "of-trouble",
        status(
            "FFFFFFFFLLFFFFFFFFFFFFFF",
            **{**MINE, "published": 10432},
            redelivered=32,
            visibility_timeouts=1,
            consumers=LATE,
        ),
        restarts=1,
        deaths=KILLED,
        consumers_alive=1,
    ),
    "ended": ended(
        "of-an-end",
        "ended",
        0,
        None,
        status("F" * 32, 4800, 4800, 4812, seconds=28.7, limiting_stage="compute", gpu_utilization=0.99),
    ),
    "stopped": ended(
        "of-a-stop",
        "abandoned",
        130,
        "the run was stopped before its input was used up",
        status("F" * 32, 3448, 4800, seconds=20.1, limiting_stage="compute", gpu_utilization=0.99),
    ),
    "failed": ended(
        "of-a-failure",
        "failed",
        82,
        BROKEN + ". Its log: /runs/{run}/logs/producer",
        status("FFFFFFFFLLFFFFFFFFFFFFFF", **FAILED),
        restarts=1,
        deaths=KILLED,
    ),
    "dead_letters": ended(
        "of-samples-lost", "ended", 84, GIVEN_UP, status("F" * 24, **FAILED), restarts=1, deaths=KILLED
    ),
    "gpus": of_gpus(["producer 1", "producer 2"]),
    "lost_gpu": of_gpus(
        ["GPU 0", "GPU 1"],
        "GPU 1",
        deaths=[
            {
                "time": "2026-11-26T04:40:35.120Z",
                "who": "GPU 1",
                "how": "shard 5 ended with exit code 82: the device is broken",
            }
        ],
    ),
}


def changed(name, status=(), without=(), **document):
    """The document `name` with other fields. `without`: fields to remove from its status."""
    one = copy.deepcopy({**DOCUMENTS[name], **document})
    one["status"].update(status)
    for field in without:
        del one["status"][field]
    return one


def following(bounds, follows):
    return {"following": {"bounds": bounds, "follows": follows, "changes": 1, "mean_consumers": 2.5}}


def group(name, released, optional=False, consumers=2, **more):
    """A group as the producer reports it."""
    counts = "released_slabs dead_lettered_samples dropped_samples waiting_slabs leased_slabs".split()
    return {
        **dict.fromkeys(counts, 0),
        **{"name": name, "optional": optional, "released_samples": released, "consumers": consumers, "shortage": ""},
        **more,
    }


def slabs(**counts):
    return {"slabs": {**dict.fromkeys(("free", "filling", "ready", "leased", "retired", "dead_letters"), 0), **counts}}


DOCUMENTS.update(
    {
        "finishing": changed("ended", without=("exit", "failure")),
        "joining": changed("no_consumers", consumers_alive=4),
        "joining_one": changed("no_consumers", consumers_alive=1),
        "joining_gpus": changed("gpus", status={"consumers": []}, consumers_alive=0),
        "dead_letter_slabs": changed(
            "starved", status={"shortage": "dead-letters", **slabs(dead_letters=10, leased=6)}
        ),
        "held": changed("starved", status={"shortage": "retired-but-held", **slabs(retired=1)}),
        "leaving": changed("starved", status={"shortage": "draining"}),
        "one_leased": changed("starved", status={"shortage": "", "message": "", **slabs(free=1, ready=22, leased=1)}),
        "going": changed("ended", without=("exit", "failure"), finishing=False, consumers_alive=1),
        "resumed": changed("ended", status={"done_before": 4792, "released_samples": 8}),
        "resumed_gpus": changed(
            "gpus",
            status={"state": "ended", "exit": 0, "done_samples": 2400, "released_samples": 2400},
            done_before=2392,
        ),
        "one_of_each": changed(
            "starved",
            status={
                "dead_lettered_samples": 1,
                "dropped_samples": 1,
                "skipped": 1,
                "spilled_samples": 1,
                "redelivered": 1,
                "visibility_timeouts": 1,
                "releases": dict.fromkeys(("failed", "stale", "foreign", "malformed"), 1),
                "refused": {"of another run": 1},
            },
            restarts=1,
            takeovers=1,
        ),
        "without_ages": changed(
            "trouble",
            status={
                "consumers": [
                    {name: value for name, value in consumer.items() if name != "oldest_hold_seconds"}
                    for consumer in DOCUMENTS["trouble"]["status"]["consumers"]
                ]
            },
        ),
        "mute_gpu": changed(
            "gpus",
            status={"time": "2026-11-26T04:40:44.602Z"},
            workers={
                **DOCUMENTS["gpus"]["workers"],
                "producer 2": {
                    **DOCUMENTS["gpus"]["workers"]["producer 2"],
                    "status": {
                        **DOCUMENTS["gpus"]["workers"]["producer 2"]["status"],
                        "time": "2026-11-26T04:40:44.500Z",
                    },
                },
            },
        ),
        "mute_gpus": changed("gpus", status={"time": "2026-11-26T04:41:44.602Z"}),
        "drained": changed("stopped", status={"state": "ended"}),
        "follows": changed("starved", following={"bounds": "2..12", "follows": True}),
        "followed": changed("starved", following={"bounds": "2..12", "follows": False}, restarts=3),
        "sparse": changed(
            "trouble",
            status={"message": "", "consumers": [LATE[0] | {"held": []}]},
            without=(
                "totals",
                "stage_seconds",
                "stage_bounds_seconds",
                "slab_states",
                "slab_state_letters",
                "began_ns",
                "model",
                "device",
                "device_uuid",
                "input_wait_seconds",
                "output_wait_seconds",
            ),
        ),
        "dropping": changed(
            "computing",
            status={
                "done_samples": 6400,
                "dropped_samples": 2000,
                "dropped_waiting_samples": 2000,
                "totals": {name: {"samples": count} for name, count in (("published", 8412), ("dropped", 2000))},
            },
        ),
        "turn": changed("computing", status={"limiting_stage": "turn"}),
        "grouped": changed(
            "starved",
            status={
                "groups": [
                    group(
                        "masks",
                        2568,
                        waiting_slabs=2,
                        leased_slabs=3,
                        dead_lettered_samples=16,
                        shortage="group 'masks': no consumers, 2 ready",
                    ),
                    group("vectors", 2600, consumers=1),
                    group("preview", 1400, optional=True, dropped_samples=1200, consumers=0),
                ],
                "consumers": [
                    {**consumer(31, 1, [4]), "group": "masks"},
                    {**consumer(32, 2, [5, 6], stalled=True, hold_seconds=40.2), "group": "masks"},
                    {**consumer(33, 1, [4, 7]), "group": "vectors"},
                ],
            },
            groups=[
                {**following("2..8", True), "name": "masks", "optional": False, "wanted": 4, "alive": 3, "failure": ""},
                {
                    **following("1..2", False),
                    "name": "vectors",
                    "optional": False,
                    "wanted": 1,
                    "alive": 1,
                    "failure": "",
                },
                {
                    "name": "preview",
                    "optional": True,
                    "wanted": 1,
                    "alive": 0,
                    "failure": f"preview-1 ended: no screen {'here ' * 30}",
                },
            ],
        ),
        "disk_full": changed("starved", status={"message": "spilling: no space left on device"}),
    }
)
# The headline of each document.
SENTENCES = {
    "computing": "Compute is the limit: 99 % busy",
    "disk_full": "The model waits for consumers: no slab is free",
    "dropping": "Compute is the limit: 99 % busy",
    "drained": "Stopped: 3,448 of 4,800 samples in 20 s",
    "ended": "Ended: 4,800 of 4,800 samples in 29 s",
    "failed": "Failed: the device is broken: CUDA error 719 (unspecified launch failure)",
    "finishing": "Finishing: merging the results",
    "followed": "The model waits for consumers: no slab is free",
    "follows": "The model waits for consumers: no slab is free",
    "going": "Finishing: 1 consumer has not ended yet",
    "gpus": "The models wait for consumers: no slab is free",
    "grouped": "The model waits for consumers of masks: no slab is free",
    "held": "The model waits for consumers: a late consumer still holds 1 retired slab",
    "joining": "Waiting for consumers: 4 processes are about to join",
    "joining_gpus": "Waiting for consumers: 4 processes are about to join",
    "joining_one": "Waiting for consumers: 1 process is about to join",
    "leaving": "The model waits for consumers: every consumer is leaving",
    "loop": "The program is the limit: a slab is free whenever it has a batch",
    "lost_gpu": "1 of 2 producers is lost: the device is broken: CUDA error 719 (unspecified launch failure)",
    "mute_gpu": "producer 1 has not reported for 8 s",
    "mute_gpus": "producer 1 has not reported for 68 s, and 1 other too",
    "no_consumers": "Waiting for consumers: none is running",
    "sparse": "The model waited for consumers a moment ago: 22 of 24 slabs are free",
    "one_leased": "The model waits for consumers: 1 of 24 slabs is leased",
    "one_of_each": "The model waits for consumers: no slab is free",
    "without_ages": "Finishing: 2 slabs are not done yet",
    "resumed": "Ended: 4,800 of 4,800 samples, 8 of them in 29 s",
    "resumed_gpus": "Ended: 2,400 of 2,400 samples, 8 of them by this run",
    "dead_letters": "Ended: 10,384 of 10,400 samples in 15 s",
    "dead_letter_slabs": "The model waits for the disk: 10 dead-lettered slabs are being written",
    "starved": "The model waits for consumers: no slab is free",
    "stopped": "Stopped: 3,448 of 4,800 samples in 20 s",
    "trouble": "Finishing: 2 slabs are not done yet",
    "turn": "Ready: another program computes on this device, and this one is next",
}
# The details below the headline, beyond the busy stages.
BELOW = {
    "disk_full": "spilling: no space left on device",
    "mute_gpu": "Last report: The model waits for consumers: no slab is free",
    "drained": "The run was stopped before its input was used up — 172/s on average",
    "dead_letters": "16 samples were dead-lettered, since consumers died of their batches or failed at them: ./launch/offramp dead-letters list --run-dir /runs/of-samples-lost — "
    "688/s on average, 16 dead-lettered",
    "stopped": "The run was stopped before its input was used up",
    "trouble": "Consumer 2 (process 25884) has held slabs 8, 9 for 5 s and is stalled",
}
# Conditions that need an operator.
ALARMING = {
    "without_ages",
    "failed",
    "grouped",
    "lost_gpu",
    "mute_gpu",
    "mute_gpus",
    "no_consumers",
    "sparse",
    "dead_letters",
    "trouble",
}


class FakeLauncher:
    """
    The control socket of a run in `folder`. It answers with a document until mute(), and is removed by end(). Owns: a
    thread. `asked`: every request.
    """

    def __init__(self, folder, document):
        self.document, self.asked = document, []
        self._selector = selectors.DefaultSelector()
        socket_path = pathlib.Path(folder, CONTROL_SOCKET)
        socket_path.parent.mkdir(exist_ok=True)
        self._server = ControlServer(socket_path, self._selector, self._answer)
        self._is_running = True
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _serve(self):
        while self._is_running:
            for key, _ in self._selector.select(0.05):
                key.data()

    def _answer(self, request):
        self.asked.append(request)
        return self.document

    def mute(self):
        self._is_running = False
        self._thread.join()

    def end(self):
        if self._server:
            self.mute()
            self._server.close()
            self._selector.close()
            self._server = None
