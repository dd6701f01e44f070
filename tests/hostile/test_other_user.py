"""
Another user cannot affect a run. With --consumer-user, consumers run as a user who can read slabs but not write them.
Needs root, for real users.
"""

import grp
import os
import pathlib
import pwd
import signal
import struct
import subprocess
import tempfile
import unittest

from tests.hostile import wire
from tests.support.launched_run import LaunchedRun
from tests.support.other_user import NOBODY, PYTHON, STRANGER, as_user, attempts, can_become_others
from tests.support.real_run import BIN, LeavesNothing, RealRun, kill, undisturbed

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = (
    *"--device cpu --model copy --copy-bytes 256KiB --batch 4 --batches 60 --slabs 4".split(),
    *"--processor checksum --log-level info".split(),
)
LONG = tuple("1000000" if word == "60" else word for word in COPY)
REFUSALS = {"EACCES", "EPERM"}
ON_OBJECTS = ("read", "write", "truncate", "unlink", "rename", "chmod", "map_for_writing")


def objects(run_id):
    return [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if name.startswith(f"offramp-{run_id}-")]


def socket_names(run):
    return [f"live/{path.name}" for path in wire.sockets_of(run.run_dir)]


def groups_of(pid):
    """The process's group ids, supplementary ones included."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {*lines["Gid"].split(), *lines["Groups"].split()}


def can_reach(path, uid):
    """False if a parent folder keeps that user out, so that the test would prove nothing."""
    return as_user(uid, "import os, sys; print(os.access(sys.argv[1], os.X_OK))", path) == ["True"]


@unittest.skipUnless(can_become_others(), "only root can act as another user")
class NotAllowed(LeavesNothing):
    maxDiff = None

    def assert_all_refused(self, uid, words, groups=()):
        answers = attempts(uid, words, groups)
        self.assertEqual({word: answer for word, answer in answers.items() if answer not in REFUSALS}, {})
        self.assertEqual(len(answers), len(words))

    def waiting_run(self, run):
        """
        Starts a run and waits until all slabs are full. Its parent folder is open, so only the run's own modes protect
        it.
        """
        run.folder.chmod(0o755)
        run.start_producer()
        run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")

    def finish(self, run):
        run.start_consumer()
        self.assertEqual(run.wait(run.producer), 0, run.logs())
        run.wait_for_consumers()
        run.finish_outputs()
        self.assertEqual(run.files(), undisturbed(*COPY))
        return run.summary()

    def test_no_object_can_be_opened_named_or_killed(self):
        with RealRun(*COPY) as run:
            self.waiting_run(run)
            shm = objects(run.run_id)
            self.assertGreaterEqual(len(shm), 4, "lock, ledger, heartbeats and a span at least")
            words = [f"{action}={path}" for path in shm for action in ON_OBJECTS]
            words += [
                f"{action}={run.run_dir}/{name}"
                for name in ("live/endpoint", "status.json", "live/producer.lock")
                for action in ("read", "write", "unlink", "rename")
            ]
            words += [
                f"{action}={run.run_dir}/{name}"
                for name in socket_names(run)
                for action in ("connect", "unlink", "rename")
            ]
            words += [f"create={run.run_dir}/{socket_names(run)[0]}", f"kill={run.producer.pid}"]
            self.assert_all_refused(NOBODY, words)
            self.assertEqual(objects(run.run_id), shm)
            self.finish(run)

    def test_a_consumer_of_another_user_is_refused_by_name(self):
        if not can_reach(BIN / "offramp-consumer", NOBODY):
            self.skipTest(f"user {NOBODY} may not enter {BIN}")
        with RealRun(*COPY) as run:
            self.waiting_run(run)
            done = subprocess.run(
                [BIN / "offramp-consumer", "--run-dir", run.run_dir, "--processor", "none"],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(done.returncode, 77, done.stderr)
            self.assertIn("--consumer-user", done.stderr)
            self.finish(run)

    def test_where_the_folder_was_opened_by_mistake_the_broker_refuses(self):
        if not can_reach(ROOT / "tests/hostile", NOBODY):
            self.skipTest(f"user {NOBODY} may not enter {ROOT}")
        with RealRun(*COPY) as run:
            self.waiting_run(run)
            folders = [(path, 0o755) for path in (run.run_dir, run.run_dir / "live")]
            for path, mode in (*folders, *((path, 0o666) for path in wire.sockets_of(run.run_dir))):
                path.chmod(mode)
            answers = as_user(
                NOBODY,
                """
import struct, sys
sys.path.insert(0, sys.argv[2])
from tests.hostile import wire
from tests.hostile.zmtp import Connection
work, free = (Connection(path, kind) for path, kind in zip(wire.sockets_of(sys.argv[1]), (b"DEALER", b"PUSH")))
run = wire.nonce_of(sys.argv[1])
for session in range(1, 5):
    free.send(wire.releases(run, session, 1, *[(wire.ticket(slab, 1, 1), wire.COMPLETED) for slab in range(4)]))
    work.send(wire.disconnect(run, session))
work.send(wire.hello(run, 0))
kind, body = wire.parse(work.receive())
print(kind == wire.REFUSED, struct.unpack_from("<I", body)[0], body[8:].split(bytes(1))[0].decode())
""",
                run.run_dir,
                ROOT,
                environment={"PYTHONDONTWRITEBYTECODE": "1"},
            )
            self.assertRegex(answers[0], f"True 3 user {NOBODY} may not read this run")
            refused = self.finish(run)["refused"]
            self.assertEqual(refused["refused: another user"], 1)
            self.assertEqual(refused["release of an unknown session"], 4)
            self.assertEqual(refused["work message from an unknown consumer"], 4)

    def test_the_launchers_own_socket(self):
        with LaunchedRun(*LONG, "--consumers", "2", "--status-seconds", "0.05") as run:
            run.folder.chmod(0o755)
            run.start()
            run.until(
                lambda: run.status().get("done_samples", 0) > 0 and (run.run_dir / "live/control.sock").exists(),
                "a run at work",
            )
            self.assert_all_refused(
                NOBODY,
                [
                    f"connect={run.run_dir}/live/control.sock",
                    f"read={run.run_dir}/logs",
                    f"unlink={run.run_dir}/live/control.sock",
                    f"kill={run.launcher.pid}",
                ],
            )
            self.assertEqual(run.command("stop").returncode, 0, run.logs())
            self.assertEqual(run.wait(), 130, run.logs())


@unittest.skipUnless(can_become_others(), "only root can act as another user")
class ConsumerUser(LeavesNothing):
    maxDiff = None

    def setUp(self):
        super().setUp()
        if not can_reach(BIN / "offramp-consumer", NOBODY):
            self.skipTest(f"user {NOBODY} may not enter {BIN}")

    def test_a_launched_run_whose_consumers_are_another_user(self):
        with LaunchedRun(*LONG, "--consumers", "2", "--consumer-user", "nobody", "--status-seconds", "0.05") as run:
            run.folder.chmod(0o755)
            run.output.mkdir()
            run.output.chmod(0o777)
            run.start()
            consumers = run.until(
                lambda: [
                    consumer["pid"]
                    for consumer in run.status().get("consumers", [])
                    if run.status().get("done_samples", 0) > 0
                ],
                "consumers at work",
            )
            shared = pwd.getpwuid(NOBODY).pw_gid
            (own_group,) = set().union(*map(groups_of, consumers))  # no group of the launcher's
            self.assertNotIn(
                int(own_group),
                {
                    shared,
                    os.getegid(),
                    *(group.gr_gid for group in grp.getgrall()),
                    *(user.pw_gid for user in pwd.getpwall()),
                },
            )
            self.assertEqual({os.stat(f"/proc/{pid}").st_uid for pid in consumers}, {NOBODY})
            run_id = run.status()["run_id"]
            spans = [path for path in objects(run_id) if path.rpartition(".")[2][0] == "s"]
            others = [path for path in objects(run_id) if path.rpartition(".")[2] in ("ledger", "lock")]
            heartbeats = [path for path in objects(run_id) if path.endswith(".heartbeats")]
            self.assertTrue(spans and len(others) == 2 and len(heartbeats) == 1, objects(run_id))
            as_consumer = {"groups": [int(own_group)]}  # as the launch script starts them
            of_the_launcher = run.folder / "of-the-launchers-group"
            of_the_launcher.touch()
            of_the_launcher.chmod(0o640)
            # Consumers have the access that they need; otherwise the rest of the test would prove nothing.
            answers = attempts(
                NOBODY,
                [f"read={path}" for path in spans + others]
                + [
                    f"write={heartbeats[0]}",
                    f"read={run.run_dir}/live/endpoint",
                    *(f"connect={path}" for path in wire.sockets_of(run.run_dir)),
                ],
                **as_consumer,
            )
            self.assertEqual(set(answers.values()), {"allowed"}, answers)
            words = [
                f"{action}={path}"
                for path in spans + others
                for action in (
                    "write",
                    "truncate",
                    "unlink",
                    "rename",
                    "chmod",
                    "map_for_writing",
                    "open_again_for_writing",
                )
            ]
            words += [f"{action}={path}" for path in heartbeats for action in ("unlink", "rename", "chmod")]
            words += [
                f"{action}={run.run_dir}/{name}"
                for name in (*socket_names(run), "live/endpoint")
                for action in ("unlink", "rename")
            ]
            words += [
                f"connect={run.run_dir}/live/control.sock",
                f"create={run.run_dir}/x",
                f"create={run.run_dir}/live/x",
                f"kill={run.launcher.pid}",
                f"read={of_the_launcher}",
            ]
            answers = attempts(NOBODY, words, **as_consumer)
            self.assertEqual({word: answer for word, answer in answers.items() if answer not in REFUSALS}, {})
            # A third user has no access, even in a group that it shares with the consumers' user.
            words = [f"{action}={path}" for path in spans + others + heartbeats for action in ON_OBJECTS]
            words += [
                f"read={run.run_dir}/live/endpoint",
                *(f"connect={path}" for path in wire.sockets_of(run.run_dir)),
            ]
            for groups in ((), (shared,)):
                answers = attempts(STRANGER, words, groups)
                self.assertEqual({word: answer for word, answer in answers.items() if answer not in REFUSALS}, {})
            self.assertEqual(run.command("stop").returncode, 0, run.logs())
            self.assertEqual(run.wait(), 130, run.logs())
            self.assertTrue(run.summary()["conserved"])

    def test_its_outputs_are_those_of_any_run(self):
        with LaunchedRun(*COPY, "--consumers", "2", "--consumer-user", "nobody") as run:
            run.folder.chmod(0o755)
            run.output.mkdir()
            run.output.chmod(0o777)
            self.assertEqual(run.start().wait(), 0, run.logs())
            self.assertEqual(
                {name: text for name, text in run.files().items() if name == "checksums.tsv"}, undisturbed(*COPY)
            )

    def test_a_hostile_consumer_cannot_take_the_producer_down_through_its_cell(self):
        with RealRun(
            *COPY, "--consumer-user", "nobody", "--visibility-timeout", "0.5", "--status-seconds", "0.05"
        ) as run:
            run.folder.chmod(0o755)
            run.output.mkdir()
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
            hostile = subprocess.Popen(
                [PYTHON, "-m", "tests.hostile.hostile_consumer", str(run.run_dir), "member", "--rounds", "2"],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[os.getegid()],
                stdout=subprocess.PIPE,
                text=True,
                env=run.environment,
                cwd=ROOT,
            )
            self.addCleanup(hostile.stdout.close)
            self.assertEqual(hostile.stdout.readline(), "done\n", run.logs())
            heartbeats = next(path for path in objects(run.run_id) if path.endswith(".heartbeats"))
            noise = struct.pack("<Q", 0xFFFFFFFFFFFFFFFF) * 512
            as_user(
                NOBODY,
                "import sys; open(sys.argv[1], 'r+b').write(bytes.fromhex(sys.argv[2]))",
                heartbeats,
                noise.hex(),
                groups=[os.getegid()],
            )
            self.assertEqual(
                attempts(NOBODY, [f"truncate={heartbeats}"], groups=[os.getegid()]),
                {f"truncate={heartbeats}": "allowed"},
            )
            # It holds a slab silently, so the broker reads its cell at the timeout, and again after its death.
            run.until(
                lambda: run.producer.poll() is not None or run.status().get("visibility_timeouts"), "an expired lease"
            )
            kill(hostile)
            hostile.wait()
            run.until(
                lambda: run.producer.poll() is not None or not run.status().get("slabs", {}).get("leased"),
                "its slab returned",
            )
            self.assertIsNone(run.producer.poll(), f"the producer is dead\n{run.logs()}")
            kill(run.producer, signal.SIGTERM)
            run.until(lambda: run.status().get("state") == "draining", "the first signal handled")
            kill(run.producer, signal.SIGTERM)
            self.assertEqual(run.wait(run.producer), 130, run.logs())
            self.assertTrue(run.summary()["conserved"])


@unittest.skipUnless(can_become_others(), "only root can act as another user")
class PlantedByOthers(unittest.TestCase):
    """
    Another user plants objects that root will open: a folder with root's name in /tmp, links and pipes in a writable
    output folder.
    """

    def test_a_folder_with_the_users_name_in_tmp_that_another_user_made(self):
        with tempfile.TemporaryDirectory(prefix="offramp-other-", dir="/var/tmp") as folder:
            script = pathlib.Path(folder) / "script"
            script.write_text(f"""set -eu
mount -t tmpfs -o mode=1777 offramp-test-tmp /tmp
mkdir /tmp/build && chmod 700 /tmp/build
setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {PYTHON} - <<'END'
import json, os, socket
run = "/tmp/offramp-0/planted"
os.makedirs(run + "/dead-letters")
os.chmod("/tmp/offramp-0", 0o777)
story = {{"payload": "batch-0-row-0.safetensors", "deliveries": []}}
open(run + "/dead-letters/batch-0-row-0.json", "w").write(json.dumps(story))
open(run + "/dead-letters/batch-0-row-0.safetensors", "w").write("payload")
open(run + "/config.toml", "w").write('processor = "write"\\nwrite-path = "/tmp/planted"\\n')
os.mkdir(run + "/live")
socket.socket(socket.AF_UNIX).bind(run + "/live/control.sock")
if os.fork() == 0:      # answers with terminal escape sequences
    server = socket.socket(socket.AF_UNIX)
    os.unlink(run + "/live/control.sock")
    server.bind(run + "/live/control.sock")
    os.chmod(run + "/live/control.sock", 0o777)
    server.listen()
    server.settimeout(60)
    while True:
        server.accept()[0].sendall(json.dumps({{"ok": True, "run_id": "\\x1b[2Jplanted", "run_dir": "/tmp"}}).encode() + b"\\n")
END
export OFFRAMP_BUILD_DIR=/tmp/build OFFRAMP_SKIP_PACKAGES=1 OFFRAMP_BIN_DIR={BIN}
for command in "status" "stop" "scale 2" "dead-letters list" "dead-letters retry --all" "status --run-dir /tmp/offramp-0/planted"; do
    code=0
    {ROOT}/launch/offramp $command </dev/null >/tmp/printed 2>&1 || code=$?
    echo "$command: $code: $(tr '\\n' ' ' </tmp/printed)"
done
ls -a /tmp
""")
            done = subprocess.run(
                ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", script],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            if "unshare" in done.stderr or "mount:" in done.stderr:
                self.skipTest(f"no namespaces here: {done.stderr.strip()}")
            self.assertEqual(done.returncode, 0, done.stderr)
            ends = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
            for command in ("status", "stop", "scale 2"):
                self.assertRegex(ends[command], "^69: offramp: no live run", done.stdout)
            for command in ("dead-letters list", "dead-letters retry --all"):
                self.assertRegex(ends[command], "^66: offramp: no run in .* has dead letters", done.stdout)
            self.assertRegex(
                ends["status --run-dir /tmp/offramp-0/planted"], "^77: .* is not this user's run directory", done.stdout
            )
            self.assertNotIn(
                "planted\n",
                done.stdout.partition("status --run-dir")[2].partition("\n")[2],
                "the stranger's text was written",
            )

    def test_links_and_pipes_in_the_output_folder_of_consumers(self):
        if not can_reach(BIN / "offramp-consumer", NOBODY):
            self.skipTest(f"user {NOBODY} may not enter {BIN}")
        for name, lay in (
            (".offramp-checkpoint", os.mkfifo),
            (".offramp-checkpoint.new", os.mkfifo),
            (".offramp-checkpoint", lambda path: os.symlink("/dev/zero", path)),
            (".offramp-checkpoint.new", lambda path: os.symlink(path.parents[1] / "precious", path)),
        ):
            with self.subTest(name=name), LaunchedRun(*COPY, "--consumers", "1", "--consumer-user", "nobody") as run:
                run.folder.chmod(0o755)
                run.output.mkdir()
                run.output.chmod(0o777)
                (run.folder / "precious").write_text("root's")
                planted = run.output / name
                lay(planted)
                os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
                self.assertEqual(run.start().wait(), 64, run.logs())
                self.assertIn("holds the work of an earlier run", run.logs())
                self.assertEqual(run.start("--overwrite").wait(), 0, run.logs())
                self.assertEqual((run.folder / "precious").read_text(), "root's")
                [kept] = run.folder.glob("output.before-*")
                self.assertEqual([name], os.listdir(kept))
                self.assertTrue((run.output / "checksums.tsv").exists())
