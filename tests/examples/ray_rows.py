"""
A job's shards as a data set of Ray Data: python ray_rows.py JOB. Pictures and masks stay in shared memory and in the
job's output. Only rows of metadata, written by --processor records, flow through Ray. Every node has Offramp and JOB.
Run `offramp job merge` afterwards, as after `job ray`.
"""

import json
import pathlib
import sqlite3
import sys

import ray.data
from offramp.ray import Worker, command_on_nodes

JOB = pathlib.Path(sys.argv[1]).absolute()
COMMAND = command_on_nodes(None)
OF_A_WORKER = {"num_gpus": 1} if "--cpu" not in sys.argv else {"num_cpus": 1}


class RowsOfShard:
    def __init__(self, output):
        self.worker = Worker(JOB, COMMAND, [])
        self.output = pathlib.Path(output)

    def __call__(self, row):
        code = self.worker.do(int(row["id"]))
        if code != 0:
            raise RuntimeError(f"shard {row['id']} ended with exit code {code}: {JOB}/ray/{row['id']}.log")
        database = self.output / ".offramp-shards" / str(row["id"]) / "records" / "records.sqlite"
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as rows:
            rows.row_factory = sqlite3.Row
            for record in rows.execute("SELECT * FROM records WHERE status = 'done'"):
                yield {**dict(record), "shard": row["id"]}


job = json.loads((JOB / "job.json").read_text())
shards = ray.data.range(job["shards"], override_num_blocks=job["shards"])
rows = shards.flat_map(RowsOfShard, fn_constructor_args=(job["output"],), concurrency=(1, job["shards"]), **OF_A_WORKER)
for row in rows.iter_rows():
    print(row["shard"], row["key"], row["status"])
