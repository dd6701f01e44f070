"""A Ray worker without Ray: exit codes, reasons, slabs beside the object store, and the lifeline of the command."""

import contextlib
import fcntl
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "launch" / "python"))

from offramp import _ray_worker  # noqa: E402

MORE_THAN_THERE_IS = 1 << 50
# A worker of one shard; this test is its parent, like a raylet.
WORKER = """
    import os, pathlib, sys
    from offramp import _ray_worker
    _ray_worker.BEGINNING_SECONDS = float(os.environ.get("BEGINNING_SECONDS", 60))
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(_ray_worker.Worker(pathlib.Path(sys.argv[1]), sys.argv[2], ["--consumers", "4"]).do(7, "5f-2"))
"""
HELD = """
    import signal, sys
    from offramp_launch.supervision import lifeline
    lifeline.hold(sys.argv[1])
    print("held", flush=True)
    signal.pause()
"""

# Actors run the worker's real code in the driver's process. FAILS names the exception that Ray raises once.
RAY = """
    import os

    class exceptions:
        class RayError(Exception):
            pass
        class RayActorError(RayError):
            pass
        class OutOfMemoryError(RayError):
            pass

    class cloudpickle:
        register_pickle_by_value = staticmethod(lambda module: None)

    class Actor:
        def __init__(self, made):
            self.made = made
        def __getattr__(self, name):
            return Method(getattr(self.made, name))

    class Method:
        def __init__(self, called):
            self.called = called
        def remote(self, *given):
            return lambda: self.called(*given)

    class remote:
        def __init__(self, made):
            self.made = made
        def options(self, **given):
            return self
        def remote(self, *given):
            return Actor(self.made(*given))

    def get(call):
        code = call()
        kind = os.environ.pop("FAILS", "") if code else ""
        if kind:
            raise getattr(exceptions, kind)("gone")
        return code

    def init(address):
        if os.environ.get("INIT"):
            raise RuntimeError("Version mismatch")

    is_initialized, shutdown, kill = lambda: False, lambda: None, lambda actor: None
    nodes = lambda: [{"Alive": True, "Resources": {"CPU": 1}}]
    wait = lambda calls, num_returns, timeout: (calls[:1], calls[1:])
"""
# The job is a folder in which each completed shard leaves a file named by its index.
DRIVER = """
    import pathlib, sys
    import offramp.ray
    offramp.ray.status_of = lambda folder: {"missing": [index for index in range(2) if not (folder / str(index)).exists()]}
    sys.exit(offramp.ray.main(["--num-gpus=0", "--pause=0.1", *sys.argv[1:]]))
"""
WRONG_ARGUMENTS = """
    import offramp, offramp.ray
    for given in (
        {"job": None}, {"job": 5}, {"job": b"J"}, {"address": 5}, {"num_gpus": "1"}, {"num_gpus": -1}, {"num_cpus": None},
        {"resources": [1]}, {"resources": {"a": "1"}}, {"resources": {5: 1}}, {"workers": "2"}, {"workers": -1},
        {"attempts": 0}, {"attempts": 1.5}, {"pause": "1"}, {"pause": -1}, {"flags": "--consumers 4"}, {"flags": [4]},
        {"flags": None}, {"offramp": 5}, {"say": "x"},
    ):
        try:
            offramp.ray.run(**{"job": "absent", **given})
        except offramp.BadArgument as problem:
            assert f"{next(iter(given.values()))!r}" in str(problem) or "Give" in str(problem), problem
            assert "absent" not in str(problem), (given, problem)
        else:
            raise AssertionError(given)
"""
DOES = 'touch "$3/$5"'


class RayWorker(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/launch/python:{REPOSITORY}/launch"}

    def do(self, script):
        """(exit code, log of the shard) of a worker with this script as its command."""
        return self.worker(self.script(script))

    def script(self, text):
        command = self.folder / "offramp"
        command.write_text(f"#!/bin/sh\n{text}\n")
        command.chmod(0o755)
        return command

    def worker(self, command):
        code = subprocess.run(self.command_of_worker(command), env=self.environment, check=False).returncode
        return code, (self.folder / "ray" / "7.log").read_text()

    def command_of_worker(self, command):
        return [sys.executable, "-c", textwrap.dedent(WORKER), self.folder, command]

    @contextlib.contextmanager
    def store(self, name="plasma"):
        """Like Ray's store: an unlinked file in /dev/shm without pages."""
        fd, path = tempfile.mkstemp(prefix=name, dir="/dev/shm")
        os.unlink(path)
        os.ftruncate(fd, MORE_THAN_THERE_IS)
        yield fd
        os.close(fd)

    def test_passes_the_shard_and_returns_its_code_and_output(self):
        code, log = self.do('echo "$1 $2 $3 $4 $5 $6 $8 $9"; test -p /dev/fd/$7 && exit 65')
        self.assertEqual(
            (code, log),
            (
                65,
                f"[ray] attempt 5f-2 on {os.uname().nodename}\nshard --job {self.folder} --index 7 --lifeline-fd --consumers 4\n",
            ),
        )
        self.assertEqual(self.do("kill -KILL $$")[0], 137)

    def test_a_missing_command_is_reported(self):
        code, log = self.worker("/nowhere/offramp")
        self.assertEqual(code, 75)
        self.assertIn("'/nowhere/offramp' cannot be started on", log)

    def test_refuses_a_shard_beside_a_store_that_may_grow_too_far(self):
        with self.store() as store:
            self.assertEqual(_ray_worker.store_grows_by(os.getpid()), MORE_THAN_THERE_IS)
            code, log = self.do("echo begun")
            self.assertEqual((code, "begun" in log), (75, False))
            self.assertIn(
                f"do not fit into /dev/shm of {os.uname().nodename} together: the store may still grow by {MORE_THAN_THERE_IS >> 20} MiB",
                log,
            )
            os.write(store, b"1")
            self.assertEqual(
                _ray_worker.store_grows_by(os.getpid()), MORE_THAN_THERE_IS - os.fstat(store).st_blocks * 512
            )
        with self.store("other"):
            self.assertEqual(self.do("exit 0")[0], 0, "the file is not a store of Ray")

    def test_ends_a_shard_whose_slabs_leave_the_store_no_room(self):
        """Slabs are made after the start. Here the store grows instead."""
        fifo = self.folder / "begun"
        os.mkfifo(fifo)
        command = self.script(f"echo $$ >{fifo}; exec sleep 600")
        with self.store() as store:
            os.ftruncate(store, 0)
            worker = subprocess.Popen(self.command_of_worker(command), env=self.environment)
            pid = int(fifo.read_text())
            os.ftruncate(store, MORE_THAN_THERE_IS)
            self.assertEqual(worker.wait(60), 75)
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_a_shard_past_its_start_is_not_ended(self):
        self.environment["BEGINNING_SECONDS"] = "0"
        fifo = self.folder / "begun"
        os.mkfifo(fifo)
        with self.store() as store:
            os.ftruncate(store, 0)
            worker = subprocess.Popen(
                self.command_of_worker(self.script(f"echo >{fifo}; sleep 2.5; echo done")), env=self.environment
            )
            fifo.read_text()
            os.ftruncate(store, MORE_THAN_THERE_IS)
            self.assertEqual(worker.wait(60), 0)

    def test_thread_counts_follow_the_node_and_not_ray(self):
        self.environment.pop("OMP_NUM_THREADS", None)
        for given, seen in (({}, "none"), ({"OMP_NUM_THREADS": "1"}, "1")):
            # The shell in between plays the raylet.
            command = shlex.join(map(str, self.command_of_worker(self.script("echo threads ${OMP_NUM_THREADS-none}"))))
            subprocess.run(["sh", "-c", f"{command}; exit $?"], env={**self.environment, **given}, check=True)
            self.assertEqual((self.folder / "ray" / "7.log").read_text().splitlines()[-1], f"threads {seen}")

    def test_a_linked_log_is_not_written(self):
        (self.folder / "ray").mkdir()
        (self.folder / "ray" / "7.log").symlink_to(self.folder / "mine")
        (self.folder / "mine").write_text("mine")
        self.assertEqual(self.do("echo words"), (0, "mine"))

    def test_a_command_ends_with_the_process_that_holds_its_lifeline(self):
        lifeline, held = os.pipe()
        command = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(HELD), str(lifeline)],
            env=self.environment,
            pass_fds=(lifeline,),
            stdout=subprocess.PIPE,
        )
        os.close(lifeline)
        with command:
            self.assertEqual(command.stdout.readline(), b"held\n")
            os.close(held)
            self.assertEqual(command.wait(60), -signal.SIGKILL)

    def test_the_lifeline_takes_no_blocked_signals(self):
        lifeline, held = os.pipe()
        for end in (lifeline, held):
            self.addCleanup(os.close, end)
        command = """
            import os, pathlib, re, signal, sys
            from offramp_launch import interrupts
            from offramp_launch.supervision import lifeline
            lifeline.hold(sys.argv[1])
            signal.signal(signal.SIGINT, lambda *_: sys.exit("taken"))
            with interrupts.blocked():
                os.kill(os.getpid(), signal.SIGINT)
                threads = [(thread / "status").read_text() for thread in pathlib.Path("/proc/self/task").iterdir()]
                keeping = sum(int(re.search("SigBlk:(.*)", thread)[1], 16) >> signal.SIGINT - 1 & 1 for thread in threads)
                signal.signal(signal.SIGINT, lambda *_: sys.exit(f"kept by {keeping} of {len(threads)}"))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(command), str(lifeline)],
            env=self.environment,
            pass_fds=(lifeline,),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.stderr, "kept by 2 of 2\n")

    def test_an_invalid_lifeline_is_refused(self):
        for given, message in (
            ("0", "which is not a pipe"),
            ("99", "which is not a pipe"),
            ("x", "not a whole number"),
        ):
            done = subprocess.run(
                [
                    sys.executable,
                    "-E",
                    "-s",
                    str(REPOSITORY / "launch" / "offramp_launch"),
                    "shard",
                    "--job",
                    str(self.folder),
                    "--index",
                    "0",
                    "--lifeline-fd",
                    given,
                ],
                env={**os.environ, "OFFRAMP_BIN_DIR": "/nowhere"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((done.returncode, message in done.stderr), (64, True), done.stderr)

    def test_the_entrypoint_continues_in_the_python_it_names(self):
        """The command is found in PATH and prints its arguments."""
        (entrypoint,) = re.findall("entrypoint: (.*)", (REPOSITORY / "launch" / "ray-job.yaml").read_text())
        words = shlex.split(entrypoint.removeprefix("/opt/offramp/launch/offramp job ray"))
        output = self.on_ray("start(here(), sys.argv[1:])", *words)
        self.assertEqual(
            output.splitlines()[-1].split("|")[3:],
            ["", "--job", "/shared/JOB", "--address=auto", "--flags=--consumers 4"],
        )

    def test_a_folder_named_ray_is_not_the_ray_package(self):
        (self.folder / "ray").mkdir()
        output = self.on_ray("start(here(), ['--ray-python', sys.executable])")
        self.assertIn("Ray is not installed", output)

    def test_a_run_on_ray_passes_resources_and_no_password(self):
        output = self.on_ray(
            "LAUNCHER = pathlib.Path.cwd() / 'launcher'; on_ray.run(sys.argv[1:])",
            *"--on=ray --job=J --resource a=1 --resource b=1 --sink postgresql://u:PW@h/t".split(),
        )
        init, ray, merge = output.splitlines()
        self.assertEqual(
            ray.split("|")[:6], ["job", "ray", "--job", f"{self.folder}/J", "--resource=a=1", "--resource=b=1"]
        )
        self.assertEqual(
            (init.split("|")[4], [line.rpartition("|")[2] for line in (init, ray, merge)]),
            ("postgresql://u@h/t", ["PW", "PW", "PW"]),
        )

    def test_a_killed_run_on_ray_ends_its_driver(self):
        """The driver runs a fake offramp.ray, which prints its id and sleeps."""
        fifo = self.folder / "begun"
        os.mkfifo(fifo)
        (self.folder / "offramp").mkdir()
        (self.folder / "offramp" / "__init__.py").touch()
        (self.folder / "offramp" / "ray.py").write_text(
            f"import os, time\ndef main(argv):\n    open({str(fifo)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        )
        launcher = self.folder / "launcher"
        launcher.mkdir()
        (launcher / "__main__.py").write_text(
            textwrap.dedent(f"""
            import os, sys
            words = dict(word.partition("=")[::2] for word in sys.argv[1:])
            sys.path.insert(0, {str(REPOSITORY / "launch")!r})
            from offramp_launch.jobs.on_ray import START
            if "ray" in words:
                os.execv(sys.executable, [sys.executable, "-c", START, {str(self.folder)!r}, {str(REPOSITORY / "launch")!r}, words["--lifeline-fd"]])
        """)
        )
        run = subprocess.Popen(
            self.command_on_ray(
                "LAUNCHER = pathlib.Path.cwd() / 'launcher'; on_ray.run(sys.argv[1:])", "--on=ray", "--job=J"
            ),
            cwd=self.folder,
            env=self.environment,
        )
        with open(fifo) as begun:
            driver = os.pidfd_open(int(begun.read()))
        self.addCleanup(os.close, driver)
        run.kill()
        run.wait()
        self.assertTrue(select.select([driver], [], [], 60)[0])

    def test_a_lost_worker_costs_an_attempt_for_any_ray_error(self):
        for kind in ("RayActorError", "OutOfMemoryError", "RayError"):
            code, output = self.drive(f'test -e "$3/once$5" || {{ touch "$3/once$5"; exit 75; }}; {DOES}', FAILS=kind)
            self.assertEqual(code, 0, output)
            self.assertIn(f"attempt 1 of 5: its worker was lost ({kind})", output)
            for name in ("0", "1", "once0", "once1"):
                (self.folder / name).unlink()

    def test_each_attempt_is_reported_with_its_own_reason(self):
        code, output = self.drive(
            'test -e "$3/once" && kill -KILL $$; touch "$3/once"; echo "offramp: the sink is away"; exit 75',
            "--attempts=2",
            "--workers=1",
        )
        self.assertEqual(code, 75, output)
        self.assertEqual(output.count("the sink is away"), 1, output)
        self.assertIn("exit code 137 (SIGKILL): it printed nothing", output)

    def test_shards_without_a_record_are_not_done(self):
        code, output = self.drive("exit 0")
        self.assertEqual(code, 75, output)
        self.assertIn("but these shards have no record: 0, 1", output)
        for flags in ("--index 0", "--help", "--job=J", "--lifeline-fd 3"):
            code, output = self.drive(DOES, f"--flags={flags}")
            self.assertEqual((code, "cannot be passed in flags" in output), (64, True), output)

    def test_a_second_driver_is_refused(self):
        with open(self.folder / "ray.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, output = self.drive(DOES)
            self.assertEqual((code, "another driver runs the job" in output), (85, True), output)
        self.assertEqual(self.drive(DOES)[0], 0)

    def test_a_refusal_by_ray_is_reported(self):
        code, output = self.drive(DOES, INIT="refused")
        self.assertEqual((code, output), (71, "offramp: Ray: Version mismatch\n"))
        for given in ("--resource=a", "--flags='"):
            code, output = self.drive(DOES, given)
            self.assertEqual((code, "offramp: job ray: argument" in output), (64, True), output)

    def test_wrong_arguments_are_refused(self):
        self.assertEqual((0, ""), self.drive(DOES, driver=WRONG_ARGUMENTS))

    def drive(self, script, *flags, driver=DRIVER, **environment):
        """(exit code, output) of a driver of two shards with this script as their command."""
        (self.folder / "made").mkdir(exist_ok=True)
        (self.folder / "made" / "ray.py").write_text(textwrap.dedent(RAY))
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                textwrap.dedent(driver),
                "--job",
                self.folder,
                "--offramp",
                self.script(script),
                *flags,
            ],
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **self.environment,
                **environment,
                "PYTHONPATH": f"{self.folder}/made:{self.environment['PYTHONPATH']}",
            },
        )
        return done.returncode, done.stdout

    def on_ray(self, call, *words):
        """The arguments and the password that each program receives."""
        (self.folder / "python3").write_text("#!/bin/sh\n[ $# -lt 3 ] && exit 0\nIFS='|'; echo \"$*\"\n")
        (self.folder / "python3").chmod(0o755)
        (self.folder / "launcher").mkdir()
        (self.folder / "launcher" / "__main__.py").write_text(
            "import os, sys; print('|'.join([*sys.argv[1:], os.environ.get('PGPASSWORD', '')]))"
        )
        return subprocess.run(
            self.command_on_ray(call, *words),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**self.environment, "PATH": f"{self.folder}:{os.environ['PATH']}"},
        ).stdout

    def command_on_ray(self, call, *words):
        call = f"on_ray.{call}" if call[0] in "sL" else call
        return [
            sys.executable,
            "-c",
            f"import pathlib, sys; from offramp_launch.jobs import on_ray; from offramp_launch.places import here; {call}",
            *words,
        ]
