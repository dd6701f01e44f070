"""
GPU selection, each worker's share of the machine, failing workers, and the removal of the job, interrupted at every
step.
"""

import contextlib
import dataclasses
import errno
import importlib
import io
import json
import os
import pathlib
import signal
import tempfile
import types
from unittest import mock

from stage import InFolder

from offramp_launch import interrupts
from offramp_launch.gpus import job as gpus_job, status as gpus_status, summary as gpus_summary, worker as gpus_worker
from offramp_launch.jobs import command as job_command, files as job_files, merge as job_merge, shard_command
from offramp_launch.exit_code import LaunchError
from offramp_launch.gpus.command import (
    ask,
    is_of_one_producer,
    make_room_in,
    most_errors,
    on_first_working,
    place_of,
    require_different,
    supervise,
)
from offramp_launch.run_steps import Work
from offramp_launch.gpus.workers import StoppedProcess, Worker, command_of, stat_of
from offramp_launch.finishing import Finishing
from offramp_launch.gpus.devices import (
    Device,
    Gpu,
    cores_near,
    devices_of,
    gpus_of_this_machine,
    names_of,
    numbers_of,
    parts_of,
    visible,
)
from offramp_launch.gpus.shares import flags_of_workers, initial_consumers, setting_given, shards_for, starting_groups
from offramp_launch.gpus.supervisor import GpusPlan, GpusSupervisor
from offramp_launch.jobs.folder import Job
from offramp_launch.jobs.shard_record import report_of
from offramp_launch.output_folder import NOTES, require_no_job
from offramp_launch.run_dir import RunDir
from offramp_launch.supervision.autoscaler import Bounds
from offramp_launch.supervision.consumer_groups import GroupPlan
from offramp_launch.supervision.events import SignalInbox

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1e5f4a2c-0000-4106-c12f-20bd9faed9f6")
NODES = {"0000:3b:00.0": "0-3\n", "0000:86:00.0": "4-5,7\n"}


class GpusCase(InFolder):
    def refused(self, code, reason, call, *arguments):
        with self.assertRaises(LaunchError) as caught:
            call(*arguments)
        self.assertEqual((caught.exception.code, reason in str(caught.exception)), (code, True), str(caught.exception))


class Devices(GpusCase):
    def test_gpus_selects_all_a_number_or_a_list(self):
        for wanted, numbers in (
            ("all", [0, 1, 2]),
            ("2", [0, 1]),
            ("0,2", [0, 2]),
            ("1,", [1]),
            ("2,0", [2, 0]),
            ("0,0", [0, 0]),
        ):
            self.assertEqual(list(numbers_of(wanted, 3)), numbers, wanted)
        self.assertEqual(list(names_of([0, 2, 0])), ["GPU 0, worker 1", "GPU 2", "GPU 0, worker 2"])
        for wanted, reason in (
            ("4", "more than the 3 GPUs"),
            ("0,3", "GPU 3 does not exist; 3 are visible, numbered from 0"),
            ("0", "'0' is not valid"),
            ("-1", "not valid"),
            ("0;1", "not valid"),
            (",", "asks for 0 workers"),
            ("", "not valid"),
            ("²", "not valid"),
        ):
            self.refused(64, reason, numbers_of, wanted, 3)

    def nvidia_smi(self, script):
        """Puts a fake nvidia-smi first in PATH."""
        program = self.folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        found = mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        found.start()
        self.addCleanup(found.stop)

    def test_a_lost_gpu_leaves_the_others_in_use(self):
        lost = "Unable to determine the device handle for GPU 0000:86:00.0: GPU is lost"
        self.nvidia_smi(
            "\n".join(
                f"echo '{uuid}, 00000000:{bus}:00.0, Disabled, NVIDIA H100, 80GB'"
                for uuid, bus in zip(UUIDS, ("3B", "AF"))
            )
            + f"\necho '{lost}'; exit 15"
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(
                gpus_of_this_machine("all"),
                [
                    Gpu(UUIDS[0], "00000000:3B:00.0", "Disabled", "NVIDIA H100, 80GB"),
                    Gpu(UUIDS[1], "00000000:AF:00.0", "Disabled", "NVIDIA H100, 80GB"),
                ],
            )
        self.assertIn(lost, printed.getvalue())

    def test_an_nvidia_smi_that_hangs_is_not_waited_for(self):
        self.nvidia_smi("exec sleep 60")
        with (
            mock.patch("offramp_launch.gpus.devices.ANSWERS_SECONDS", 0.1),
            mock.patch("glob.glob", return_value=["/dev/nvidia0"]),
        ):
            self.refused(83, "nvidia-smi did not answer within 0.1 s", gpus_of_this_machine, "all")
            for word in (UUIDS[0], "MIG-x"):
                self.assertEqual(
                    [device.environment for device in devices_of("all", "cuda", {"CUDA_VISIBLE_DEVICES": word}, {0})],
                    [{"CUDA_VISIBLE_DEVICES": word}],
                )

    def test_a_gpu_in_mig_mode_is_refused(self):
        self.nvidia_smi(f"echo '{UUIDS[0]}, 00000000:3B:00.0, Enabled, NVIDIA H100'")
        self.refused(64, "is in MIG mode", devices_of, "all", "auto", {}, {0})
        self.assertEqual(
            [device.environment for device in devices_of("2", "auto", {"CUDA_VISIBLE_DEVICES": "MIG-x,MIG-y"}, {0})],
            [{"CUDA_VISIBLE_DEVICES": "MIG-x"}, {"CUDA_VISIBLE_DEVICES": "MIG-y"}],
        )

    def test_the_programs_are_asked_on_the_first_working_device(self):
        devices, asked = [Device(f"GPU {number}", {"CUDA_VISIBLE_DEVICES": str(number)}) for number in range(3)], []

        def ask(code):
            asked.append(os.environ["CUDA_VISIBLE_DEVICES"])
            if asked[-1] != "2":
                raise LaunchError("it is lost", "", code)
            return asked[-1]

        with (
            mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="9"),
            contextlib.redirect_stdout(io.StringIO()) as printed,
        ):
            self.assertEqual(on_first_working(devices, lambda: ask(82)), "2")
            self.assertEqual((asked, os.environ["CUDA_VISIBLE_DEVICES"]), (["0", "1", "2"], "2"))
            self.refused(83, "it is lost", on_first_working, devices[:2], lambda: ask(83))
            self.refused(64, "it is lost", on_first_working, devices, lambda: ask(64))
        self.assertEqual(
            (asked[3:], printed.getvalue().count("does not answer, trying the next: it is lost")), (["0", "1", "0"], 3)
        )

    def test_a_gpu_with_too_few_near_cores_stays_unbound(self):
        self.nvidia_smi(f"echo '{UUIDS[0]}, 00000000:86:00.0, Disabled, NVIDIA H100'")
        (self.folder / "0000:86:00.0").mkdir()
        (self.folder / "0000:86:00.0/local_cpulist").write_text("0-3\n")
        with mock.patch("offramp_launch.gpus.devices.PCI_DEVICES", self.folder):
            for wanted, cores in (("0,0", (0, 1, 2, 3)), ("0,", ())):
                self.assertEqual(
                    {device.cores for device in devices_of(wanted, "cuda", {}, set(range(8)))}, {cores}, wanted
                )

    def test_a_worker_whose_cores_do_not_exist_stays_unbound(self):
        before = os.sched_getaffinity(0)
        gpus_worker.bind_to([max(os.sched_getaffinity(0)) + 1000])
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_cuda_visible_devices_selects_and_orders_gpus(self):
        gpus = [Gpu("GPU-aa"), Gpu("GPU-ab"), Gpu("GPU-c")]
        for limited, left in (
            (None, gpus),
            ("2,0", [gpus[2], gpus[0]]),
            ("GPU-ab", gpus[1:2]),
            ("1,GPU-a,0", gpus[1:2]),
            ("1,7,0", gpus[1:2]),
            ("MIG-x", [Gpu("MIG-x")]),
            (f"{UUIDS[0]},0", [Gpu(UUIDS[0]), gpus[0]]),
        ):
            self.assertEqual(visible(gpus, limited), left, limited)
        for limited in ("", "-1", "7"):
            self.refused(83, "leaves none of the 3 GPUs", visible, gpus, limited)

    def test_cores_are_those_of_the_gpus_numa_node(self):
        for bus, cores in NODES.items():
            (self.folder / bus).mkdir()
            (self.folder / bus / "local_cpulist").write_text(cores)
        for bus, allowed, cores in (
            ("00000000:3B:00.0", range(8), (0, 1, 2, 3)),
            ("00000000:86:00.0", range(8), (4, 5, 7)),
            ("00000000:86:00.0", range(5), (4,)),
            ("00000000:3B:00.0", range(4), ()),
            ("00000000:86:00.0", range(4), ()),
            ("00000000:99:00.0", range(8), ()),
            ("", range(8), ()),
        ):
            self.assertEqual(cores_near(bus, set(allowed), 1, self.folder), cores, (bus, allowed))
        for least, cores in ((3, (4, 5, 7)), (4, ())):
            self.assertEqual(cores_near("00000000:86:00.0", set(range(8)), least, self.folder), cores, least)
        self.assertEqual(parts_of([0, 1, 2, 3, 6, 7, 8], 3), [(0, 1), (2, 3), (6, 7, 8)])
        self.assertEqual(parts_of([0, 1, 2, 3, 6], 3), [()] * 3, "one core each would slow them down")


class Shares(GpusCase):
    def test_settings_are_split_among_workers(self):
        config = {"consumers": 8, "decode-workers": 16, "slabs": 12}
        flags = ["--consumers", "8", "--slabs=12"]
        self.assertEqual(
            flags_of_workers(config, flags, 3, False, cores=48),
            [{"consumers": each, "decode-workers": 8, "slabs": 4} for each in (3, 3, 2)],
        )
        self.assertEqual(
            [each["consumers"] for each in flags_of_workers(config, ["--consumers", "2..16"], 3, False, cores=48)],
            ["1..6", "1..5", "1..5"],
        )
        self.assertEqual(
            flags_of_workers({}, ["--consumers", "8..64"], 8, False, cores=32)[7]["begin-with"], 2, "the default number"
        )
        self.assertEqual(
            [each["begin-with"] for each in flags_of_workers({}, ["--consumers", "11..12"], 3, False, cores=6)],
            [4, 4, 3],
        )
        self.assertEqual(flags_of_workers(config, [], 3, False, cores=24), [{"consumers": 4, "decode-workers": 4}] * 3)
        self.assertEqual(flags_of_workers(config, [], 3, True, cores=2), [{"consumers": 1, "decode-workers": 1}] * 3)
        (self.folder / "settings.toml").write_text("batch = 3\nconsumers = 8\n")
        self.assertEqual(
            [
                each["consumers"]
                for each in flags_of_workers(
                    config, ["--config", str(self.folder / "settings.toml")], 4, False, cores=96
                )
            ],
            [2] * 4,
        )
        self.assertEqual(setting_given("device", ["--config", str(self.folder / "settings.toml")], {}), "")
        (self.folder / "settings.toml").write_text('device = "cuda:1"  # the second\n')
        for argv, environment, value in (
            ([], {"OFFRAMP_CONFIG": str(self.folder / "settings.toml")}, "cuda:1"),
            (["--device=cpu"], {"OFFRAMP_DEVICE": "cuda"}, "cpu"),
            (["--config", str(self.folder / "settings.toml")], {"OFFRAMP_DEVICE": "cpu"}, "cpu"),
            ([], {}, ""),
        ):
            self.assertEqual(setting_given("device", argv, environment), value, argv)
        self.refused(
            64,
            "more than a run can hold",
            flags_of_workers,
            {"consumers": 64 * 2 + 1},
            ["--consumers", "129"],
            2,
            False,
            96,
        )

    def test_each_groups_consumers_are_split_among_workers(self):
        config = {"slabs": 12, "group": "a=npy:5\nb=post.py:show:1\nc=checksum:2,optional"}
        shares = flags_of_workers(config, ["--group=a=npy:5", "--slabs", "12"], 3, False, cores=48)
        self.assertEqual(
            shares,
            [
                {
                    "decode-workers": 8,
                    "slabs": 4,
                    "group": [f"a=npy:{number}", "b=post.py:show:1", "c=checksum:1,optional"],
                }
                for number in (2, 2, 1)
            ],
        )
        self.assertEqual([4, 4, 3], [initial_consumers(each) for each in shares])
        self.assertEqual(
            ["a=npy:1", "c=x:2"], starting_groups({"group": ["a=npy:0", "c=x:2"]}), "no run begins without one"
        )

    def test_each_groups_bounds_are_split_among_workers(self):
        shares = flags_of_workers({"group": "a=npy:1..5,optional"}, ["--group=a=npy:1..5,optional"], 2, False, cores=48)
        self.assertEqual([["a=npy:1..3,optional"], ["a=npy:1..2,optional"]], [each["group"] for each in shares])
        self.assertEqual(["a=npy:1..3,optional"], starting_groups(shares[0]))

    def test_a_small_input_has_fewer_shards(self):
        for items, batch, workers, shards in (
            (10**6, 64, 8, 32),
            (64 * 4 * 10, 64, 8, 10),
            (300, 64, 8, 8),
            (5, 64, 8, 5),
            (1, 1, 1, 1),
            (100, 1, 3, 12),
        ):
            self.assertEqual(shards_for(items, batch, workers), shards, (items, batch, workers))

    def test_max_errors_counts_as_in_a_single_run(self):
        self.assertEqual(
            [most_errors(limit, 101) for limit in ("10%", "0%", "100%", "25", "29%", 3)], [11, 0, 101, 25, 30, 3]
        )


class CutOff(Exception):
    pass


class JobInOutput(GpusCase):
    """A job of three shards in an output, with shell scripts as workers."""

    displayed = None  # called with each note of the next run

    def begun(self, output):
        job, _ = Job.begun(
            gpus_job.folder_in(output),
            {
                "id": "job-1",
                "items": 6,
                "shards": 3,
                "output": str(output),
                "write_path": str(output.parent / "written"),
                "flags": [],
                "folder": "/",
                "listed": False,
                "identity": {},
                "made_by": "1",
            },
        )
        job.claim_output()
        return job

    def record(self, job, index, run_dir=None, **counts):
        """Writes what a successful attempt at the shard leaves."""
        job_files.make_folder(job.place(index))
        job.note_done(
            index,
            {
                "done": 2,
                "skipped": 0,
                "dead_letters": 0,
                "dropped": 0,
                "attempt": 0,
                "report": report_of(run_dir) if run_dir else {"run_dir": "/gone"},
                **counts,
            },
        )

    def run_of_a_shard(self, run_dir, batch, **samples):
        """Writes a run directory with a dead letter and a dropped item."""
        (run_dir / "dead-letters").mkdir(parents=True)
        payload = run_dir / f"dead-letters/batch-{batch}-row-0.safetensors"
        payload.write_text(run_dir.name)
        payload.with_suffix(".json").write_text(json.dumps({"payload": payload.name, "batch": batch}))
        (run_dir / "dropped.jsonl").write_text(f'{{"item": {batch}}}\n')
        (run_dir / "summary.json").write_text(
            json.dumps(
                {
                    "run_dir": str(run_dir),
                    "samples": samples,
                    "dead_letters": [{"batch": batch, "payload": str(payload)}],
                }
            )
        )

    def ended(self, job, exits):
        """The end of a script whose run exited with this code."""
        return f"mkdir -p {job.output}/.offramp-shards/$1/attempts; echo '{{\"exit\": {exits}}}' > {job.output}/.offramp-shards/$1/attempts/0.json; exit 75"

    def run_dir(self):
        return RunDir(types.SimpleNamespace(runs=self.folder / "runs"), self.folder / "run")

    def supervised(self, job, workers=1, script="exit 75", **more):
        """(exit code, supervisor). The script gets the shard as $1, its run directory as $2 and the worker as $3."""
        self.display = mock.Mock()
        if self.displayed:
            self.display.note.side_effect = self.displayed
        devices = [(Device(f"producer {number + 1}", {}), {"consumers": 1}) for number in range(workers)]

        def command(_, worker, index, run_dir, __):
            return ["/bin/sh", "-c", script, "sh", str(index), str(run_dir), worker.name]

        with mock.patch("offramp_launch.gpus.supervisor.command_of", command):
            plan = GpusPlan(None, "run-1", self.run_dir(), job, devices, [], **more)
            supervisor = GpusSupervisor(plan, self.display)
            self.addCleanup(supervisor.close)
            return supervisor.run(), supervisor


class Ages(JobInOutput):
    def test_status_shows_what_each_worker_does(self):
        worker = {"name": "GPU 0", "state": "at work", "shard": 3, "samples_per_second": 2.0, "run_dir": "/r/s3"}
        for more, words in (
            ({"time": "2026-01-31T12:00:00.000Z"}, "2.0/s, reported 12.5 s ago"),
            ({"time": None}, "2.0/s"),
            ({"silent": "no answer for 12 s: it is stopped"}, "2.0/s, no answer for 12 s: it is stopped"),
            ({"waits_for_turn": True}, "waits for its turn"),
        ):
            status = {"time": "2026-01-31T12:00:12.500Z", "workers": [{"time": None, **worker, **more}]}
            self.assertEqual(
                [f"  GPU 0: shard 3, {words}, --run-dir /r/s3"], list(gpus_status.lines_of_workers(status)), more
            )

    def test_a_worker_is_taken_over_from_its_death_to_the_next_status(self):
        deaths = [{"who": "producer", "at_ns": 5}, {"who": "consumer-1", "at_ns": 7}]
        for reported, since in ((4, 5), (6, None)):
            worker = Worker(Device("GPU 0", {}), {}, status={"now_ns": reported}, launcher={"deaths": deaths})
            report = worker.report()
            self.assertEqual((since is not None, since), (report["taking_over"], report["taking_over_since_ns"]))

    def test_scaling_to_a_number_ends_autoscaling_and_bounds_begin_it(self):
        job = self.begun(self.folder / "output")
        devices = [
            (Device(f"producer {number + 1}", {}), {"consumers": "1..2", "begin-with": 1}) for number in range(2)
        ]
        plan = GpusPlan(None, "run-1", self.run_dir(), job, devices, [], bounds=Bounds(2, 4))
        supervisor = GpusSupervisor(plan, mock.Mock())
        self.addCleanup(supervisor.close)
        answer = supervisor._scale("4")
        self.assertEqual(
            (
                "; autoscaling is off (scale 2..4 turns it on)",
                {"bounds": "2..4", "follows": False, "changes": None, "mean_consumers": None},
            ),
            (answer["more"], answer["following"]),
        )
        self.assertEqual("", supervisor._scale("3")["more"])
        self.assertTrue(
            supervisor._scale("2..6")["following"]
            == {"bounds": "2..6", "follows": True, "changes": None, "mean_consumers": None}
        )


class Groups(JobInOutput):
    """A run with two groups: `needed`, and `extra`, which is optional."""

    def plan(self, job):
        def group(name, optional):
            return GroupPlan(name, optional, 1, [], [], self.folder / "run/groups" / name)

        devices = [
            (Device(f"producer {number + 1}", {}), {"group": ["needed=npy:2", "extra=x.py:f:1,optional"]})
            for number in range(2)
        ]
        groups = [group("needed", False), group("extra", True)]
        return GpusPlan(None, "run-1", self.run_dir(), job, devices, [], groups=groups)

    def supervisor(self):
        supervisor = GpusSupervisor(self.plan(self.begun(self.folder / "output")), mock.Mock())
        self.addCleanup(supervisor.close)
        return supervisor

    def test_scale_divides_a_groups_consumers_among_the_workers(self):
        supervisor = self.supervisor()
        answer = supervisor._scale("needed=5")
        self.assertEqual(("needed", 4, 5, ""), tuple(answer[key] for key in ("group", "before", "consumers", "more")))
        self.assertEqual(
            [["needed=npy:3", "extra=x.py:f:1,optional"], ["needed=npy:2", "extra=x.py:f:1,optional"]],
            [worker.shares["group"] for worker in supervisor.workers],
        )
        self.assertEqual([("needed", 5), ("extra", 2)], [(each["name"], each["wanted"]) for each in answer["groups"]])
        self.assertEqual(7, answer["consumers_wanted"])
        self.assertEqual("", supervisor._scale("extra=0")["more"])
        self.assertIn("the run waits for this group", supervisor._scale("needed=0")["more"])
        self.assertEqual(["needed=npy:0", "extra=x.py:f:0,optional"], supervisor.workers[0].shares["group"])
        for text, why in (
            ("3", "scale 3 names no group, and this run has groups"),
            ("2..4", "names no group"),
            ("other=2", "the run has no group 'other'\n    .*groups: needed, extra"),
            ("needed=1", "scale needed=1 is out of bounds\n    Give 0, or 2, one for each worker, to 128"),
            ("needed=129", "out of bounds"),
            ("needed=x", "not a whole number"),
        ):
            with self.assertRaisesRegex(LaunchError, why):
                supervisor._scale(text)

    def test_the_bounds_of_a_group_are_divided_among_the_workers(self):
        supervisor = self.supervisor()
        for text, number, more, report, shares in (
            (
                "needed=2..7",
                2,
                ", autoscaled for each worker from now on, within 2..7 in all",
                ("2..7", True),
                ("1..4", "1..3"),
            ),
            ("needed=4", 4, "; autoscaling is off (scale needed=2..7 turns it on)", ("2..7", False), ("2", "2")),
            ("needed=6", 6, "", ("2..7", False), ("3", "3")),
            (
                "needed=3..9",
                3,
                ", autoscaled for each worker from now on, within 3..9 in all",
                ("3..9", True),
                ("2..5", "1..4"),
            ),
        ):
            answer = supervisor._scale(text)
            needed, extra = answer["groups"]
            following = needed["following"]
            self.assertEqual((number, more), (answer["consumers"], answer["more"]))
            self.assertEqual((number, report), (needed["wanted"], (following["bounds"], following["follows"])))
            self.assertEqual((2, None), (extra["wanted"], extra["following"]))
            self.assertEqual(number + 2, answer["consumers_wanted"])
            self.assertEqual(shares, tuple(worker.group("needed").number for worker in supervisor.workers))
        supervisor.workers[0].status = {"consumers": [{"group": "needed"}] * 4 + [{"group": "extra"}]}
        self.assertEqual(5, supervisor._describe()["groups"][0]["wanted"], "4 alive, and at least one of the other")
        for text in ("needed=0..4", "needed=5..3", "needed=1..129"):
            with self.assertRaisesRegex(LaunchError, "is out of bounds\n.*Give MIN..MAX, from 1 to 128"):
                supervisor._scale(text)

    def test_bounds_of_a_groups_flag_are_reported(self):
        plan = self.plan(self.begun(self.folder / "output"))
        plan.groups[0].follows = Bounds(2, 7)
        for _, shares in plan.workers:
            shares["group"][0] = "needed=npy:1..4"
        supervisor = GpusSupervisor(plan, mock.Mock())
        self.addCleanup(supervisor.close)
        needed, extra = supervisor._describe()["groups"]
        following = needed["following"]
        self.assertEqual(("2..7", True, None), (following["bounds"], following["follows"], extra["following"]))
        supervisor._look()
        needed, extra = gpus_summary.join({}, plan.job, supervisor, {}, 1.0)["groups"]
        self.assertEqual((following, False), (needed["following"], "following" in extra))
        self.assertNotIn("following", supervisor.status["groups"][0])

    def test_the_failure_of_a_workers_optional_group_is_shown(self):
        supervisor = self.supervisor()
        broken = supervisor.workers[1]
        broken.child, broken.launcher = mock.Mock(), {"failures": {"extra": "it broke"}}
        self.assertEqual(["", "producer 2: it broke"], [each["failure"] for each in supervisor._describe()["groups"]])
        broken.child = None
        self.assertEqual(["", ""], [each["failure"] for each in supervisor._describe()["groups"]])

    def test_a_run_without_groups_has_none_to_scale(self):
        plan = dataclasses.replace(self.plan(self.begun(self.folder / "output")), groups=[])
        supervisor = GpusSupervisor(plan, mock.Mock())
        self.addCleanup(supervisor.close)
        self.refused(64, "names a group, and this run has none", supervisor._scale, "needed=2")

    def test_a_group_without_consumers_begins_with_one(self):
        worker = Worker(Device("producer 1", {}), {"group": ["needed=npy:0", "extra=x.py:f:2,optional"]})
        plan = self.plan(self.begun(self.folder / "output"))
        plan.places = mock.Mock(**{"python_command.return_value": ["python3"]})
        command = command_of(plan, worker, 0, self.folder / "s0", 5)
        self.assertEqual(["needed=npy:1", "extra=x.py:f:2,optional"], groups_named(command))
        with mock.patch("offramp_launch.gpus.workers.Child"), mock.patch("offramp_launch.gpus.workers.StoppedProcess"):
            worker.begin(0, self.folder / "s0", self.folder / "log", [], 5, ())
        self.assertEqual({"needed": "needed=0"}, worker.to_be_scaled)
        refusal = LaunchError("its run has not begun")
        asked, answers = [], [refusal, refusal, refusal, {}, {}]

        def ask(request):
            asked.append(request["consumers"])
            if isinstance(answer := answers.pop(0), LaunchError):
                raise answer

        with mock.patch.object(worker, "ask", ask):
            worker.scale_to(3, "extra")
            self.assertEqual({"needed": "needed=0", "extra": "extra=3"}, worker.to_be_scaled, "asked again later")
            worker.scale()
            self.assertEqual({"needed": "needed=0"}, worker.to_be_scaled, "a refusal for one group leaves the others")
            worker.scale()
        self.assertEqual((["needed=0", "extra=3"] * 2 + ["needed=0"], {}), (asked, worker.to_be_scaled))

    def test_counts_of_groups_add_up_over_shards(self):
        """Of each shard its last attempt counts; earlier ones did samples for every required group."""

        def report(done_before, **counts):
            groups = [
                {"name": name, "optional": name == "extra", "waiting_slabs": 1, "shortage": "", **numbers}
                for name, numbers in counts.items()
            ]
            return {"samples": {"done_before": done_before}, "groups": groups}

        shards = [
            report(0, needed={"released_samples": 5}, extra={"released_samples": 2, "dropped_samples": 3}),
            report(4, needed={"released_samples": 1, "when_full": "drop-oldest"}, extra={"released_samples": 1}),
            {"samples": {"done_before": 3}, "groups": [{"name": "needed", "optional": False}]},
        ]
        live = {"groups": [{"name": "needed", "consumers": 2, "waiting_slabs": 4, "shortage": "no consumers"}]}
        needed, extra = gpus_status.groups_of_all(shards, [live, {}, live])
        self.assertEqual((13, 0, 8, 4), tuple(needed[name] for name in FIELDS_OF_A_GROUP))
        self.assertEqual((3, 3, 0, 0), tuple(extra[name] for name in FIELDS_OF_A_GROUP))
        self.assertEqual(("no consumers", "", True), (needed["shortage"], extra["shortage"], extra["optional"]))
        self.assertEqual(("drop-oldest", False), (needed["when_full"], "when_full" in extra), "as far as it is known")

    def test_dead_letters_name_worker_and_group(self):
        run_dir = self.folder / "run-1/s2"
        self.run_of_a_shard(run_dir / "groups/needed", 7)
        payload = run_dir / "groups/needed/dead-letters/batch-7-row-0.safetensors"
        gpus_summary.bring_dead_letters(run_dir)
        moved = run_dir.parent / "groups/needed/dead-letters/s2-batch-7-row-0.safetensors"
        self.assertEqual([moved.stem + ".json", moved.name], sorted(path.name for path in moved.parent.iterdir()))
        self.assertEqual(str(moved), gpus_summary.in_its_place({"payload": str(payload)})["payload"])
        summaries = [
            {"run_dir": str(run_dir), "groups": [{}], "dead_letters_in": [str(run_dir / "groups/needed")]},
            {"run_dir": str(run_dir.parent / "s1"), "groups": [{}], "dead_letters_in": []},
        ]
        self.assertEqual([str(run_dir.parent / "groups/needed")], gpus_summary.directories_with(summaries))


FIELDS_OF_A_GROUP = ("released_samples", "dropped_samples", "waiting_slabs", "consumers")


def groups_named(command):
    return [after for word, after in zip(command, command[1:]) if word == "--group"]


class Silent(JobInOutput):
    """A worker whose process is stopped handles no signal but SIGKILL."""

    def looked_at(self, *stats, patience=10):
        """The result of one check per second, each with the given /proc state."""
        left = iter(stats)
        silence = StoppedProcess(0, clock=iter(range(len(stats))).__next__, stat=lambda _: next(left))
        with mock.patch("offramp_launch.gpus.workers.PATIENCE_SECONDS", patience):
            return [silence.look() for _ in stats]

    def test_only_a_process_that_is_held_for_long_is_reported(self):
        for state, why in (("T", "it is stopped"), ("t", "a debugger"), ("D", "a disk or a device")):
            seen = self.looked_at(*[(state, 5)] * 4, ("S", 5), (state, 5), patience=2)
            self.assertEqual([bool(each) for each in seen], [False, False, True, True, False, False], state)
            self.assertEqual((seen[3][0], why in seen[3][1]), (3, True))
        for stats in ([("S", 5)] * 5, [None] * 5, [("D", used) for used in range(5)], [("R", 5)] * 5):
            self.assertEqual(self.looked_at(*stats, patience=1), [None] * 5, stats)
        self.assertEqual(stat_of(os.getpid())[0], "R")
        self.assertIsNone(stat_of(1 << 30))

    def test_a_stopped_worker_is_reported_and_an_abandoned_run_kills_it(self):
        job = self.begun(self.folder / "output")
        for index in (1, 2):
            self.record(job, index)
        stopped = f"echo $$ > {self.folder}/pid; kill -STOP $$"
        statuses, notes = [], []

        def note(text):
            notes.append(text)
            if "): no answer" in text:  # drains, then abandons
                os.kill(os.getpid(), signal.SIGTERM)
            if text.startswith("draining"):
                os.kill(os.getpid(), signal.SIGTERM)

        whole = gpus_status.whole_status
        with (
            mock.patch("offramp_launch.gpus.workers.PATIENCE_SECONDS", 0.1),
            mock.patch("offramp_launch.gpus.supervisor.ABANDONED_END_SECONDS", 0.1),
            mock.patch(
                "offramp_launch.gpus.supervisor.whole_status",
                lambda *given: statuses.append(whole(*given)) or statuses[-1],
            ),
        ):
            self.displayed = note
            code, supervisor = self.supervised(job, script=stopped)
        pid = int((self.folder / "pid").read_text())
        self.assertEqual((code, supervisor.is_work_left()), (130, True))
        self.assertTrue(
            any(
                f"producer 1: process {pid} (shard 0): no answer" in text and "it is stopped" in text for text in notes
            ),
            notes,
        )
        self.assertTrue(any(f"killing process {pid}" in text for text in notes), notes)
        silent = next(status for status in statuses if status["workers"][0]["silent"])
        self.assertIn("no answer", silent["workers"][0]["silent"])
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_a_stopped_worker_that_continues_completes_its_shard(self):
        job = self.begun(self.folder / "output")
        for index in (1, 2):
            self.record(job, index)
        self.record(job, 0)
        os.rename(job.folder / "done/0.json", self.folder / "0.json")
        notes = []

        def note(text):
            notes.append(text)
            if "): no answer" in text:
                os.kill(int((self.folder / "pid").read_text()), signal.SIGCONT)
            if "answers again" in text:
                (self.folder / "seen").touch()

        goes_on = f"until test -e {self.folder}/seen; do sleep 0.02; done; cp {self.folder}/0.json {job.folder}/done"
        self.displayed = note
        with mock.patch("offramp_launch.gpus.workers.PATIENCE_SECONDS", 0.1):
            code, _ = self.supervised(job, script=f"echo $$ > {self.folder}/pid; kill -STOP $$; {goes_on}")
        self.assertEqual((code, sum("no answer" in text for text in notes)), (0, 1), notes)


class Ends(JobInOutput):
    def test_a_worker_that_is_killed_after_its_record_has_done_its_shard(self):
        job = self.begun(self.folder / "output")
        for index in range(3):
            self.record(job, index)
        os.rename(job.folder / "done", self.folder / "done")
        job_files.make_folder(job.folder / "done")
        code, supervisor = self.supervised(job, script=f"cp {self.folder}/done/$1.json {job.folder}/done; kill -9 $$")
        self.assertEqual((code, supervisor.failure), (0, None))
        (worker,) = supervisor.workers
        self.assertEqual((worker.shards_done, worker.failures, worker.lost), (3, 0, ""))

    def test_failures_of_the_machine_do_not_give_up_a_gpu(self):
        job = self.begun(self.folder / "output")
        for index in (1, 2):
            self.record(job, index)
        code, supervisor = self.supervised(job, script=self.ended(job, 75))
        self.assertEqual(
            (code, supervisor.workers[0].lost, "failed 4 times, the last time on" in str(supervisor.failure)),
            (75, "", True),
            supervisor.failure,
        )

    def test_a_gpu_whose_runs_fail_twice_in_a_row_is_given_up(self):
        for exits, ends in ((82, 82), (139, 75)):
            with self.subTest(exits), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job = self.begun(self.folder / "output")
                for index in (1, 2):
                    self.record(job, index)
                code, supervisor = self.supervised(job, script=self.ended(job, exits))
                self.assertEqual((code, bool(supervisor.workers[0].lost), len(supervisor.attempts)), (ends, True, 2))

    def test_too_little_memory_ends_the_run_if_nothing_was_done_yet(self):
        failure = '{"failure": "too little memory for this run: its producer was killed before any batch was done"}'
        for done, tries in ((False, 1), (True, 4)):
            with self.subTest(done=done), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job = self.begun(self.folder / "output")
                for index in (0, 2):
                    self.record(job, index)
                if done:  # another shard, by this run
                    os.rename(job.folder / "done/0.json", self.folder / "0.json")
                first = f"cp {self.folder}/0.json {job.folder}/done"
                code, supervisor = self.supervised(
                    job,
                    script=f"test $1 = 0 && {{ {first}; exit; }}; mkdir -p $2; echo '{failure}' > $2/summary.json; {self.ended(job, 71)}",
                )
                self.assertEqual(
                    (code, sum(index == 1 for index, _ in supervisor.attempts)), (71, tries), supervisor.failure
                )
                self.assertIn("too little memory", str(supervisor.failure))

    def test_shared_memory_that_is_too_small_for_all_ends_the_run(self):
        job = self.begun(self.folder / "output")
        other = "trap 'exit 75' TERM; while :; do sleep 0.02; done"
        code, supervisor = self.supervised(job, 2, f"case $1 in 0) {self.ended(job, 80)};; *) {other};; esac")
        self.assertEqual(
            (code, "give --slabs N" in str(supervisor.failure), [worker.lost for worker in supervisor.workers]),
            (80, True, ["", ""]),
        )

    def test_a_signal_after_a_final_failure_abandons_the_run(self):
        first = "until test -e $at/ready; do sleep 0.02; done; exit 64"
        other = "trap 'test -e $at/asked && exit 75; touch $at/asked; kill -TERM $PPID' TERM; touch $at/ready; while :; do sleep 0.02; done"
        code, _ = self.supervised(
            self.begun(self.folder / "output"), 2, f"at={self.folder}; case $1 in 0) {first};; *) {other};; esac"
        )
        notes = " ".join(str(call.args[0]) for call in self.display.note.mock_calls)
        self.assertEqual(
            (code, "abandoning the work in flight" in notes, "draining" in notes), (64, True, False), notes
        )


class Ahead(JobInOutput):
    """Two workers of one device that compute alternately."""

    NAMES = ["producer 1, worker 1", "producer 1, worker 2"]

    def begun_with_records(self):
        """A job, and the shell command that records a shard as done."""
        job = self.begun(self.folder / "output")
        for index in range(3):
            self.record(job, index)
        os.rename(job.folder / "done", self.folder / "done")
        job_files.make_folder(job.folder / "done")
        return job, f"cp {self.folder}/done/$1.json {job.folder}/done"

    def notes(self):
        return " ".join(str(call.args[0]) for call in self.display.note.mock_calls)

    def test_start_ahead_refuses_a_gpu_that_is_named_twice(self):
        twice = [Device(name, {"CUDA_VISIBLE_DEVICES": UUIDS[0]}) for name in ("GPU 0, worker 1", "GPU 0, worker 2")]
        self.refused(64, "--start-ahead with --gpus 0,0, which names a GPU twice", require_different, "0,0", twice)
        require_different("2", [Device("producer 1", {}), Device("producer 2", {})])
        require_different(
            "2", [Device(f"GPU {number}", {"CUDA_VISIBLE_DEVICES": uuid}) for number, uuid in enumerate(UUIDS)]
        )

    def test_the_second_worker_begins_when_the_first_has_loaded(self):
        job, done = self.begun_with_records()
        looks = []

        def read_status(run_dir):
            """Empty for the first worker's first two looks."""
            looks.append(run_dir.name)
            if looks.count("s0") < 3:
                return {}
            (self.folder / "loaded").touch()
            return {"state": "running"}

        with mock.patch("offramp_launch.gpus.workers.read_status", read_status):
            code, supervisor = self.supervised(
                job,
                script=f"at={self.folder}; case $1 in 0) until test -e $at/next; do sleep 0.02; done;; *) "
                f"test -e $at/loaded || touch $at/early; touch $at/next;; esac; {done}",
                starts_ahead=True,
            )
        self.assertEqual((code, (self.folder / "early").exists()), (0, False), self.notes())
        self.assertEqual(
            ([worker.name for worker in supervisor.workers], sum(worker.shards_done for worker in supervisor.workers)),
            (self.NAMES, 3),
        )
        self.assertGreater(supervisor.workers[1].shards_done, 0, "the first worker's shard waited for the second")

    def test_one_worker_continues_if_memory_is_too_small_for_two(self):
        for exits in (80, 81):
            with self.subTest(exits), tempfile.TemporaryDirectory() as folder:
                self.folder = pathlib.Path(folder)
                job, done = self.begun_with_records()
                loaded = 'mkdir -p $2; echo \'{"state": "running"}\' > $2/status.json'
                code, supervisor = self.supervised(
                    job,
                    script=f"at={folder}; {loaded}; case $1 in 0) until test -e $at/failed; do sleep 0.02; done;; "
                    f"1) test -e $at/failed || {{ touch $at/failed; {self.ended(job, exits)}; }};; esac; {done}",
                    starts_ahead=True,
                )
                self.assertEqual((code, [worker.shards_done for worker in supervisor.workers]), (0, [3, 0]))
                self.assertEqual(
                    [(gpus_status.describe(worker)["state"], worker.lost) for worker in supervisor.workers],
                    [("waiting", ""), ("left out", "")],
                )
                self.assertRegex(
                    self.notes(),
                    "producer 1, worker 2 is left out: there is too little memory for two workers on producer 1, which continues without --start-ahead",
                )

    def test_memory_that_is_too_small_for_one_worker_ends_the_run(self):
        job = self.begun(self.folder / "output")
        code, supervisor = self.supervised(job, script=self.ended(job, 80), starts_ahead=True)
        self.assertEqual((code, [worker.lost for worker in supervisor.workers]), (80, ["", ""]))
        self.assertIn(
            "leave --start-ahead out, or give --slabs N, a number for all GPUs together, of which each has its share twice, or fewer --gpus; --resume then continues",
            str(supervisor.failure),
        )

    def test_the_shards_of_a_lost_gpu_go_to_another(self):
        job, done = self.begun_with_records()
        loaded = 'mkdir -p $2; echo \'{"state": "running"}\' > $2/status.json'
        fails = f"echo >> $at/tries; {self.ended(job, 82)}"
        give_up = GpusSupervisor._give_up

        def given_up(*about):
            give_up(*about)
            (self.folder / "given-up").touch()

        with mock.patch.object(GpusSupervisor, "_give_up", given_up):
            code, supervisor = self.supervised(
                job,
                workers=2,
                script=f"at={self.folder}; case $3 in *2,*) {fails};; *) {loaded}; "
                f"until test -e $at/given-up; do sleep 0.02; done;; esac; {done}",
                starts_ahead=True,
            )
        self.assertEqual(
            (
                code,
                [worker.shards_done for worker in supervisor.workers][2:],
                [bool(worker.lost) for worker in supervisor.workers],
            ),
            (0, [0, 0], [False, False, True, True]),
            self.notes(),
        )
        self.assertLessEqual(
            len((self.folder / "tries").read_text()), 3, "both workers together get no more tries than one would"
        )

    def test_a_worker_that_waits_for_its_turn_is_not_the_limiting_stage(self):
        computing = {
            "limiting_stage": "consumers",
            "gpu_utilization": 0.5,
            "consumer_utilization": 1.0,
            "slabs": {"leased": 4},
            "consumers": [{}, {}],
        }
        waiting = {
            "limiting_stage": "turn",
            "gpu_utilization": 0.0,
            "consumer_utilization": 0.0,
            "slabs": {"free": 4},
            "consumers": [{}, {}],
        }

        def whole(*statuses):
            return gpus_status.whole_status(
                "running",
                9,
                dict.fromkeys(gpus_status.COUNTS, 0),
                [(str(number), status) for number, status in enumerate(statuses)],
                [],
            )

        status = whole(waiting, computing)
        self.assertEqual(
            {name: status[name] for name in ("limiting_stage", "gpu_utilization", "consumer_utilization", "slabs")},
            {name: computing[name] for name in ("limiting_stage", "gpu_utilization", "consumer_utilization", "slabs")},
        )
        self.assertEqual(whole(waiting)["limiting_stage"], "turn")
        workers = [types.SimpleNamespace(status=status) for status in (waiting, computing)]
        self.assertEqual(gpus_status.consumers_of(status, workers), 2)


class Signals(JobInOutput):
    """Signals that arrive after the workers have ended."""

    def setUp(self):
        super().setUp()
        for number in SignalInbox.SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        interrupts.handle_all_signals()
        self.notes = []

    def test_a_signal_before_the_summary_is_written_does_not_end_the_run(self):
        for at in (
            "gpus.summary.summaries_of",
            "gpus.summary.join",
            "jobs.merge.require_a_result",
            "gpus.job.remove",
            "summary.write",
        ):
            with self.subTest(at), tempfile.TemporaryDirectory() as folder:
                self.folder, job = pathlib.Path(folder), self.begun(pathlib.Path(folder, "output"))
                for index in range(3):
                    self.record(job, index)
                job_files.replace(job.folder / "summary.json", {"job": job.id, "partial": False})
                module, _, name = at.rpartition(".")
                real = getattr(importlib.import_module(f"offramp_launch.{module}"), name)

                def impatient(*arguments, real=real, **more):
                    os.kill(os.getpid(), signal.SIGTERM)
                    return real(*arguments, **more)

                run_dir = self.run_dir()
                places = types.SimpleNamespace(producer=lambda: "/bin/true")
                with mock.patch(f"offramp_launch.{at}", impatient), contextlib.redirect_stdout(io.StringIO()):
                    workers = [(Device("producer 1", {}), {"consumers": 1})]
                    lock = types.SimpleNamespace(fd=0, put_back=lambda: None)
                    plan = GpusPlan(places, "run-1", run_dir, job, workers, [], output_lock=lock)
                    about = {"run_id": "run-1", "run_dir": str(run_dir.path)}
                    work = Work(plan, {"model": "copy"}, str(job.output), [], about, self.notes.append)
                    code, _ = supervise(work, lambda _: "")
                self.assertEqual(
                    (code, run_dir.read_json("summary.json")["exit"], list(job.output.iterdir())), (0, 0, [])
                )

    def test_an_optional_group_that_is_not_merged_is_in_the_summary(self):
        job, why = self.begun(self.folder / "output"), {"extra": "the disk is full. Make room"}
        for index in range(3):
            self.record(job, index)
        run_dir, places = self.run_dir(), types.SimpleNamespace(producer=lambda: "/bin/true")
        lock = types.SimpleNamespace(fd=0, put_back=lambda: None)
        plan = GpusPlan(
            places, "run-1", run_dir, job, [(Device("producer 1", {}), {"consumers": 1})], [], output_lock=lock
        )
        work = Work(plan, {"model": "copy"}, str(job.output), [], {"run_id": "run-1", "run_dir": str(run_dir.path)}, [])
        for left in (why, {}):

            def merge(*_, left=left):
                job_files.replace(job.folder / "summary.json", {"job": job.id, "partial": False, "not_merged": left})

            with mock.patch.object(gpus_job, "merge", merge), contextlib.redirect_stdout(io.StringIO()):
                code, lines = supervise(work, lambda _: "run it again --resume")
            self.assertEqual((0, left), (code, run_dir.read_json("summary.json")["not_merged"]))
            line = (
                "group extra is not merged: the disk is full. Make room. Fix it, then continue the run with --resume\n"
            )
            self.assertEqual((bool(left),) * 2, (line in lines, "run it again --resume" in lines), lines)
            self.assertEqual(bool(left), (job.folder / "job.json").exists())

    def test_one_signal_waits_for_the_merge_and_another_ends_it(self):
        run_dir = self.run_dir()

        def merged(script, answer=lambda: None):
            def note(text):
                self.notes.append(text)
                answer()

            with Finishing(note) as finishing:
                ask(
                    ["/bin/sh", "-c", script],
                    "input",
                    run_dir=run_dir,
                    lock=types.SimpleNamespace(fd=0),
                    finishing=finishing,
                )

        merged("kill -TERM $PPID; read word; test $word = input")
        self.refused(73, "ended with exit code 73: it wrote nothing", merged, "exit 73")
        self.refused(
            130,
            "was ended by a signal",
            merged,
            "kill -TERM $PPID; sleep 60",
            lambda: len(self.notes) > 2 or os.kill(os.getpid(), signal.SIGTERM),
        )
        self.assertEqual(len(self.notes), 3)


class Letters(JobInOutput):
    def test_both_dead_letters_of_a_slab_at_a_shard_border_are_kept(self):
        for shard in ("s1", "s2"):
            self.run_of_a_shard(self.folder / "run" / shard, 7)
            gpus_summary.bring_dead_letters(self.folder / "run" / shard)
            gpus_summary.bring_dead_letters(self.folder / "run" / shard)
        kept = self.folder / "run/dead-letters"
        for shard in ("s1", "s2"):
            report = json.loads((kept / f"{shard}-batch-7-row-0.json").read_text())
            self.assertEqual((kept / report["payload"]).read_text(), shard)
            self.assertEqual(
                gpus_summary.in_its_place(
                    {"payload": f"{self.folder}/run/{shard}/dead-letters/batch-7-row-0.safetensors"}
                ),
                {"payload": str(kept / report["payload"])},
            )
        self.assertEqual(len(list(kept.iterdir())), 4)

    def test_no_dead_letter_is_lost_if_the_move_is_interrupted(self):
        for number, step in enumerate(
            ("os.replace", "offramp_launch.gpus.summary.write_incident", "pathlib.Path.unlink")
        ):
            run_dir = self.folder / str(number) / "s1"
            self.run_of_a_shard(run_dir, 7)
            with mock.patch(step, side_effect=CutOff), self.assertRaises(CutOff):
                gpus_summary.bring_dead_letters(run_dir)
            gpus_summary.bring_dead_letters(run_dir)
            self.assertEqual(
                sorted(path.name for path in (run_dir.parent / "dead-letters").iterdir()),
                ["s1-batch-7-row-0.json", "s1-batch-7-row-0.safetensors"],
                step,
            )
            self.assertEqual(list((run_dir / "dead-letters").iterdir()), [], step)

    def test_dead_letters_that_an_earlier_launcher_left_are_reported(self):
        job, before = self.begun(self.folder / "output"), self.folder / "before"
        self.run_of_a_shard(before / "s1", 7, dead_letters=1)
        for index in range(3):
            self.record(job, index, before / "s1" if index == 1 else None)
        code, supervisor = self.supervised(job)
        self.assertEqual(code, 0)
        whole = gpus_summary.join({}, job, supervisor, gpus_summary.summaries_of(job, supervisor), 1.0)
        self.assertEqual(whole["dead_letters_in"], [str(before)])
        self.assertEqual(
            [entry["payload"] for entry in whole["dead_letters"]],
            [str(before / "dead-letters/s1-batch-7-row-0.safetensors")],
        )
        self.assertEqual((self.folder / "run/dropped.jsonl").read_text(), '{"item": 7}\n')

    def test_the_cause_of_a_shards_failure_is_the_runs(self):
        job = self.begun(self.folder / "output")
        for index in (1, 2):
            self.record(job, index)
        report = '{"failure": "the model fails", "failure_cause": {"kind": "model"}}'
        script = f"mkdir -p $2; echo '{report}' > $2/summary.json; {self.ended(job, 65)}"
        code, supervisor = self.supervised(job, script=script)
        self.assertEqual(code, 65)
        whole = gpus_summary.join({}, job, supervisor, gpus_summary.summaries_of(job, supervisor), 1.0)
        self.assertEqual(whole["failure_cause"], {"kind": "model"})

    def test_only_the_dead_letters_of_a_shards_last_attempt_are_kept(self):
        job = self.begun(self.folder / "output")
        for index in (1, 2):
            self.record(job, index)
        for name, batch in (("s0", 1), ("s0-1", 2)):
            self.run_of_a_shard(self.folder / "made" / name, batch)
        script = f"at={self.folder}/run; test -e $at/s0 && mv {self.folder}/made/s0-1 $at || mv {self.folder}/made/s0 $at; {self.ended(job, 82)}"
        code, supervisor = self.supervised(job, script=script)
        self.assertEqual(code, 82)
        gpus_summary.summaries_of(job, supervisor)
        self.assertEqual(
            sorted(path.name for path in (self.folder / "run/dead-letters").iterdir()),
            ["s0-1-batch-2-row-0.json", "s0-1-batch-2-row-0.safetensors"],
        )


class PutAway(JobInOutput):
    """The job's removal after a merge, interrupted at any step and continued."""

    def merged(self, output):
        job = self.begun(output)
        for index in range(3):
            job_files.make_folder(job.place(index))
            (job.place(index) / "lines.tsv").write_text("1\n")
            job.note_done(index, dict.fromkeys(("done", "skipped", "dead_letters", "dropped"), 0))
        job_files.replace(job.folder / "summary.json", {"job": job.id, "partial": False})
        (output / ".offramp-checkpoint").write_text("{}")
        return job

    def test_an_interrupted_removal_is_completed_by_the_next_call(self):
        steps, ended = 0, False
        while not ended:
            with tempfile.TemporaryDirectory() as folder:
                output = pathlib.Path(folder, "output")
                job, left = self.merged(output), [steps]

                def cut(call):
                    def counted(*arguments, **more):
                        if left[0] == 0:
                            raise CutOff
                        left[0] -= 1
                        return call(*arguments, **more)

                    return counted

                with (
                    mock.patch("os.unlink", cut(os.unlink)),
                    mock.patch("os.rmdir", cut(os.rmdir)),
                    contextlib.suppress(CutOff),
                ):
                    gpus_job.put_away(job)
                    ended = True
                if gpus_job.is_begun_in(output):
                    job = Job.found(gpus_job.folder_in(output))
                    self.assertTrue(job_merge.is_merged(job), f"after {steps} steps its shards would be done again")
                    gpus_job.put_away(job)
                gpus_job.clear_remains(output)
                self.assertEqual(
                    [path.name for path in output.iterdir()], [".offramp-checkpoint"], f"after {steps} steps"
                )
                self.assertFalse((output.parent / "written/.offramp-shards").exists())
            steps += 1
        self.assertGreater(steps, 10)

    def test_a_job_that_is_not_merged_is_not_removed(self):
        output = self.folder / "output"
        job = self.merged(output)
        for left in ({"job": job.id, "partial": True}, {"job": "job-2", "partial": False}):
            job_files.replace(job.folder / "summary.json", left)
            self.refused(1, "its shards are not merged", gpus_job.put_away, job)
        self.assertEqual([(job.place(index) / "lines.tsv").exists() for index in range(3)], [True] * 3)
        self.assertEqual(len(job.records()), 3)

    def test_a_run_recognizes_its_job_under_any_path_to_it(self):
        output = self.folder / "output"
        output.mkdir()
        (self.folder / "link").symlink_to(output)
        job = self.begun(self.folder / "link")
        for spelled in (output, self.folder / "link", self.folder / "runs/../output"):
            gpus_job.require_own(spelled)
        self.assertEqual(place_of({"output": str(self.folder / "link/")}, None), pathlib.Path(os.path.realpath(output)))
        (self.folder / "job-link").symlink_to(job.folder)
        for folder in (job.folder, self.folder / "link/.offramp-shards/job", self.folder / "job-link"):
            self.refused(64, "belongs to a run with --gpus", job_command.merge, None, ["--job", str(folder)])
            self.refused(
                64, "belongs to a run with --gpus", shard_command.start, None, ["--job", str(folder), "--index", "0"]
            )
        (job.folder / "job.json").unlink()  # an interrupted removal leaves this
        for spelled in (output, self.folder / "link", self.folder / "runs/../output"):
            gpus_job.require_own(spelled)

    def test_remains_of_a_killed_start_are_no_results(self):
        output, config = self.folder / "output", {"overwrite": False}
        output.mkdir()
        for note in NOTES:
            (output / note).write_text("")
        self.assertFalse(is_of_one_producer(output, "run-2"))
        make_room_in(output, None, config)
        (output / "lines.tsv").write_text("")
        self.assertTrue(is_of_one_producer(output, "run-2"))
        self.refused(64, "is not empty", make_room_in, output, None, config)

    def test_a_moved_output_is_refused_with_its_first_path(self):
        job = self.begun(self.folder / "output")
        job.output.rename(self.folder / "moved")
        gpus_job.clear_remains(self.folder / "moved")
        places = types.SimpleNamespace(version=lambda: "1", commit=lambda: "")
        self.refused(
            64, f"moved was begun as {job.output}", gpus_job.go_on, places, self.folder / "moved", [], {}, None
        )

    def test_shards_work_is_kept_if_its_job_file_is_missing(self):
        output = self.folder / "output"
        job = self.begun(output)
        (job.place(1)).mkdir()
        (job.place(1) / ".offramp-checkpoint").write_text("{}")
        facts = job.folder / "job.json"
        with mock.patch.object(
            pathlib.Path, "read_bytes", side_effect=OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        ):
            self.refused(71, "cannot be read: Stale file handle", gpus_job.clear_remains, output)
        for gone in (job.folder / "gone", output / ".offramp-shards/gone"):
            facts.rename(gone)
            self.refused(65, f"its job file {facts} is missing", gpus_job.clear_remains, output)
            self.assertTrue((job.place(1) / ".offramp-checkpoint").exists())
            gone.rename(facts)

    def test_a_continued_run_refuses_another_database(self):
        for sink, name in (
            ("postgresql://me@host:5432/vectors?sslmode=require", "vectors"),
            ("host=there dbname = vectors", "vectors"),
            ("dbname='two \\' words' host=a", "two \\' words"),
            ("postgres://host/?dbname=vectors", "vectors"),
            ("service=mine", ""),
            ("", ""),
            ("postgresql:///a%20b", "a b"),
        ):
            self.assertEqual(gpus_job.database_in(sink), name, sink)
        job = self.begun(self.folder / "output")
        job.facts["sink"] = "postgresql://host/vectors"
        gpus_job.require_same_database(job, "host=10.0.0.1 dbname=vectors")
        self.refused(
            78,
            "names the database 'others', but the rows of the run in",
            gpus_job.require_same_database,
            job,
            "postgresql://host/others",
        )

    def test_a_run_without_gpus_prints_how_to_continue(self):
        job = self.begun(self.folder / "output")
        with self.assertRaises(LaunchError) as caught:
            require_no_job(str(job.output), {})
        self.assertEqual(
            (
                caught.exception.code,
                "run --gpus N --resume" in str(caught.exception),
                "job merge" in str(caught.exception),
            ),
            (64, True, False),
        )

    def test_the_output_of_a_job_of_several_hosts_is_refused(self):
        (self.folder / ".offramp-shards/0").mkdir(parents=True)
        (self.folder / ".offramp-shards/job.json").write_text(json.dumps({"job": "job-2", "folder": "/elsewhere"}))
        self.refused(64, "belongs to job job-2 in /elsewhere", gpus_job.clear_remains, self.folder)
        self.assertTrue((self.folder / ".offramp-shards/0").exists())
