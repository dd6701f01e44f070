"""However a run ends, nothing hangs and nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess

from tests.support.done_items import items_of_checksums
from tests.support.real_run import BIN, WATCHDOG_SECONDS, LeavesNothing, RealRun, kill, left_behind, shared_memory

LONG = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 4 --batches 1000000 --slabs 4".split(),
    *"--processor checksum".split(),
)
SHORT = tuple("8" if flag == "1000000" else flag for flag in LONG)


class Ends(LeavesNothing):
    def start(self, run, consumers=2, *flags):
        run.start_producer(*flags)
        for _ in range(consumers):
            run.start_consumer()
        run.until(
            lambda: run.status().get("done_samples", 0) > 0 and len(run.status()["consumers"]) == consumers,
            "all consumers admitted and a sample done",
        )

    def test_sigterm_drains(self):
        with RealRun(*LONG) as run:
            self.start(run)
            kill(run.producer, signal.SIGTERM)
            self.assertEqual(run.wait(run.producer), 130, run.logs())
            self.assertEqual([run.wait(c) for c in run.consumers], [0, 0], run.logs())
            summary = run.summary()
            self.assertEqual(summary["samples"]["in_flight"], 0)
            self.assertEqual(summary["samples"]["published"], summary["samples"]["released"])

    def test_two_signals_abandon_even_while_everything_waits_for_a_slab(self):
        with RealRun(*LONG) as run:
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "all slabs full, without consumers")
            kill(run.producer, signal.SIGTERM)
            run.until(lambda: run.status().get("state") == "draining", "the first signal handled")
            kill(run.producer, signal.SIGTERM)
            self.assertEqual(run.wait(run.producer), 130, run.logs())
            summary = run.summary()
            self.assertEqual(summary["state"], "abandoned")
            self.assertTrue(summary["conserved"])
            self.assertEqual(summary["samples"]["in_flight"], 16)
            self.assertGreater(summary["samples"]["dropped"], 0)

    def test_a_socket_that_is_taken_away_ends_the_run_with_an_error(self):
        with RealRun(*LONG) as run:
            run.start_producer()
            run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "every slab full")
            (socket,) = run.run_dir.glob("live/work-*.sock")
            socket.unlink()
            self.assertGreater(run.wait(run.producer), 0, run.logs())
            self.assertEqual(run.summary()["state"], "failed")
            self.assertIn(socket.name, run.summary()["failure"])

    def test_a_drained_consumer_gives_back_what_it_has_not_begun(self):
        with RealRun(*LONG) as run:
            self.start(run, 2)
            kill(run.consumers[0], signal.SIGTERM)
            self.assertEqual(run.wait(run.consumers[0]), 0, run.logs())
            kill(run.producer, signal.SIGTERM)
            self.assertEqual(run.wait(run.producer), 130)
            self.assertEqual(run.summary()["dead_letters"], [])
            self.assertEqual(run.summary()["samples"]["in_flight"], 0)

    def test_consumers_end_with_their_producer_where_no_other_is_waited_for(self):
        with RealRun(*LONG, "--producer-wait-seconds", "0") as run:
            self.start(run)
            kill(run.producer)
            self.assertEqual(run.wait(run.producer), -signal.SIGKILL)
            self.assertEqual([run.wait(c) for c in run.consumers], [86, 86], run.logs())

    def test_when_all_are_killed_the_next_start_sweeps_exactly_that(self):
        with RealRun(*LONG) as other:
            self.start(other)
            others = shared_memory()
            with RealRun(*LONG) as run:
                self.start(run)
                with run.kept_from_sweeps():  # other runs on this machine sweep; wait until the leftovers were seen
                    for child in [*run.consumers, run.producer]:
                        kill(child)
                    for child in [*run.consumers, run.producer]:
                        run.wait(child)
                    self.assertTrue(shared_memory() - others, "the killed run left something to sweep")
            with RealRun(*SHORT) as later:
                later.start_producer()
                later.start_consumer()
                self.assertEqual(later.wait(later.producer), 0, later.logs())
                later.wait_for_consumers()
            self.assertEqual(
                left_behind(lambda: (shared_memory()) ^ others),
                set(),
                "only the live run's objects remain",
            )
            kill(other.producer, signal.SIGTERM)
            self.assertEqual(other.wait(other.producer), 130)
            for consumer in other.consumers:
                other.wait(consumer)

    def test_the_launchers_death_drains_the_run(self):
        read, write = os.pipe()
        with RealRun(*LONG, "--lifeline-fd", str(read), pass_fds=(read,)) as run:
            run.output.mkdir()  # as the launcher creates it for its programs
            (run.output / ".offramp-lock").write_text(json.dumps({"run": run.run_id, "pid": os.getpid()}))
            self.start(run)
            os.close(read)
            os.close(write)
            self.assertEqual(run.wait(run.producer), 130, run.logs())
            for consumer in run.consumers:
                self.assertIsNotNone(run.wait(consumer))
            self.assertTrue(run.summary()["conserved"])

    def test_a_consumer_by_hand_that_would_make_other_results_is_refused(self):
        """Otherwise it would complete slabs whose results are in no file of the run."""
        with RealRun(*SHORT) as run:
            run.start_producer()
            link = run.folder / "link"
            link.symlink_to(run.folder)
            for flags, differing in (
                (("--processor", "none"), "--processor is 'none' and should be 'checksum'"),
                (
                    ("--processor", "npy", "--output", str(run.folder / "typo")),
                    f"--output is '{run.folder}/typo' and should be '{run.output}'",
                ),
            ):
                refused = run.start_consumer(*flags)
                self.assertEqual(run.wait(refused), 64, run.logs())
                log = (run.folder / f"consumer-{len(run.consumers)}.log").read_text()
                self.assertIn(differing, log)
                self.assertIn("live/settings.toml", log)
            self.assertFalse((run.folder / "typo").exists(), "it created a folder before it was admitted")
            run.consumers.clear()
            run.start_consumer("--output", f"{link}/run/../output/")  # the same folder under another name
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertEqual(run.wait_for_consumers(), [0], run.logs())
            run.finish_outputs()
            self.assertEqual(items_of_checksums(run.output), set(range(run.summary()["samples"]["released"])))

    def test_a_consumer_by_hand_needs_the_run_directory_alone(self):
        """It uses the run's settings in any working directory and for any spelling of the run directory."""
        with RealRun(*SHORT, "--batches-per-slab", "1") as run:
            run.flags[-1] = os.path.relpath(run.output)  # a relative path, as a user may pass it
            run.start_producer()
            elsewhere = run.folder / "elsewhere"
            elsewhere.mkdir()
            run.start_consumer_by_hand("--run-dir", "../run", folder=elsewhere)
            self.assertEqual(run.wait(run.producer), 0, run.logs())
            self.assertEqual(run.wait_for_consumers(), [0], run.logs())
            self.assertEqual(list(elsewhere.iterdir()), [])
            run.finish_outputs()
            self.assertEqual(items_of_checksums(run.output), set(range(run.summary()["samples"]["released"])))

    def test_a_consumer_in_another_pid_namespace_is_asked_to_share_it(self):
        inside = ("unshare", "--pid", "--fork", "--mount-proc")
        if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no pid namespace can be made here")
        with RealRun(*LONG) as run:
            run.start_producer()
            run.until(lambda: (run.run_dir / "live/endpoint").exists(), "a run to join")
            done = subprocess.run(
                [*inside, str(BIN / "offramp-consumer"), "--run-dir", str(run.run_dir)],
                capture_output=True,
                text=True,
                timeout=WATCHDOG_SECONDS,
                check=False,
            )
            self.assertEqual(done.returncode, 77, done.stderr)
            self.assertIn("is in another pid namespace and cannot be watched", done.stdout + done.stderr)
            self.assertIn("hare the pid namespace", done.stdout + done.stderr)
            self.abandon(run)

    def test_a_consumer_of_one_run_does_not_join_the_next_in_its_directory(self):
        with RealRun(*LONG) as run:
            nonces = []
            for flags in ((), ("--resume",)):
                run.start_producer(*flags)
                run.until(lambda: run.status().get("slabs", {}).get("ready") == 4, "all slabs full, without consumers")
                endpoint = dict(line.split("=") for line in (run.run_dir / "live/endpoint").read_text().splitlines())
                nonces.append(endpoint["nonce"])
                if len(nonces) == 1:
                    self.abandon(run)
            for_run = {
                nonce: run.start_consumer_by_hand("serve", nonce, "--run-dir", str(run.run_dir)) for nonce in nonces
            }
            self.assertEqual(run.wait(for_run[nonces[0]]), 69, run.logs())
            log = (run.folder / "consumer-1.log").read_text()
            self.assertNotIn(" has consumer index ", log, "it was admitted")
            for nonce in nonces:
                self.assertIn(nonce, log)
            run.until(lambda: run.status().get("done_samples", 0) > 0, "a done sample by this run's consumer")
            self.assertEqual([run.consumers[1].pid], [consumer["pid"] for consumer in run.status()["consumers"]])
            kill(run.producer, signal.SIGTERM)
            self.assertEqual(run.wait(run.producer), 130, run.logs())
            self.assertEqual(run.wait(run.consumers[1]), 0, run.logs())
            unfit = run.start_consumer_by_hand("serve", "xyz", "--run-dir", str(run.run_dir))
            self.assertEqual(run.wait(unfit), 64, run.logs())

    def abandon(self, run):
        kill(run.producer, signal.SIGTERM)
        run.until(lambda: run.status().get("state") == "draining", "the first signal handled")
        kill(run.producer, signal.SIGTERM)
        self.assertEqual(run.wait(run.producer), 130, run.logs())

    def test_a_second_producer_is_refused_by_name(self):
        with RealRun(*LONG) as run:
            self.start(run)
            first, log = run.producer, (run.folder / "producer.log")
            second = run.start_producer()
            self.assertEqual(run.wait(second), 85)
            self.assertIn(str(run.run_dir), log.read_text())
            run.producer = first
            kill(first, signal.SIGTERM)
            self.assertEqual(run.wait(first), 130, run.logs())

    def test_a_shared_memory_that_is_too_small_is_one_clear_error(self):
        total = shutil.disk_usage("/dev/shm").total
        with RealRun(
            *"--device cpu --model copy --copy-bytes".split(),
            str(1 << 30),
            *"--batch 4 --batches 4 --slabs".split(),
            str(total // (1 << 30) + 2),
            "--processor",
            "none",
        ) as run:
            run.start_producer()
            self.assertEqual(run.wait(run.producer), 80, run.logs())
            text = (run.folder / "producer.log").read_text()
            self.assertIn("--shm-size", text)
            self.assertIn("emptyDir", text)
