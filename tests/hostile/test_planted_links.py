"""
The consumers' user plants links in the output folder, under names that the programs write to. Their targets are neither
written to nor created. Needs root for real users; the test of the lock does not.
"""

import os
import unittest

from tests.support.launched_run import LaunchedRun
from tests.support.other_user import NOBODY, as_user, can_become_others
from tests.support.real_run import BIN, LeavesNothing, RealRun, undisturbed

COPY = (
    *"--device cpu --model copy --copy-outputs 8 --batch 4 --batches 6 --slabs 4".split(),
    *"--processor checksum,npy".split(),
)
LOCK = ".offramp-lock"
MADE_ANEW = ".offramp-checkpoint.new"


class Planted(LeavesNothing):
    def lay_out(self, run):
        """Link targets: an existing and a missing file."""
        self.precious, self.absent = run.folder / "precious", run.folder / "absent"
        self.precious.write_text("root's")
        self.precious.chmod(0o600)

    def assert_untouched(self):
        self.assertEqual((self.precious.read_text(), self.precious.stat().st_mode & 0o777), ("root's", 0o600))
        self.assertFalse(os.path.lexists(self.absent))


class Lock(Planted):
    """Launcher and producer write to the lock, as the owner of the folder."""

    def lay(self, run):
        self.lay_out(run)
        run.output.mkdir()
        lock = run.output / LOCK
        for lay in (
            lambda: lock.symlink_to(self.precious),
            lambda: lock.symlink_to(self.absent),
            lambda: os.link(self.precious, lock),
            lambda: os.mkfifo(lock),
        ):
            lay()
            yield
            self.assert_untouched()
            self.assertTrue(os.path.lexists(lock), "a foreign lock stays")
            lock.unlink()

    def test_the_launcher_refuses_one_that_leads_elsewhere(self):
        with LaunchedRun(*COPY) as run:
            for _ in self.lay(run):
                self.assertEqual(run.start().wait(), 73, run.logs())
                self.assertRegex(
                    (run.folder / "launcher.log").read_text(),
                    rf"offramp: {run.output}/{LOCK} is not an Offramp lock.*\n +Remove it\n$",
                )
            self.assertEqual(run.start().wait(), 0, run.logs())

    def test_a_producer_started_by_hand_refuses_it_too(self):
        with RealRun(*COPY) as run:
            for _ in self.lay(run):
                self.assertEqual(run.wait(run.start_producer()), 73, run.logs())
                self.assertIn(f"{run.output}/{LOCK}", run.logs())


@unittest.skipUnless(can_become_others(), "only root can act as another user")
class PlantedByConsumersUser(Planted):
    @classmethod
    def setUpClass(cls):
        if as_user(NOBODY, "import os, sys; print(os.access(sys.argv[1], os.X_OK))", BIN / "offramp-consumer") != [
            "True"
        ]:
            raise unittest.SkipTest(f"user {NOBODY} may not enter {BIN}")
        cls.wanted = undisturbed(*COPY)

    def test_the_programs_own_files(self):
        for more in (("--resume",), ("--overwrite",)):
            for lead in ("precious", "absent"):
                with (
                    self.subTest(lead, more=more),
                    LaunchedRun(*COPY, "--consumers", "1", "--consumer-user", "nobody") as run,
                ):
                    run.folder.chmod(0o755)
                    run.output.mkdir()
                    run.output.chmod(0o777)
                    self.lay_out(run)
                    self.assertEqual(run.start("--limit", "8").wait(), 0, run.logs())
                    self.as_consumers_user("os.symlink", run.folder / lead, run.output / MADE_ANEW)
                    self.assertEqual(run.start(*more).wait(), 0, run.logs())
                    self.assert_untouched()
                    self.assertEqual({name: run.files().get(name) for name in self.wanted}, self.wanted)
                    self.assertFalse(os.path.lexists(run.output / MADE_ANEW))

    def as_consumers_user(self, call, *paths):
        as_user(NOBODY, f"import os, sys; {call}(*sys.argv[1:])", *paths)
