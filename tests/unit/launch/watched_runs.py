"""Complete status documents in the form of a control socket's answers."""


def status_of(pid, samples, **more):
    totals = {
        state: {"slabs": number, "batches": 2 * number, "samples": samples * number, "bytes": 1000 * samples * number}
        for state, number in (
            ("published", 9),
            ("completed", 7),
            ("dead_letters", 1),
            ("redelivered", 2),
            ("dropped", 0),
            ("spilled", 0),
        )
    }
    return {
        "state": "running",
        "run_id": "run-1",
        "pid": pid,
        "producers": 1,
        "time": "2026-01-31T12:00:10.500Z",
        "now_ns": 90_000_000_000,
        "last_release_ns": 88_500_000_000,
        "began_ns": 1_000_000_000,
        "version": "0.9.0",
        "model": 'say "hi"\\\nto \udcff',
        "device": "NVIDIA H200",
        "device_uuid": "GPU-1",
        "total_samples": 1000,
        "done_before": 100,
        "skipped": 3,
        "totals": totals,
        "input_wait_seconds": 1.5,
        "slab_wait_seconds": 0.25,
        "output_wait_seconds": None,
        "stage_bounds_seconds": [0.0001, 0.01, 1],
        "stage_seconds": {
            "compute": {"counts": [1, 2, 3, 4], "sum": 6.5},
            "process": {"counts": [0, 0, 0, 0], "sum": 0},
        },
        "slabs": {"free": 1, "filling": 1, "ready": 2, "leased": 3, "retired": 0, "dead_letters": 1},
        "slab_failures": 5,
        "visibility_timeouts": 1,
        "releases": {"completed": 7, "failed": 1, "foreign": 1, "stale": 2, "malformed": 0},
        "refused": {"refused: another run": 4},
        "shm_bytes": 1 << 30,
        "pinned_bytes_per_second": 54.5e9,
        "consumers": [{"pid": pid + 1, "session": 1, "busy_seconds": 2.0, "ready": True, "stalled": False, "end": ""}],
        **more,
    }


def of_a_run(**more):
    return {
        "ok": True,
        "run_id": "run-1",
        "restarts": 2,
        "takeovers": 1,
        "consumer_busy_seconds": 4.5,
        "deaths": [],
        "log": [],
        "taking_over": False,
        "status": status_of(10, 4),
        **more,
    }


def of_groups():
    numbers = {"released_samples": 40, "dead_lettered_samples": 4, "waiting_slabs": 2, "leased_slabs": 1}
    groups = [
        {"name": "masks", "optional": False, "dropped_samples": 0, "consumers": 3, **numbers},
        {"name": "preview", "optional": True, "dropped_samples": 8, "consumers": 1, **numbers},
    ]
    return of_a_run(status=status_of(10, 4, groups=groups))


def of_gpus():
    def worker(pid, samples):
        return {
            "run_dir": f"/run/s{pid}",
            "status": status_of(pid, samples),
            "restarts": 1,
            "takeovers": 0,
            "consumer_busy_seconds": 1.25,
            "taking_over": False,
            "earlier": {
                "totals": {"completed": {"samples": 1000, "batches": 10, "bytes": 5000}},
                "visibility_timeouts": 7,
            },
        }

    return {
        "ok": True,
        "run_id": "run-2",
        "done_before": 50,
        "restarts": 2,
        "takeovers": 0,
        "consumer_busy_seconds": 2.5,
        "workers": {"cuda:0": worker(10, 4), "cuda:1": worker(20, 5)},
        "status": {
            "state": "running",
            "total_samples": 1000,
            "consumers": [],
            "workers": [{"name": "cuda:0"}, {"name": "cuda:1"}],
        },
    }
