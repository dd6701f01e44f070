"""Posted results arrive at least once, with the same bytes under the same key, despite server and consumer failures."""

import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

import numpy

from tests.support.gate import Gate
from tests.support.http_receiver import FAULTS, Receiver, make_certificate
from tests.support.launched_resume import World
from tests.support.real_run import LeavesNothing, RealRun, kill, left_behind, undisturbed

SECRET = "Bearer a-word-that-nobody-sees"
COPY = tuple("--device cpu --model copy --copy-outputs 3x5,7 --batch 4 --batches 12 --slabs 4 --log-level info".split())
HTTP = (*COPY, "--processor", "http")


def undisturbed_arrays():
    """{(key, output): array} of an undisturbed run that writes files, as NumPy reads them."""
    arrays = {}
    for name, text in undisturbed(*COPY, "--processor", "npy").items():
        key, output = name.removesuffix(".npy").rsplit(".", 1)
        arrays[key, output] = numpy.load(io.BytesIO(text))
    return arrays


class Http(LeavesNothing):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        os.environ["NO_PROXY"] = "127.0.0.1"
        cls.wanted = undisturbed_arrays()
        assert len(cls.wanted) == 96

    def assert_all_arrived(self, receiver, body="json"):
        found = {}
        for key, bodies in receiver.arrived.items():
            self.assertEqual(len(set(bodies)), 1, f"one key, several bodies: {key}")
            headers = receiver.headers[key]
            name = tuple(urllib.parse.unquote(headers[header]) for header in ("Offramp-Sample", "Offramp-Output"))
            self.assertNotIn(name, found, "two keys for one result")
            found[name] = self.decoded(headers, bodies[0], name, body)
        self.assertEqual(found.keys(), self.wanted.keys())
        for name, array in found.items():
            self.assertEqual((array.dtype, array.shape), (self.wanted[name].dtype, self.wanted[name].shape))
            finite = numpy.isfinite(self.wanted[name]) if body == "json" else numpy.full(array.shape, True)
            self.assertEqual(array[finite].tobytes(), self.wanted[name][finite].tobytes(), name)
            self.assertTrue(numpy.isnan(array[~finite]).all(), "null for values without a JSON number")

    def decoded(self, headers, text, name, body):
        if body == "npy":
            self.assertEqual(headers["Content-Type"], "application/x-npy")
            return numpy.load(io.BytesIO(text), allow_pickle=False)
        self.assertEqual(headers["Content-Type"], "application/json")
        result = json.loads(text)
        self.assertEqual((result["key"], result["output"], result["model"]), (*name, "copy"))
        return numpy.array(result["data"], result["dtype"]).reshape(result["shape"])

    def run_to_the_end(self, receiver, *flags, consumers=2, environment=None):
        with RealRun(*HTTP, "--http-url", receiver.url, *flags, environment=environment) as run:
            run.start_producer()
            for _ in range(consumers):
                run.start_consumer()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertEqual(set(run.codes_of_those_let_in()), {0}, run.logs())
            return run.logs()

    def test_everything_arrives_once_and_as_it_is(self):
        for body in ("json", "npy"):
            with self.subTest(body), Receiver() as receiver:
                self.run_to_the_end(receiver, "--http-body", body)
                self.assert_all_arrived(receiver, body)
                self.assertEqual(receiver.requests, 96)

    def test_server_faults_cost_no_result(self):
        for fault in FAULTS:
            # Every 20th request, fewer for slow faults, so that no request fails twice in a row.
            every = 20 if fault in ("500", "408", "dropped", "cut", "answer lost") else 60
            with (
                self.subTest(fault),
                Receiver(lambda number, _, f=fault, n=every: f if number % n == 5 else "") as receiver,
            ):
                log = self.run_to_the_end(receiver, *(("--http-timeout-seconds", "1") if fault == "hang" else ()))
                self.assert_all_arrived(receiver)
                self.assertGreater(receiver.requests, 96)
                # libcurl itself retries on a new connection if a kept one ends without a byte of an answer.
                if fault not in ("dropped", "answer lost"):
                    self.assertIn("trying again", log)
                self.assertEqual("in 1 s as it requested" in log, fault.endswith("later"))
                self.assertNotIn("of-the-query", log)
                again = [times[1] - times[0] for times in receiver.seen.values() if len(times) > 1]
                self.assertGreaterEqual(len(again), 1)
                if fault.endswith("later"):
                    self.assertGreaterEqual(min(again), 1, "sooner than the server requested")

    def test_an_answer_that_does_not_end_counts_by_its_status(self):
        with Receiver(lambda number, _: "drip" if number in (5, 30) else "") as receiver:
            self.run_to_the_end(receiver, "--http-patience-seconds", "1")
            self.assert_all_arrived(receiver)
            self.assertEqual(receiver.requests, 96)

    def test_an_answer_whose_headers_do_not_end_is_none(self):
        with (
            Receiver(lambda number, _: "drip headers") as receiver,
            RealRun(*HTTP, "--http-url", receiver.url, "--http-patience-seconds", "1") as run,
        ):
            run.start_producer()
            consumer = run.start_consumer()
            self.assertEqual(run.wait(consumer), 75, run.logs())
            self.assertIn("its answer is not complete after 1 s", run.logs())
            kill(run.producer)
            run.wait(run.producer)
            run.sweep()

    def test_a_stopping_consumer_waits_for_its_server_a_limited_time(self):
        # The status of a dripping answer counts, so its slab is done.
        for fault, code in (("hang", 75), ("drip headers", 75), ("drip", 0)):
            with (
                self.subTest(fault),
                Receiver(lambda *_, f=fault: f) as receiver,
                RealRun(
                    *HTTP,
                    "--http-url",
                    receiver.url,
                    *"--samples-per-slab 1 --http-timeout-seconds 1 --http-patience-seconds 1".split(),
                ) as run,
            ):
                run.start_producer()
                consumer = run.start_consumer()
                run.until(lambda: receiver.requests > 0, "an unanswered request")
                kill(consumer, signal.SIGTERM)
                self.assertEqual(run.wait(consumer), code, run.logs())
                # Whole slabs of one sample with two outputs, but not all 48 samples.
                self.assertIn(len(receiver.arrived), (0,) if code else range(2, 96, 2))
                kill(run.producer)
                run.wait(run.producer)
                run.sweep()

    def test_a_server_that_an_authority_of_the_user_vouches_for(self):
        folder = tempfile.mkdtemp(prefix="offramp-http-")
        self.addCleanup(shutil.rmtree, folder)
        identity = make_certificate(folder)
        with Receiver(identity=identity) as receiver:
            self.run_to_the_end(receiver, "--http-ca-file", identity[0])
            self.assert_all_arrived(receiver)
            self.assertEqual(receiver.requests, 96)

    def test_a_key_is_the_same_in_another_run(self):
        with Receiver() as receiver:
            self.run_to_the_end(receiver)
            self.run_to_the_end(receiver, "--samples-per-slab", "1", consumers=1)
            self.assert_all_arrived(receiver)
            self.assertEqual({len(bodies) for bodies in receiver.arrived.values()}, {2})

    def test_consumers_that_are_killed_cost_no_result(self):
        with (
            Receiver() as receiver,
            RealRun(*HTTP, "--http-url", receiver.url, "--max-failures", "1000") as run,
            Gate(run.folder) as gate,
        ):
            run.start_producer()
            for _ in range(2):
                run.start_consumer(faulty=True, environment=gate.environment)
            for _ in range(3):
                pid, _ = gate.entered()
                gate.kill(pid)
                run.start_consumer(faulty=True, environment=gate.environment)
                gate.let(1)
            gate.open()
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            run.wait_for_consumers()
            self.assert_all_arrived(receiver)

    def test_a_consumer_that_is_killed_before_the_answer_costs_no_result(self):
        with Receiver(lambda number, _: "hang" if number in (7, 30) else "") as receiver:
            with RealRun(
                *COPY,
                "--processor",
                "http",
                "--http-url",
                receiver.url,
                *"--http-timeout-seconds 3600 --visibility-timeout 3600".split(),
            ) as run:
                run.start_producer()
                victim = run.start_consumer()
                run.until(lambda: receiver.requests >= 8, "an unanswered request")
                kill(victim, signal.SIGKILL)
                run.wait(victim)
                victim = run.start_consumer()
                run.until(lambda: receiver.requests >= 31, "another")
                kill(victim, signal.SIGKILL)
                run.wait(victim)
                run.start_consumer()
                self.assertEqual(run.wait(run.producer), 0, run.logs())
                run.wait_for_consumers()
                self.assert_all_arrived(receiver)
                self.assertTrue(run.summary()["conserved"])


class Launched(unittest.TestCase):
    """Whole runs of the launch script."""

    @classmethod
    def setUpClass(cls):
        os.environ["NO_PROXY"] = "127.0.0.1"

    def world(self, *flags):
        world = World(*HTTP, *flags)
        self.addCleanup(world.__exit__)
        return world

    def names(self, receiver):
        return {(headers["Offramp-Sample"], headers["Offramp-Output"]) for headers in receiver.headers.values()}

    def test_a_server_that_is_away_is_waited_for(self):
        with Receiver(listening=False) as receiver:
            world = self.world("--http-url", receiver.url, "--http-patience-seconds", "1")
            world.start()
            world.until(lambda: "ended with exit code 75" in world.logs(), "a consumer that gave up")
            receiver.listen()
            self.assertEqual(world.wait(), 0, world.logs())
            self.assertEqual(len(self.names(receiver)), 96)

    def test_a_signal_ends_a_run_without_its_server_and_resume_finishes_it(self):
        with Receiver(listening=False) as receiver:
            world = self.world("--http-url", receiver.url, "--http-patience-seconds", "1")
            world.start()
            world.until(lambda: "ended with exit code 75" in world.logs(), "a consumer that gave up")
            world.launcher.send_signal(signal.SIGTERM)
            self.assertEqual(world.wait(), 75, world.logs())
            *_, reason, way_on = (world.folder / "launcher.log").read_text().splitlines()
            self.assertIn("3 times in a row a consumer gave up", reason)
            self.assertRegex(way_on, "^  continue .* --resume")
            receiver.listen()
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            self.assertEqual(len(self.names(receiver)), 96)

    def test_signals_end_a_run_with_a_slow_server_and_resume_finishes_it(self):
        for fault, flags, signals, code in (
            ("hang", ("--http-timeout-seconds", "1", "--http-patience-seconds", "1"), 1, 75),
            ("drip", (), 2, 130),
        ):
            mended = threading.Event()
            with (
                self.subTest(fault, signals=signals),
                Receiver(lambda *_, f=fault, m=mended: "" if m.is_set() else f) as receiver,
            ):
                world = self.world("--http-url", receiver.url, "--samples-per-slab", "1", *flags)
                world.start()
                world.until(lambda: receiver.requests >= 2, "both consumers wait for the server")
                world.launcher.send_signal(signal.SIGTERM)
                world.until(lambda: world.status().get("state") == "draining", "the signal taken")
                if signals == 2:
                    world.launcher.send_signal(signal.SIGTERM)
                self.assertEqual(world.wait(), code, world.logs())
                self.assertFalse(world.processes())
                self.assertEqual(left_behind(world.shared_memory), set())
                mended.set()
                self.assertEqual(world.start("--resume").wait(), 0, world.logs())
                self.assertEqual(len(self.names(receiver)), 96)

    def test_a_refusing_address_ends_the_run_and_keeps_the_secret(self):
        for status, way_out in (("401", "--http-header"), ("404", "--http-url"), ("301", "Redirects are not followed")):
            with self.subTest(status), Receiver(lambda *_, s=status: s) as receiver:
                world = self.world("--http-url", receiver.url)
                world.environment["OFFRAMP_HTTP_HEADER"] = f"Authorization: {SECRET}"
                self.assertEqual(world.start().wait(), 64, world.logs())
                self.assertIn(f"/in answers {status} to sample '", world.logs())
                self.assertIn(f"answer {status} to ***", world.logs())
                self.assertIn(way_out, world.logs())
                self.assert_secret_is_nowhere(world)

    def test_a_key_in_the_address_may_change_and_is_written_nowhere(self):
        with Receiver() as receiver:
            key = SECRET.split()[1]
            world = self.world("--http-url", f"{receiver.url}&key={key}")
            self.assertEqual(world.start().wait(), 0, world.logs())
            self.assertEqual(len(self.names(receiver)), 96)
            self.assert_secret_is_nowhere(world)
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            self.assertEqual(world.summary()["samples"]["done_before"], 48)
            world.flags = (*HTTP, "--http-url", f"{receiver.url}&key={key}-another")
            self.assertEqual(world.start("--resume").wait(), 0, world.logs())
            self.assertEqual(world.summary()["samples"]["done_before"], 48)
            world.flags = (*HTTP, "--http-url", receiver.url.replace("/in?", "/out?"))
            self.assertEqual(world.start("--resume").wait(), 64, world.logs())
            self.assertIn(f"--http-url was {receiver.url.partition('?')[0]} and is ", world.logs())
            self.assert_secret_is_nowhere(world)

    def assert_secret_is_nowhere(self, world):
        for path in [world.folder, *world.folder.rglob("*")]:
            if path.is_file() and not path.is_symlink():
                text = path.read_bytes()
                self.assertNotIn(SECRET.split()[1].encode(), text, path)

    def test_a_result_that_the_server_refuses_is_set_aside_with_its_batch(self):
        refused = "17"
        with Receiver(lambda _, headers: "422" if headers["Offramp-Sample"] == refused else "") as receiver:
            world = self.world("--http-url", receiver.url, "--samples-per-slab", "1")
            self.assertEqual(world.start().wait(), 84, world.logs())
            self.assertIn(f"answers 422 to sample '{refused}', output '", world.logs())
            self.assertEqual(len(self.names(receiver)), 94)

    def test_headers_come_from_a_file_or_the_environment(self):
        for how in ("file", "environment"):
            with self.subTest(how), Receiver() as receiver:
                world = self.world("--http-url", receiver.url)
                file = world.folder.parent / f"{world.folder.name}.headers"
                self.addCleanup(file.unlink)
                file.write_text(f"Authorization: {SECRET}\r\n\nX-Tenant: shop\n" if how == "file" else "")
                world.environment["OFFRAMP_HTTP_HEADER"] = f"@{file}" if how == "file" else f"Authorization: {SECRET}"
                self.assertEqual(world.start().wait(), 0, world.logs())
                self.assertEqual({headers["Authorization"] for headers in receiver.headers.values()}, {SECRET})
                if how == "file":
                    self.assertEqual({headers["X-Tenant"] for headers in receiver.headers.values()}, {"shop"})
                self.assert_secret_is_nowhere(world)

    def test_settings_that_cannot_be_used_are_reported_without_secrets(self):
        consumer = os.path.join(os.environ["OFFRAMP_TEST_BIN"], "offramp-consumer")
        for flags, reason in (
            (("--http-url", "http://me:word@127.0.0.1/in"), "http://127.0.0.1/in contains a user or a password"),
            (("--http-url", "http://127.0.0.1/in", "--http-header", "Authorization word"), "is not a header"),
            (
                ("--http-url", "http://127.0.0.1/in", "--http-header", "Idempotency-Key: word"),
                "'idempotency-key', which each request sets itself",
            ),
            (
                ("--http-url", "http://127.0.0.1/in", "--http-header", "@/no/such/file"),
                "'/no/such/file': cannot be opened",
            ),
        ):
            with self.subTest(flags):
                refused = subprocess.run(
                    [consumer, "--processor", "http", *flags], capture_output=True, text=True, timeout=60, check=False
                )
                self.assertIn(refused.returncode, (64, 66), refused.stderr)
                self.assertIn(reason, refused.stderr)
                self.assertNotIn("word@", refused.stderr)
                self.assertNotIn("Authorization word", refused.stderr)
