"""A processor's file changes during a run: `reload` updates the consumers one after another, and nothing is lost."""

import os
import sys
import textwrap

from test_hosts import Hosted, in_python

from tests.support.waiting import WATCHDOG_SECONDS

BATCHES, ROWS, HELD = 60, 4, 40
# From item HELD on, waits until its consumer is asked to exit, then finishes its slab.
OLD = f"""
    import signal, time

    def save(slab):
        while slab.samples[0].item >= {HELD} and signal.SIGTERM not in signal.sigpending():
            slab.progress()
            time.sleep(0.01)
        for sample, values in slab:
            yield sample, ".code", b"old"
            yield sample, {{"code": "old"}}
"""
# Keeps the run from ending until the test has seen everything.
NEW = """
    import pathlib, time

    def save(slab):
        while slab.samples[0].item >= 100 and not pathlib.Path(__file__).with_name("go").exists():
            slab.progress()
            time.sleep(0.01)
        for sample, values in slab:
            yield sample, ".code", b"new"
            yield sample, {"code": "new"}
"""
LOOP = f"""
    import sys, numpy, offramp

    with offramp.Egress(sys.argv[1], slabs=4) as egress:
        for number in range({BATCHES}):
            rows = range(number * {ROWS}, (number + 1) * {ROWS})
            egress.submit({{"values": numpy.full(({ROWS}, 100), number, "float32")}}, [str(row) for row in rows])
        egress.drain()
"""


class Reload(Hosted):
    def change(self, path, text):
        """Replaces the file atomically, like an editor."""
        new = path.with_suffix(".new")
        new.write_text(textwrap.dedent(text))
        os.replace(new, path)

    def reload(self, run, code=0):
        done = run.command("reload")
        self.assertEqual(code, done.returncode, done.stdout + done.stderr + run.logs())
        return done.stdout + done.stderr

    def assert_the_new_code_follows_the_old(self, run, post):
        run.until(
            lambda: (status := run.status()).get("released_samples") == HELD and len(status["consumers"]) == 2,
            "both consumers to wait",
        )
        before = {consumer["pid"] for consumer in run.status()["consumers"]}
        self.change(post, "import nothing_of_this_name")
        printed = self.reload(run, 64)
        self.assertIn("2 of 2 consumers were not replaced", printed)
        self.assertIn("No module named 'nothing_of_this_name'", printed)
        run.until(
            lambda: before == {consumer["pid"] for consumer in run.status()["consumers"]}, "only the old consumers"
        )
        self.change(post, NEW)
        self.assertIn("2 of 2 consumers replaced", self.reload(run))
        post.with_name("go").touch()
        self.assertEqual(0, run.wait(), run.logs())
        codes = {name: data for name, data in run.files().items() if name.endswith(".code")}
        self.assertEqual({f"{item}.code" for item in range(BATCHES * ROWS)}, set(codes))
        self.assertEqual({b"old"}, {codes[f"{item}.code"] for item in range(HELD)})
        old = list(codes.values()).count(b"old")
        self.assertIn(old, range(HELD, HELD + 2 * ROWS + 1), "each old consumer finished at most one more slab")
        self.assertEqual(BATCHES * ROWS - old, list(codes.values()).count(b"new"))
        records = run.files()["records.jsonl"].decode()
        self.assertEqual((old, BATCHES * ROWS - old), (records.count('"old"'), records.count('"new"')))
        self.assertEqual([0, 0, 0, 0, 64], sorted(consumer["exit"] for consumer in run.summary()["consumers"]))
        self.assertEqual(BATCHES * ROWS, run.summary()["samples"]["released"])

    @in_python
    def test_in_a_run(self):
        run, post = self.run_with(OLD, "--batches", str(BATCHES))
        run.start("--processor", f"{post}:save")
        self.assert_the_new_code_follows_the_old(run, post)
        self.assertTrue(run.summary()["conserved"])

    @in_python
    def test_in_a_run_of_a_loop_of_the_user(self):
        run, post = self.run_with(OLD)
        loop = self.start_loop(run, LOOP, "--processor", f"{post}:save", "--consumer-python", sys.executable)
        self.assert_the_new_code_follows_the_old(run, post)
        self.assertEqual(0, loop.wait(WATCHDOG_SECONDS))
