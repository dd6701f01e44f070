"""Runs that turn texts with ids into vectors, with a small network that is exported once."""

import subprocess
import sys

from tests.support.device import DEVICE
from tests.support.exported_model import exported, folder_of_class
from tests.support.launched_job import JobWorld
from tests.support.launched_resume import World
from tests.support.launched_run import ROOT, WATCHDOG_SECONDS


class TextRuns:
    """A base for TestCases whose setUpClass calls begin()."""

    processors = ("--profile", "embeddings")

    @classmethod
    def begin(cls, name, networks, words, tokens):
        """
        `networks`: text of a module with the function `tokens`. `words`: of the tokenizer. `tokens`: flags for the
        network's inputs.
        """
        cls.folder = folder_of_class(cls, name)
        (cls.folder / "networks.py").write_text(networks)
        (cls.folder / "words.json").write_text(words)
        cls.model = exported(cls.folder, "networks.py:tokens", *tokens, "--tokenizer", "words.json", "--device", DEVICE)

    @classmethod
    def write(cls, name, content):
        path = cls.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def world(self, source, path, *flags, processors=None, kind=World):
        world = kind(
            "--device",
            DEVICE,
            "--model",
            str(self.model),
            "--source",
            source,
            "--input",
            str(path),
            *(processors or self.processors),
            *"--consumers 2 --batch 8 --slabs 4 --status-seconds 0.05".split(),
            *flags,
        )
        world.environment["OFFRAMP_TOKENIZER_PYTHON"] = world.environment["OFFRAMP_PYTHON"] = sys.executable
        self.addCleanup(world.__exit__, None, None, None)
        return world

    def ended(self, *words, **more):
        """A world() whose run has ended."""
        world = self.world(*words, **more)
        self.assertEqual(world.start().wait(), 0, world.logs())
        return world

    def resumed(self, *words, **more):
        """The same after a run that was killed and resumed."""
        world = self.world(*words, **more)
        self.assertGreaterEqual(world.break_off(slabs=5), 4, "launcher, producer, two consumers")
        self.assertEqual(world.start("--resume").wait(), 0, world.logs())
        return world

    def in_shards(self, shards, *words, **more):
        """A job that was done in `shards` shards and merged."""
        job = self.world(*words, kind=JobWorld, **more)
        self.succeeds(job.init(shards))
        for index in range(shards):
            self.assertEqual(job.shard(index).wait(), 0, job.logs())
        self.succeeds(job.merge())
        return job

    def query(self, world, *words):
        """The output of `query` on the world's vectors."""
        done = subprocess.run(
            [ROOT / "launch/offramp", "query", *words, "--database", str(world.output), "--model", str(self.model)],
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
            env=world.environment,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def succeeds(self, called):
        """The output of a call()."""
        code, printed = called
        self.assertEqual(code, 0, printed)
        return printed
