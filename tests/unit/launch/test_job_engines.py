"""
Files for engines: Slurm's script and Kubernetes' manifest, read by a shell and by YAML and schema readers. Kubernetes'
schemas need a package of 100 MB and are skipped without it. With it, in this folder:

    python3 -m venv VENV && VENV/bin/pip install kubernetes-validate
    PYTHONPATH=../../../launch VENV/bin/python -m unittest -v test_job_engines
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from test_job import REPOSITORY, InAFolder

from offramp_launch.jobs import command as job_command, engines, shard_record
from offramp_launch.exit_code import ExitCode
from offramp_launch.jobs.folder import Job

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None
try:
    import yaml
except ImportError:
    yaml = None

AWKWARD = "a \"job\" of 'mine' at 5%a \\ $HOME; # é"
VERSIONS = ("1.33", "1.34", "1.35", "1.36", "1.37")
CLUSTER = {"--image": "registry.example/offramp:1", "--claim": "data"}


class EngineTest(InAFolder):
    def job(self, name="job", **others):
        output = self.folder / name / "output"
        return Job.begun(self.folder / name, self.facts(output=str(output), **others))[0]

    def done(self, job, *indices):
        for index in indices:
            job.note_done(index, {"done": job.items_of(index)})


class SbatchTest(EngineTest):
    def script(self, job, given=None, flags=()):
        return engines.script(job, "/opt/offramp/launch/offramp", given or {}, list(flags))

    def directives(self, script):
        return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]

    def test_only_open_shards_are_tasks(self):
        job = self.job(items=10, shards=8)
        self.assertIn("--array=0-7", self.directives(self.script(job)))
        self.done(job, 0, 4, 7)
        self.assertIn("--array=1-3,5-6%2", self.directives(self.script(job, {"--at-once": "2"})))
        self.done(job, 1, 2, 3, 5, 6)
        self.assertIn("all 8 shards of the job are done", self.refused(ExitCode.NO_INPUT, self.script, job))

    def test_a_job_on_cpus_requests_no_gpu(self):
        gpu, cpu = self.job(), self.job("other", flags=["--device=cuda:0", "--device=cpu"])
        self.assertIn("--gres=gpu:1", self.directives(self.script(gpu)))
        for job, given, flags in ((cpu, {}, ()), (gpu, {"--gpus-per-shard": "0"}, ()), (gpu, {}, ("--device", "cpu"))):
            self.assertNotIn("--gres", self.script(job, given, flags))
        self.assertIn("--gres=gpu:1", self.directives(self.script(cpu, {}, ("--device=cuda",))))

    def test_the_script_contains_the_given_options(self):
        script = self.script(
            self.job(),
            {"--time": "1-12:30", "--partition": "gpu,big-2", "--cpus": "8", "--restarts": "3"},
            ["--consumers", "4"],
        )
        self.assertLessEqual(
            {
                "--time=1-12:30",
                "--partition=gpu,big-2",
                "--cpus-per-task=8",
                "--requeue",
                "--open-mode=append",
                "--signal=B:TERM@120",
            },
            set(self.directives(script)),
        )
        self.assertIn(
            f'/opt/offramp/launch/offramp shard --job {self.folder}/job --consumers 4 --index "$SLURM_ARRAY_TASK_ID" &\n',
            script,
        )
        self.assertIn('"${SLURM_RESTART_COUNT:-0}" -ge 3 ]', script)

    def test_flags_that_slurm_or_a_shard_would_refuse_are_refused(self):
        job = self.job()
        for given in (
            {"--time": "soon"},
            {"--time": "5\n#SBATCH --uid=0"},
            {"--partition": "a b"},
            {"--cpus": "0"},
            {"--gpus-per-shard": "2"},
            {"--at-once": "all"},
            {"--restarts": "-1"},
        ):
            with self.subTest(given):
                self.refused(ExitCode.USAGE, self.script, job, given)
        self.refused(ExitCode.USAGE, self.script, self.job("two\nlines"))
        for words in (["--tiem", "5"], ["--", "--output", "x"], ["--", "--resume"]):
            with self.subTest(words):
                self.refused(
                    ExitCode.USAGE, job_command.for_an_engine, ["--job", str(job.folder), *words], engines.SBATCH_FLAGS
                )

    def test_a_shell_reads_the_script_with_awkward_folder_names(self):
        script = self.folder / "script"
        for name in ("job", AWKWARD):
            script.write_text(self.script(self.job(name), flags=["--tag", AWKWARD]))
            subprocess.run(["bash", "-n", script], check=True)
            if shutil.which("shellcheck"):
                self.assertEqual(
                    "",
                    subprocess.run(
                        ["shellcheck", "--severity=warning", script], capture_output=True, text=True, check=False
                    ).stdout,
                )
        printed = script.read_text().replace(
            "/opt/offramp/launch/offramp shard",
            f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))'",
        )
        script.write_text(printed)
        done = subprocess.run(
            ["bash", script], env={**os.environ, "SLURM_ARRAY_TASK_ID": "5"}, capture_output=True, text=True, check=True
        )
        self.assertEqual(
            ["--job", str(self.folder / AWKWARD), "--tag", AWKWARD, "--index", "5"], json.loads(done.stdout)
        )


class KubernetesTest(EngineTest):
    def manifest(self, job, flags=(), **given):
        given = {
            **CLUSTER,
            "--mount": str(self.folder),
            **{f"--{name.replace('_', '-')}": value for name, value in given.items()},
        }
        return engines.manifest(job, given, list(flags))

    def jobs(self):
        """(name, manifest), with the fewest options, with --http, and with all."""
        yield "least", self.manifest(self.job(flags=["--device=cpu"]))
        yield "watched", self.manifest(self.job("watched"), ["--http", "0.0.0.0:9464"])
        yield (
            "most",
            self.manifest(
                self.job(AWKWARD),
                ["--tag", AWKWARD, "--note", "no"],
                cpus="8",
                memory="64Gi",
                shm="32Gi",
                at_once="2",
                secret="passwords",
                name="mine",
            ),
        )

    @unittest.skipUnless(yaml, "without PyYAML")
    def test_the_manifest_is_valid_yaml_with_the_given_values(self):
        for what, text in self.jobs():
            found = yaml.safe_load(text)
            pod = found["spec"]["template"]["spec"]
            self.assertEqual(
                pod["containers"][0]["volumeMounts"],
                [{"name": "job", "mountPath": str(self.folder)}, {"name": "shm", "mountPath": "/dev/shm"}],
            )
            self.assertEqual(
                (found["spec"]["completions"], pod["restartPolicy"], pod["terminationGracePeriodSeconds"]),
                (3, "Never", 120),
            )
        self.assertEqual(
            (what, pod["containers"][0]["args"]),
            ("most", ["shard", "--job", str(self.folder / AWKWARD), "--tag", AWKWARD, "--note", "no"]),
        )
        self.assertEqual(
            pod["containers"][0]["resources"],
            {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}, "requests": {"cpu": 8, "memory": "64Gi"}},
        )
        self.assertEqual(
            (pod["volumes"][1]["emptyDir"], found["spec"]["parallelism"]),
            ({"medium": "Memory", "sizeLimit": "32Gi"}, 2),
        )

    @unittest.skipUnless(yaml, "without PyYAML")
    def test_the_failure_policy_agrees_with_the_table_of_exit_codes(self):
        rules = yaml.safe_load(self.manifest(self.job()))["spec"]["podFailurePolicy"]["rules"]
        self.assertEqual(
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}, rules[0]
        )
        action_of = {code: rule["action"] for rule in rules[1:] for code in rule["onExitCodes"]["values"]}
        wanted = {shard_record.DONE: None, shard_record.AGAIN: "Count", shard_record.FINAL: "FailIndex"}
        for code, fate in shard_record.FATES.items():
            if (ends_with := shard_record.exit_of(code)) != 0:
                self.assertEqual(wanted[fate], action_of[ends_with], code)
        self.assertEqual("FailIndex", action_of[ExitCode.DEAD_LETTERS])  # of --strict
        self.assertEqual({"Count", "FailIndex"}, set(action_of.values()))
        self.assertNotIn(0, action_of)

    @unittest.skipUnless(kubernetes_validate and yaml, "without kubernetes-validate (pip install kubernetes-validate)")
    def test_the_manifest_fits_the_schema_of_each_version(self):
        for version in VERSIONS:
            for what, text in self.jobs():
                with self.subTest(version=version, what=what):
                    self.assertEqual(version, kubernetes_validate.validate(yaml.safe_load(text), version, strict=True))
            wrong = yaml.safe_load(text)
            wrong["spec"]["podFailurePolicy"]["rules"][2]["onExitCodes"]["value"] = [1]
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, version, strict=True)

    @unittest.skipUnless(yaml, "without PyYAML")
    def test_a_watched_shard_has_a_readiness_probe_and_no_other(self):
        container = yaml.safe_load(self.manifest(self.job(), ["--http", "0.0.0.0:9464"]))["spec"]["template"]["spec"][
            "containers"
        ][0]
        self.assertEqual(["readinessProbe"], [name for name in container if name.endswith("Probe")])
        self.assertEqual({"path": "/readyz", "port": 9464}, container["readinessProbe"]["httpGet"])
        self.assertEqual([{"name": "metrics", "containerPort": 9464}], container["ports"])
        self.assertEqual(["--http", "0.0.0.0:9464"], container["args"][-2:])
        for text in (
            "127.0.0.1:9464",
            "127.0.0.2:9464",
            "localhost:9464",
            "[::1]:9464",
            "0.0.0.0:0",
            "9464",
            "pod.example:9464",
        ):
            self.refused(ExitCode.USAGE, self.manifest, self.job(text), ["--http", text])

    def test_folders_that_pods_do_not_see_are_refused(self):
        elsewhere = {"output": "/elsewhere/output", "folder": "/home/user", "write_path": "/elsewhere/written"}
        for number, (key, folder) in enumerate(elsewhere.items()):
            job = Job.begun(self.folder / f"job-{number}", self.facts(**{key: folder}))[0]
            self.assertIn(folder, self.refused(ExitCode.USAGE, self.manifest, job))
        for mount in ("/", "data"):
            self.refused(ExitCode.USAGE, self.manifest, self.job(), mount=mount)

    def test_the_default_mount_is_that_of_the_jobs_folder(self):
        is_mount = {self.folder, pathlib.Path("/")}.__contains__
        self.assertRegex(engines.manifest(self.job("a"), dict(CLUSTER), [], is_mount), f'mountPath: "{self.folder}"}}')
        self.refused(
            ExitCode.USAGE, engines.manifest, self.job("b"), dict(CLUSTER), [], lambda path: path == pathlib.Path("/")
        )

    def test_values_that_kubernetes_would_refuse_are_refused(self):
        job = self.job()
        for name, value in (
            ("image", ""),
            ("image", "a\nb"),
            ("claim", "Data"),
            ("name", "x" * 53),
            ("name", "a.b"),
            ("memory", "64 GB"),
            ("shm", "lots"),
            ("secret", "_"),
            ("at_once", "0"),
            ("cpus", "0.5"),
        ):
            with self.subTest(name=name, value=value):
                self.refused(ExitCode.USAGE, self.manifest, job, **{name: value})
        self.done(job, 0, 1, 2)
        self.refused(ExitCode.NO_INPUT, self.manifest, job)


class ContainerfileTest(unittest.TestCase):
    def test_the_entry_point_is_in_the_repository(self):
        lines = (REPOSITORY / "launch/Containerfile").read_text().splitlines()
        (entry,) = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in lines if line.startswith("ENTRYPOINT ")]
        self.assertTrue(os.access(REPOSITORY / pathlib.Path(entry[0]).relative_to("/opt/offramp"), os.X_OK))
        self.assertIn("COPY . /opt/offramp", lines)
