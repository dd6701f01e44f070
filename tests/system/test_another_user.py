"""
Whole runs by users other than the builder: with a read-only build, and with too few processes. Needs root to become
other users.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from tests.support.launched_run import ROOT
from tests.support.other_user import NOBODY, STRANGER, can_become_others
from tests.support.real_run import BIN, left_behind, undisturbed

COPY = (
    *"--device cpu --model copy --copy-bytes 64KiB --batch 4 --batches 6 --slabs 4".split(),
    *"--processor checksum".split(),
)
ON_TWO_CONSUMERS = (*COPY, "--consumers", "2")
# Another unused uid, because limits count all processes of a user.
LIMITED = 65532
WATCHDOG_SECONDS = 120


def may_read(uid, *paths):
    return all(
        subprocess.run(["test", "-r", path], user=uid, group=uid, extra_groups=[], cwd="/", check=False).returncode == 0
        for path in paths
    )


def processes_of(uid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                found.append(int(entry.name))
        except FileNotFoundError:
            pass
    return found


@unittest.skipUnless(can_become_others(), "only root can act as another user")
class AnotherUser(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="offramp-another-", dir="/tmp")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.folder.chmod(0o755)
        if not may_read(STRANGER, ROOT / "launch/offramp", BIN / "offramp-producer", sys.executable, os.__file__):
            self.skipTest("other users can read neither this folder nor this Python")
        self.build = self.folder / "build"
        (self.build / "release").mkdir(parents=True)
        (self.build / "release/bin").symlink_to(BIN)
        (self.build / "venv").symlink_to(sys.prefix)

    def as_user(self, uid, *words, through=(), command=(ROOT / "launch/offramp",)):
        """Runs a command as another user without a home: (exit code, output). The test removes its files in /tmp."""
        done = subprocess.run(
            [*through, *command, *words],
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "OFFRAMP_BUILD_DIR": str(self.build),
                "OFFRAMP_SKIP_PACKAGES": "1",
            },
        )
        for run_dir in set(re.findall(rf"/tmp/offramp-{uid}/[-0-9a-f]+", done.stdout)):
            self.addCleanup(subprocess.run, ["rmdir", f"/tmp/offramp-{uid}"], check=False, stderr=subprocess.DEVNULL)
            self.addCleanup(shutil.rmtree, run_dir, ignore_errors=True)
        self.assertNotIn("Traceback", done.stdout)
        self.assertEqual(left_behind(lambda: self.shared_memory(uid)), [])
        return done.returncode, done.stdout

    def shared_memory(self, uid):
        found = []
        for entry in os.scandir("/dev/shm"):
            try:
                if entry.name.startswith("offramp-") and entry.stat().st_uid == uid:
                    found.append(entry.name)
            except FileNotFoundError:
                pass  # it belonged to another run, which has just ended
        return found

    def folder_of(self, uid):
        folder = self.folder / str(uid)
        folder.mkdir()
        os.chown(folder, uid, uid)
        return folder

    def built(self):
        return sorted(str(path) for path in self.build.rglob("*"))

    def test_a_run_and_what_follows_it(self):
        """As a user with a name and as a user without one."""
        wanted = undisturbed(*COPY)
        before = self.built()
        for uid in (NOBODY, STRANGER):
            with self.subTest(uid=uid):
                output = self.folder_of(uid) / "output"
                code, printed = self.as_user(uid, "run", *ON_TWO_CONSUMERS, "--output", str(output))
                self.assertEqual(code, 0, printed)
                self.assertIn("belongs to another user; its programs are used as they are", printed)
                self.assertEqual(
                    {path.name: path.read_bytes() for path in output.iterdir() if path.name in wanted}, wanted
                )
                code, printed = self.as_user(uid, "run", *ON_TWO_CONSUMERS, "--output", str(output), "--resume")
                self.assertEqual(code, 0, printed)
                self.assertIn("24 samples were done by earlier runs", printed)
        self.assertEqual(self.built(), before)

    def test_the_demo(self):
        code, printed = self.as_user(STRANGER, "run", "--device", "cpu")
        self.assertEqual(code, 0, printed)
        output = pathlib.Path(re.search(r"(?m)^  outputs +(\S+)$", printed).group(1))
        self.assertEqual(len(list(output.glob("cut-out/*.png"))), 12)
        self.assertIn("mean IoU", printed)
        self.assertTrue((output / "contact-sheet.html").is_file())

    def test_with_too_few_processes_it_reports_it_and_leaves_nothing(self):
        folder = self.folder_of(LIMITED)
        # whether 18 suffice depends on how the programs' starts coincide
        for most, codes in (
            (3, (2,)),
            (8, (71,)),
            (12, (71,)),
            (18, (0, 71)),
            (200, (0,)),
        ):
            with self.subTest(most=most):
                code, printed = self.as_user(
                    LIMITED,
                    "run",
                    *ON_TWO_CONSUMERS,
                    "--output",
                    str(folder / str(most)),
                    through=("prlimit", f"--nproc={most}:{most}"),
                )
                self.assertIn(code, codes, printed)
                if code:  # with 3 the shell cannot start Python
                    self.assertRegex(
                        printed.splitlines()[-1],
                        "Cannot fork$" if most == 3 else r"^offramp: .*Raise the limit of processes \(ulimit -u\)",
                    )
                self.wait_for_the_last_process()

    def test_a_model_that_gets_no_thread_names_the_limit_at_every_step(self):
        """Otherwise OpenMP would exit with 1."""
        folder = self.folder_of(LIMITED)
        flags = (
            "--model",
            "cutout",
            "--weights",
            str(BIN.parent / "share/cutout.safetensors"),
            *"--source synthetic --batches 1 --batch 1 --device cpu".split(),
        )
        for most in range(1, 8):
            with self.subTest(most=most):
                run = (
                    "--run-dir",
                    str(folder / f"run-{most}"),
                    "--run-id",
                    f"limited-{most}",
                    "--output",
                    str(folder / f"output-{most}"),
                )
                code, printed = self.as_user(
                    LIMITED,
                    *flags,
                    *run,
                    through=("prlimit", f"--nproc={most}:{most}"),
                    command=(BIN / "offramp-producer",),
                )
                self.assertEqual((code, "ulimit -u" in printed.splitlines()[-1]), (71, True), printed)

    def test_without_one_for_the_first_program_the_remedy_is_the_limit(self):
        alone = ("prlimit", "--nproc=1:1")
        code, printed = self.as_user(
            LIMITED,
            "run",
            *COPY,
            through=alone,
            command=("env", f"OFFRAMP_BIN_DIR={BIN}", sys.executable, "-E", "-s", ROOT / "launch/offramp_launch"),
        )
        self.assertEqual(code, 71, printed)
        self.assertRegex(
            printed,
            r"^offramp: '.*/offramp-producer' cannot be started \(Resource temporarily unavailable\)\n +Raise the limit of processes \(ulimit -u\).*\n$",
        )

    def wait_for_the_last_process(self):
        deadline = time.monotonic() + WATCHDOG_SECONDS
        while left := processes_of(LIMITED):
            self.assertLess(time.monotonic(), deadline, f"processes {left} are left")
            time.sleep(0.01)
