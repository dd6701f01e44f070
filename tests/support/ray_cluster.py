"""
Runs a Ray cluster on this machine until standard input ends; needs a Python with Ray. The head takes no work. Prints
the cluster's address. For each line NAME on standard input, starts a node with a fake GPU, enough for one worker, and
prints its raylet's pid.
"""

import sys
import threading

from ray.cluster_utils import Cluster

# The cluster drops a silent node within seconds.
IMPATIENT = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
STORE_BYTES = 80 << 20


def main():
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "_system_config": IMPATIENT,
        },
    )
    print(cluster.address, flush=True)
    for line in sys.stdin:
        node = cluster.add_node(num_cpus=1, num_gpus=1, resources={line.strip(): 1}, object_store_memory=STORE_BYTES)
        raylet = node.all_processes["raylet"][0].process
        # workers treat a killed raylet as alive until it is reaped
        threading.Thread(target=raylet.wait, daemon=True).start()
        print(raylet.pid, flush=True)


if __name__ == "__main__":
    main()
