"""Watching a run: metrics and their names, health, access control, and the server of a run with puppets."""

import http.client
import json
import os
import pathlib
import re
import selectors
import shlex
import signal
import socket
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

from stage import WATCHDOG_SECONDS, OnStage, kill, until, wait_until_gone
from watched_documents import DOCUMENTS
from watched_runs import of_a_run, of_gpus, of_groups, status_of

from offramp_launch.exit_code import LaunchError
from offramp_launch.places import Places
from offramp_launch.run_dir import RunDir
from offramp_launch.supervision.process_loop import ProcessLoop
from offramp_launch.supervision.events import Timers
from offramp_launch.status_schema import validate_status
from offramp_launch.watching import address, server
from offramp_launch.watching.counters import BusySeconds, added, counters_of, grown
from offramp_launch.watching.exposition import text_of
from offramp_launch.watching.exporter import StatusExporter
from offramp_launch.watching.metrics import families_of
from offramp_launch.watching.server import Connections
from offramp_launch.watching.timestamps import seconds_of

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH = HERE.parents[2] / "launch"
NOW = seconds_of("2026-01-31T12:00:11.000Z")
LATER_NS = 10**18  # a status of this time never becomes old


class MetricsTest(unittest.TestCase):
    """
    Names, types, labels and units are frozen, because dashboards and alerts depend on them. A golden file changes only
    when a metric is added.
    """

    maxDiff = None

    def golden(self, name, document, open_metrics=False):
        path = HERE / "golden" / name
        text = text_of(families_of(document, NOW), open_metrics)
        if os.environ.get("OFFRAMP_WRITE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.assertEqual(path.read_text(), text)

    def test_metrics_of_a_run(self):
        self.golden("metrics.txt", of_a_run())

    def test_metrics_of_a_run_in_openmetrics(self):
        self.golden("openmetrics.txt", of_a_run(), open_metrics=True)

    def test_metrics_of_groups(self):
        self.golden("metrics-groups.txt", of_groups())

    def test_metrics_of_several_gpus_add_up(self):
        self.golden("metrics-gpus.txt", of_gpus())
        text = text_of(families_of(of_gpus(), NOW))
        completed = [
            int(value)
            for value in re.findall(r'^offramp_samples_total\{gpu="[^"]+",state="completed"\} (\d+)$', text, re.M)
        ]
        self.assertEqual([1000 + 7 * 4, 1000 + 7 * 5], completed, "earlier shards of a worker count exactly once")
        self.assertNotIn("offramp_samples_total{state=", text)
        self.assertEqual(1, text.count("\nofframp_samples_expected "))

    def test_a_groups_samples_grow_over_the_shards_of_a_worker(self):
        document = of_gpus()
        report = document["workers"]["cuda:0"]
        report["earlier"] = grown({}, of_groups()["status"])
        for status, samples in ((of_groups()["status"], 80), ({}, 40)):  # the second is of a worker between two shards
            report["status"] = status
            text = text_of(families_of(document, NOW))
            named = 'offramp_group_samples_total{gpu="cuda:0",group="masks",state="completed"}'
            self.assertIn(f"{named} {samples}\n", text)

    def test_a_worker_between_shards_reports_no_consumers_metric(self):
        document = of_gpus()
        document["workers"]["cuda:1"]["status"] = {}
        text = text_of(families_of(document, NOW))
        self.assertEqual(['{gpu="cuda:0"} 1'], re.findall(r"^offramp_consumers(.*)$", text, re.M))
        self.assertIn('offramp_samples_total{gpu="cuda:1",state="completed"} 1000\n', text)

    def test_every_line_is_valid_for_prometheus(self):
        for open_metrics in (False, True):
            text = text_of(families_of(of_a_run(), NOW), open_metrics)
            self.assertEqual(open_metrics, text.endswith("# EOF\n"))
            for line in text.splitlines():
                self.assertRegex(
                    line,
                    r'^(# (HELP|TYPE) offramp_[a-z0-9_]+ .+|# EOF|offramp_[a-z0-9_]+(\{([a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*",?)+\})? [-+0-9.e]+)$',
                )
            self.assertNotRegex(text, r'[{,]pid="')

    def test_the_prometheus_library_reads_the_same_values(self):
        try:
            from prometheus_client import parser
            from prometheus_client.openmetrics import parser as open_parser
        except ImportError:
            self.skipTest("no prometheus_client")
        for document in (of_a_run(), of_gpus(), {"status": {}}):
            with self.subTest(document):
                families = families_of(document, NOW)
                text, open_text = text_of(families), text_of(families, open_metrics=True)
                ours = {
                    (
                        f"{family.name}{suffix}",
                        *sorted(
                            (name, str(value).encode(errors="replace").decode())
                            for name, value in labels.items()
                            if name != "le"
                        ),
                        *((("le", float(labels["le"])),) if "le" in labels else ()),
                    ): value
                    for family in families
                    for suffix, labels, value in family.samples
                }
                for read, content in ((parser, text), (open_parser, open_text)):
                    theirs = {
                        (
                            sample.name,
                            *sorted((name, value) for name, value in sample.labels.items() if name != "le"),
                            *((("le", float(sample.labels["le"])),) if "le" in sample.labels else ()),
                        ): sample.value
                        for family in read.text_string_to_metric_families(content)
                        for sample in family.samples
                    }
                    self.assertEqual({key: float(value) for key, value in ours.items()}, theirs)

    def test_a_status_of_another_version_is_harmless(self):
        for status in (
            {},
            {"state": "waiting"},
            {
                "totals": {"completed": {}},
                "slabs": {"free": None},
                "stage_seconds": {"compute": {"counts": [1], "sum": None}},
            },
            {
                "stage_seconds": {"compute": {"counts": [1, 2], "sum": float("nan")}},
                "stage_bounds_seconds": [1],
                "shm_bytes": True,
                "time": 7,
                "now_ns": 1,
            },
        ):
            text = text_of(families_of({"status": status}, NOW))
            self.assertEqual(bool(status), "offramp_consumers 0\n" in text)
            self.assertNotIn("stage_seconds", text)
            self.assertNotIn("shm_bytes", text)

    def test_dashboard_and_alerts_use_exported_metrics(self):
        exported = {
            name
            for document in (of_a_run(), of_gpus())
            for line in text_of(families_of(document, NOW)).splitlines()
            if not line.startswith("#")
            for name in [re.match(r"\w+", line)[0]]
        }
        for name, least in (("offramp-dashboard.json", 10), ("offramp-alerts.yml", 6)):
            text = (LAUNCH / "watching" / name).read_text()
            named = set(re.findall(r"\bofframp_[a-z0-9_]+", text))
            self.assertGreaterEqual(len(named), least)
            self.assertEqual(set(), named - exported, name)
        dashboard = json.loads((LAUNCH / "watching" / "offramp-dashboard.json").read_text())
        self.assertEqual(8, len(dashboard["panels"]))
        self.assertTrue(
            all(
                panel["targets"] and all(target["expr"] for target in panel["targets"]) for panel in dashboard["panels"]
            )
        )
        alerts = (LAUNCH / "watching" / "offramp-alerts.yml").read_text()
        self.assertEqual(6, len(re.findall(r"^ +- alert: ", alerts, re.M)))
        self.assertEqual(
            *(
                alerts.count(words)
                for words in (
                    'offramp_run_state{state="running"} == 1',
                    "time() - offramp_launcher_timestamp_seconds < 60",
                )
            ),
            "each alert ignores the last metrics of a dead launcher",
        )


class CountersTest(unittest.TestCase):
    def test_sums_only_counters(self):
        once, status = grown({}, status_of(1, 4)), status_of(2, 4)
        twice = added(once, counters_of(status))
        self.assertEqual(2 * status["totals"]["completed"]["samples"], twice["totals"]["completed"]["samples"])
        self.assertEqual([2, 4, 6, 8], twice["stage_seconds"]["compute"]["counts"])
        self.assertEqual({"foreign": 2, "stale": 4, "malformed": 0, "refused: another run": 8}, twice["refused"])
        self.assertEqual(status["stage_bounds_seconds"], twice["stage_bounds_seconds"])
        self.assertNotIn("output_wait_seconds", twice)

    def test_busy_seconds_only_grow(self):
        busy, sums = BusySeconds(), []
        for consumers in (
            [(1, 1, 2.0)],
            [(1, 1, 3.0), (2, 2, 1.0)],
            [(2, 2, 1.5)],
            None,
            [(2, 2, 0.5)],
            [(2, 2, 0.25)],
        ):
            busy.look(
                [{"pid": pid, "session": session, "busy_seconds": seconds} for pid, session, seconds in consumers]
                if consumers
                else None
            )
            sums.append(busy.seconds)
        self.assertEqual([2.0, 4.0, 4.5, 4.5, 5.0, 5.25], sums)


class HealthTest(unittest.TestCase):
    def test_decides_live_and_ready(self):
        seconds = 10**9
        now, consumer = status_of(1, 1)["now_ns"] + seconds // 2, status_of(1, 1)["consumers"][0]
        old = now - 10 * seconds
        for document, lives, ready in (
            (of_a_run(), True, True),
            (of_a_run(status={}), True, False),
            (of_a_run(status=status_of(1, 1, now_ns=old)), False, False),
            (of_a_run(status=status_of(1, 1, now_ns=old), taking_over=True), True, True),
            (
                of_a_run(status=status_of(1, 1), taking_over=True, taking_over_since_ns=now - 360 * seconds),
                True,
                True,
            ),
            (
                of_a_run(status=status_of(1, 1), taking_over=True, taking_over_since_ns=now - 660 * seconds),
                False,
                False,
            ),
            (of_a_run(status=status_of(1, 1, now_ns=old), status_seconds=2.0), False, False),
            (of_a_run(status=status_of(1, 1, now_ns=old), status_seconds=5.0), True, True),
            (of_a_run(ending=True), True, False),
            (of_a_run(status=status_of(1, 1, now_ns=old, state="ended")), True, False),
            (of_a_run(status=status_of(1, 1, now_ns=old), finishing=True), True, False),
            (of_a_run(status=status_of(1, 1, state="draining")), True, False),
            (of_a_run(status=status_of(1, 1, consumers=[])), True, False),
            (of_a_run(status=status_of(1, 1, consumers=[{**consumer, "stalled": True}])), True, False),
            (of_a_run(status=status_of(1, 1, consumers=[{**consumer, "ready": False}])), True, False),
            (of_gpus(), True, False),
        ):
            self.assertEqual((lives, ready), (server.alive(document, now)[0], server.ready(document, now)[0]), document)
            stepped = {**document, "status": {**document["status"], "time": "1970-01-01T00:00:00.000Z"}}
            self.assertEqual(lives, server.alive(stepped, now)[0], "a step of the time of day")

    def test_names_the_silent_worker(self):
        document = of_gpus()
        now = document["workers"]["cuda:1"]["status"]["now_ns"]
        document["workers"]["cuda:1"]["status"]["now_ns"] = now - 10 * 10**9
        well, why = server.alive(document, now)
        self.assertFalse(well)
        self.assertTrue(why.startswith("cuda:1: the producer has not reported for 10 s"), why)


class AddressTest(unittest.TestCase):
    def test_parses_addresses(self):
        self.assertEqual(
            (("127.0.0.1", 9464), ["--batch", "4"]), address.take(["--http", "127.0.0.1:9464", "--batch", "4"])
        )
        self.assertEqual((("::1", 0), []), address.take(["--http=[::1]:0"]))
        self.assertEqual((None, ["--http-url", "x"]), address.take(["--http-url", "x"]))
        for text in (
            "",
            "9464",
            ":9464",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "::1:80",
            "localhost:-1",
            "localhost:٣",
            "localhost:" + "0" * 5000,
        ):
            with self.subTest(text):
                self.assertRaisesRegex(LaunchError, "not HOST:PORT", address.take, ["--http", text])

    def test_looks_up_no_names(self):
        for text in (
            "foo..bar:80",
            "a" * 64 + ":80",
            "\udcff:80",
            "example.org:80",
            "127.1:80",
            "[::1%\udcff]:80",
            "[example.org]:80",
        ):
            with self.subTest(text):
                self.assertRaisesRegex(
                    LaunchError, "neither a numeric address nor localhost", address.take, ["--http", text]
                )
        with (
            mock.patch.object(socket, "getaddrinfo", wraps=socket.getaddrinfo) as asked,
            address.listen(("localhost", 0)) as listener,
        ):
            self.assertEqual("127.0.0.1", listener.getsockname()[0])
            self.assertTrue(
                all(call.kwargs["flags"] & socket.AI_NUMERICHOST for call in asked.mock_calls) and asked.mock_calls
            )
        self.assertRaises(OSError, address.listen, ("::1%a..b", 0))

    def test_takes_the_address_from_the_environment(self):
        os.environ["OFFRAMP_HTTP"] = "localhost:1"
        self.assertEqual((("localhost", 1), []), address.take([]))
        self.assertNotIn("OFFRAMP_HTTP", os.environ)

    def test_recognizes_names_of_this_machine(self):
        for host, is_one in (
            ("localhost", True),
            ("LocalHost:80", True),
            ("127.0.0.1:9464", True),
            ("[::1]:9464", True),
            ("[::1]", True),
            ("127.9.9.9:1", True),
            ("evil.example", False),
            ("localhost.evil.example:9464", False),
            ("127.0.0.1.evil.example", False),
            ("", False),
            ("[::2]:80", False),
        ):
            self.assertEqual(is_one, address.names_this_machine(host, "127.9.9.9"), host)


class ConnectionsTest(unittest.TestCase):
    def setUp(self):
        self.connections = Connections(most=3, most_streams=1)
        self.others = []

    def one(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        theirs.settimeout(WATCHDOG_SECONDS)
        self.others.append(theirs)
        return ours

    def test_a_newcomer_replaces_the_longest_waiting_connection(self):
        for _ in range(5):
            self.connections.admit(self.one())
        self.assertEqual([b"", b""], [other.recv(1) for other in self.others[:2]])
        self.others[2].setblocking(False)
        self.assertRaises(BlockingIOError, self.others[2].recv, 1)

    def test_a_connection_being_answered_is_replaced_last(self):
        three = [self.one() for _ in range(3)]
        for each in three:
            self.connections.admit(each)
        for each in three[:2]:
            self.connections.begin_answer(each)
        for dropped in (2, 3):
            self.connections.admit(self.one())
            self.assertEqual(b"", self.others[dropped].recv(1))
        self.connections.begin_answer(three[2])  # of a dropped one: nothing
        self.assertEqual(
            [False, True],
            [self.connections.begin_stream(each) for each in (three[2], three[0])],
            "a dropped connection cannot become a stream",
        )

    def test_streams_stay_and_are_limited(self):
        first, second = self.one(), self.one()
        for each in (first, second):
            self.connections.admit(each)
            self.connections.begin_answer(each)
        self.assertEqual([True, False], [self.connections.begin_stream(each) for each in (first, second)])
        self.connections.leave(second)
        for _ in range(5):
            self.connections.admit(self.one())
        self.others[0].setblocking(False)
        self.assertRaises(BlockingIOError, self.others[0].recv, 1)
        self.connections.leave(first)
        self.assertFalse(self.connections.has_streams())


class ValidatedStatusTest(unittest.TestCase):
    def test_accepts_valid_statuses_whole(self):
        for status in (
            status_of(1, 4),
            of_gpus()["status"],
            {
                "totals": {"completed": {"samples": None}},
                "slabs": {"free": None},
                "input_wait_seconds": None,
                "new": [1],
            },
        ):
            self.assertEqual((status, []), validate_status(status))
        for name, document in DOCUMENTS.items():
            for each in (document, *(document.get("workers") or {}).values()):
                self.assertEqual((each["status"], []), validate_status(each["status"]), name)

    def test_drops_and_names_invalid_fields(self):
        for odd, rest in (
            ({"consumers": [1]}, {}),
            ({"consumers": {}}, {}),
            ({"consumers": [None]}, {}),
            ({"consumers": [{"pid": "1", "ready": True}]}, {"consumers": [{"ready": True}]}),
            ({"refused": 3}, {}),
            ({"releases": [1]}, {}),
            ({"releases": {"failed": "x", "stale": 1}}, {"releases": {"stale": 1}}),
            ({"pid": True}, {}),
            ({"state": 1}, {}),
            ({"now_ns": float("nan")}, {}),
            ({"now_ns": 10**400}, {}),
            ({"totals": {"completed": 1}}, {"totals": {}}),
            ({"workers": [1]}, {}),
            ({"stage_seconds": {"d2h": {"counts": [1, "x"], "sum": 1}}}, {"stage_seconds": {"d2h": {"sum": 1}}}),
            ({"stage_bounds_seconds": ["x"]}, {}),
        ):
            with self.subTest(odd):
                self.assertEqual(({**rest, "device": "cpu"}, list(odd)), validate_status({**odd, "device": "cpu"}))


def served_at(run_dir):
    """(host, port) of the server that the run's targets.json lists."""
    [listed] = json.loads((run_dir / "targets.json").read_text())
    return "127.0.0.1", int(listed["targets"][0].rpartition(":")[2])


class ExporterTest(unittest.TestCase):
    """The exporter of a run without programs, with a fake clock."""

    def setUp(self):
        self.now, self.notes, self.document = 0.0, [], {"status": {}}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir = RunDir(Places(build=folder.name), pathlib.Path(folder.name, "run"))
        self.selector = selectors.DefaultSelector()
        self.addCleanup(self.selector.close)
        self.timers = Timers(lambda: self.now)
        self.display = types.SimpleNamespace(note=self.notes.append)

    def exporter(self, http=("127.0.0.1", 0)):
        exporter = StatusExporter(self.run_dir, http, self.selector, self.timers, self.display, lambda: self.document)
        exporter.begin()
        self.addCleanup(exporter.close, lambda: self.document)
        return exporter

    def pass_by(self, seconds):
        self.now += seconds
        self.timers.run_due()

    def server_ends(self):
        ((key, _),) = self.selector.select(WATCHDOG_SECONDS)
        key.data()

    def test_a_server_that_never_starts_is_given_up_with_one_note(self):
        with mock.patch.object(sys, "executable", "/bin/false"):
            self.exporter()
            where = served_at(self.run_dir.path)
            for _ in range(19):
                self.server_ends()
                self.pass_by(5)
            self.assertTrue(self.run_dir.file("targets.json").exists())
            self.server_ends()
            self.pass_by(60)
        self.assertEqual([], list(self.selector.get_map()), "no other server is started")
        self.assertEqual(
            (3, 1),
            tuple(
                sum(words in each for each in self.notes)
                for words in ("starting it again", "The run continues without HTTP")
            ),
            self.notes,
        )
        self.assertFalse(self.run_dir.file("targets.json").exists())
        self.assertRaises(ConnectionRefusedError, socket.create_connection, where, WATCHDOG_SECONDS)

    def test_a_failed_start_is_retried_and_leaks_nothing(self):
        def taken():
            return len(os.listdir("/proc/self/fd"))

        for what in (
            mock.patch.object(os, "pidfd_open", side_effect=OSError(24, "Too many open files")),
            mock.patch.object(os, "pipe", side_effect=OSError(24, "Too many")),
            mock.patch.object(selectors.DefaultSelector, "register", side_effect=OSError(28, "No space")),
        ):
            with self.subTest(what):
                self.notes.clear()
                with what:
                    exporter = self.exporter()
                    before = taken()
                    self.pass_by(0.1)
                    self.assertEqual(before, taken())
                self.pass_by(5)
                self.assertEqual(1, len(self.selector.get_map()), "the server runs")
                self.assertEqual(2, sum("cannot start the server of --http" in each for each in self.notes), self.notes)
                exporter.close(lambda: self.document)

    def metrics(self):
        try:
            return self.run_dir.file("metrics.prom").read_text()
        except FileNotFoundError:
            return None

    def test_a_run_that_never_began_has_no_metrics_until_it_fails(self):
        exporter = self.exporter(http=None)
        self.pass_by(15)
        self.assertIn('\nofframp_run_state{state="starting"} 1\n', self.metrics())
        exporter.end(lambda: self.document)
        self.assertIsNone(self.metrics())
        exporter.close(lambda: {"status": {"state": "failed"}})
        self.assertIn('\nofframp_run_state{state="failed"} 1\n', self.metrics())

    def test_metrics_include_their_time(self):
        exporter, before = self.exporter(http=None), time.time()
        self.pass_by(15)
        reported = float(re.search(r"^offramp_launcher_timestamp_seconds (\S+)$", self.metrics(), re.M)[1])
        self.assertTrue(before - 1 < reported < time.time() + 1)
        exporter.close(lambda: 1 / 0)
        self.assertEqual(1, sum("metrics.prom is not written: ZeroDivisionError" in each for each in self.notes))

    def test_a_run_ended_by_an_exception_has_failed(self):
        class CutOff(ProcessLoop):
            def _begin(self):
                raise ZeroDivisionError

            def _alive(self):
                return []

            def _look(self):
                pass

            def _describe(self):
                return {"status": {"state": "running"}}

        overseer = CutOff(types.SimpleNamespace(run_dir=self.run_dir, http=None), self.display)
        self.assertRaises(ZeroDivisionError, overseer.run)
        self.assertIn('\nofframp_run_state{state="failed"} 1\n', self.metrics())
        overseer.close()
        self.assertIn('\nofframp_run_state{state="failed"} 1\n', self.metrics())


class WatchedRunTest(OnStage):
    """A run with puppets and its server."""

    def start(self, *flags, http="127.0.0.1:0", consumers=1):
        run = self.stage.start_run(consumers, "--http", http, *flags)
        self.run_dir = next((self.stage.folder / "build" / "runs").iterdir())
        return run

    def where(self):
        return served_at(self.run_dir)

    def get(self, path, method="GET", **headers):
        """(code, headers, text)"""
        connection = http.client.HTTPConnection(*self.where(), timeout=WATCHDOG_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def status(self):
        return json.loads(self.get("/status.json")[2])

    def metric(self, line):
        return f"\n{line}\n" in self.get("/metrics")[2]

    def test_serves_page_metrics_and_health(self):
        launcher, producer, consumers = self.start()
        producer.order(status=status_of(1, 4, now_ns=LATER_NS, total_samples=8, done_before=0))
        until(lambda: self.metric('offramp_samples_total{state="completed"} 28'))
        self.assertEqual([200, 200], [self.get(path)[0] for path in ("/livez", "/readyz")])
        code, headers, text = self.get("/")
        self.assertEqual((200, "text/html; charset=utf-8"), (code, headers["Content-Type"]))
        self.assertEqual((LAUNCH / "offramp_launch" / "watching" / "page.html").read_text(), text)
        self.assertEqual("nosniff", headers["X-Content-Type-Options"])
        self.assertIn("default-src 'none'; script-src 'sha256-", headers["Content-Security-Policy"])
        self.assertIsNone(headers["Access-Control-Allow-Origin"])
        self.assertEqual(
            ("text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            tuple(
                self.get("/metrics", Accept=accepts)[1]["Content-Type"]
                for accepts in ("*/*", "application/openmetrics-text;version=1.0.0,*/*;q=0.1")
            ),
        )
        self.assertEqual(28, self.status()["status"]["totals"]["completed"]["samples"])
        self.assertEqual((200, ""), (self.get("/metrics", "HEAD")[0], self.get("/metrics", "HEAD")[2]))
        self.assertEqual(
            [404, 404, 405, 405, 501],
            [
                self.get(*what)[0]
                for what in (("/page.html",), ("/../../../etc/passwd",), ("/", "POST"), ("/", "DELETE"), ("/", "BREW"))
            ],
        )
        self.assertEqual(
            [403, 200],
            [self.get("/", Host=host)[0] for host in ("evil.example:80", "localhost:80")],
            "only the names of this machine are served",
        )
        targets = json.loads((self.run_dir / "targets.json").read_text())
        self.assertEqual([{"targets": ["{}:{}".format(*self.where())]}], targets)
        producer.order(status=status_of(1, 4, state="ended"))
        output = self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("shows the run; /metrics is for Prometheus", output)
        self.assertFalse((self.run_dir / "targets.json").exists())
        self.assertIn(
            '\nofframp_run_state{state="ended"} 1\n',
            (self.run_dir / "metrics.prom").read_text(),
            "node_exporter reads the file",
        )

    def test_events_report_changes_and_the_end(self):
        launcher, producer, consumers = self.start()
        connection = http.client.HTTPConnection(*self.where(), timeout=WATCHDOG_SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", "/events")
        stream = connection.getresponse()
        self.assertEqual("text/event-stream", stream.headers["Content-Type"])
        producer.order(status={"state": "running", "done_samples": 3, "total_samples": 8})

        def next_event():
            while not (line := stream.readline()).startswith(b"data: "):
                self.assertIn(line.strip()[:1], (b"", b":"))
                self.assertNotEqual(b"", line, "the end of the stream")
            return json.loads(line[6:])

        while next_event()["status"].get("done_samples") != 3:
            pass
        self.stage.end(launcher, producer, consumers)
        while (event := next_event())["status"].get("exit") is None:
            pass
        self.assertEqual((True, "ended", 0), (event["finishing"], event["status"]["state"], event["status"]["exit"]))
        self.assertEqual(b"", stream.read().strip())

    def test_deaths_restarts_and_takeovers_are_counted_and_reported(self):
        launcher, producer, consumers = self.start("--producer-restarts", "1")
        producer.order(meet=True, status={"state": "running", "pid": producer.pid, "now_ns": 1})
        until(lambda: self.get("/livez")[0] == 503)
        self.assertIn("has not reported for", self.get("/livez")[2])
        kill(consumers[0])
        follower = self.stage.enter()
        kill(producer)
        until(lambda: self.get("/livez")[0] == 200)
        self.assertIn("another producer takes over", self.get("/livez")[2])
        successor = self.stage.enter()
        successor.order(status={"state": "running", "pid": successor.pid, "now_ns": LATER_NS})
        until(lambda: self.metric("offramp_producer_takeovers_total 1"))
        self.assertTrue(self.metric("offramp_consumer_restarts_total 1"))
        until(lambda: not self.status()["taking_over"])
        status = self.status()
        self.assertEqual(
            [("consumer-1", "was killed by SIGKILL"), ("producer", "was killed by SIGKILL")],
            [(death["who"], death["how"]) for death in status["deaths"]],
        )
        self.assertTrue(any("another producer takes over" in line for line in status["log"]), status["log"])
        kept = json.loads((self.run_dir / "logs/launcher.json").read_text())
        self.assertEqual((1, 1, status["deaths"]), (kept["restarts"], kept["takeovers"], kept["deaths"]))
        output = self.stage.end(launcher, successor, [follower])
        self.assertEqual(0, launcher.returncode, output)

    def test_an_invalid_status_does_not_end_the_run(self):
        launcher, producer, consumers = self.start("--producer-restarts", "1")
        odd = {
            "totals": [1],
            "consumers": [1],
            "refused": 3,
            "releases": [1],
            "stage_seconds": {"compute": 1},
            "stage_bounds_seconds": 2,
            "slabs": "FF",
            "pid": [1],
            "samples_per_second": "x",
            "total_samples": {},
            "done_samples": [1],
            "time": 7,
            "message": 1,
            "last_failure": 5,
            "skipped": "y",
        }
        producer.order(meet=True, status={"state": "running", "now_ns": LATER_NS, **odd})
        until(lambda: self.status()["status"] == {"state": "running", "now_ns": LATER_NS, "stage_seconds": {}})
        self.assertEqual([200, 200, 200], [self.get(path)[0] for path in ("/livez", "/metrics", "/")])
        kill(producer)
        successor = self.stage.enter()
        successor.order(
            status={"state": "running", **odd, "consumers": [{"pid": [1], "session": {}, "busy_seconds": [2]}]}
        )
        until(lambda: self.status()["status"].get("consumers") == [{}])
        self.assertEqual([200, 200], [self.get(path)[0] for path in ("/livez", "/metrics")])
        output = self.stage.end(launcher, successor, consumers)
        self.assertEqual((0, 1), (launcher.returncode, output.count("of status.json: unknown format")), output)
        self.assertRegex(output, "skipping totals, consumers, .* skipped of status.json: unknown format")
        self.assertIn("\nofframp_run_state", (self.run_dir / "metrics.prom").read_text())

    def test_a_failure_to_make_metrics_does_not_end_the_run(self):
        launcher, producer, consumers = self.start()
        producer.order(status={"state": "running", "workers": [{}]})
        until(lambda: self.get("/metrics")[0] == 500)
        self.assertEqual([200, 200], [self.get(path)[0] for path in ("/livez", "/status.json")])
        output = self.stage.end(launcher, producer, consumers)
        self.assertEqual((0, 1), (launcher.returncode, output.count("metrics.prom is not written")), output)

    def test_a_refused_run_puts_the_metrics_of_an_earlier_one_aside(self):
        folder = self.stage.folder / "run"
        launcher, producer, consumers = self.stage.start_run(1, "--run-dir", str(folder))
        producer.order(status={"state": "ended", "totals": {"completed": {"samples": 8}}}, summary={"exit": 0})
        self.assertEqual(0, self.stage.end(launcher, producer, consumers) and launcher.returncode)
        before = (folder / "metrics.prom").read_text()
        self.assertIn('\nofframp_samples_total{state="completed"} 8\n', before)
        launcher = self.stage.launch("run", "--consumers", "1", "--run-dir", str(folder), "--overwrite")
        producer, consumer = sorted(
            (self.stage.enter(), self.stage.enter()), key=lambda puppet: puppet.role, reverse=True
        )
        self.stage.end(launcher, producer, [consumer], code=64)
        self.assertEqual((64, before), (launcher.returncode, (folder / "before" / "metrics.prom").read_text()))
        self.assertIn('\nofframp_run_state{state="failed"} 1\n', (folder / "metrics.prom").read_text())

    def test_a_rare_status_is_not_stale_before_the_next(self):
        launcher, producer, consumers = self.start("--status-seconds", "3000")
        producer.order(status={"state": "running", "now_ns": time.monotonic_ns() - 1000 * 10**9})
        until(lambda: self.status()["status"].get("now_ns"))
        self.assertEqual((3000, 200), (self.status()["status_seconds"], self.get("/livez")[0]))
        producer.order(status={"state": "running", "now_ns": time.monotonic_ns() - 20000 * 10**9})
        until(lambda: self.get("/livez")[0] == 503)
        self.assertEqual(0, self.stage.end(launcher, producer, consumers) and launcher.returncode)

    def test_a_program_that_dies_before_its_first_status_adds_nothing(self):
        program = (
            f"PUPPET_PROGRAM=loop exec '{sys.executable}' -E -s '{HERE / 'puppet.py'}' producer --run-dir \"$OFFRAMP_RUN_DIR\" "
            '--lifeline-fd "${OFFRAMP_LIFELINE_FD%%:*}"'
        )
        launcher = self.stage.launch(
            *"run --consumers 1 --http 127.0.0.1:0 --processor checksum --producer-restarts 2 --producer".split(),
            shlex.join(["sh", "-c", program]),
        )

        def entered():
            pair = {puppet.role: puppet for puppet in (self.stage.enter(), self.stage.enter())}
            return pair["producer"], pair["consumer"]

        first, consumer = entered()
        self.run_dir = next((self.stage.folder / "build" / "runs").iterdir())

        def report_samples(program, samples):
            program.order(
                status={
                    "state": "running",
                    "pid": program.pid,
                    "run_id": self.run_dir.name,
                    "totals": {"completed": {"samples": samples}},
                }
            )

        def next_after(program):
            kill(program)
            consumer.order(exit=0)
            return entered()

        report_samples(first, 1000)
        until(lambda: self.metric('offramp_samples_total{state="completed"} 1000'))
        second, consumer = next_after(first)
        third, consumer = next_after(second)
        self.assertTrue(self.metric('offramp_samples_total{state="completed"} 1000'))
        report_samples(third, 7)
        until(lambda: self.metric('offramp_samples_total{state="completed"} 1007'))
        kill(third)
        consumer.order(exit=0)
        self.assertNotEqual(0, launcher.wait(WATCHDOG_SECONDS))
        self.assertIn('\nofframp_samples_total{state="completed"} 1007\n', (self.run_dir / "metrics.prom").read_text())

    def test_a_dead_server_is_replaced_and_the_run_goes_on(self):
        launcher, producer, consumers = self.start()
        for _ in range(2):
            until(lambda: self.get("/livez")[0] == 200)
            server = self.server_of(launcher)
            os.kill(server, signal.SIGKILL)
            wait_until_gone(server)
        self.assertEqual(200, self.get("/livez")[0], "a connection made meanwhile waits for the next server")
        output = self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode, output)
        self.assertEqual(2, output.count("the server of --http (pid"))

    def server_of(self, launcher):
        def found():
            children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
            return next(
                (
                    int(pid)
                    for pid in children
                    if b"offramp_launch/watching" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                ),
                None,
            )

        until(found)
        return found()

    def test_a_stopped_server_does_not_delay_the_end(self):
        launcher, producer, consumers = self.start()
        until(lambda: self.get("/livez")[0] == 200)
        server = self.server_of(launcher)
        os.kill(server, signal.SIGSTOP)
        output = self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode, output)
        self.assertTrue(wait_until_gone(server))

    def test_a_killed_launcher_ends_its_server(self):
        launcher, _, _ = self.start()
        until(lambda: self.get("/livez")[0] == 200)
        server = self.server_of(launcher)
        launcher.kill()
        self.assertTrue(wait_until_gone(server))

    def test_a_stopped_launcher_is_not_live(self):
        launcher, producer, consumers = self.start()
        until(lambda: self.get("/livez")[0] == 200)
        launcher.send_signal(signal.SIGSTOP)
        until(lambda: self.get("/livez")[0] == 503)
        self.assertEqual([503, 503, 503], [self.get(path)[0] for path in ("/readyz", "/metrics", "/status.json")])
        self.assertIn("does not answer", self.get("/status.json")[2])
        launcher.send_signal(signal.SIGCONT)
        until(lambda: self.get("/livez")[0] == 200)
        self.assertEqual(0, self.stage.end(launcher, producer, consumers) and launcher.returncode)

    def test_a_taken_port_is_reported_and_harmless(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            launcher, producer, consumers = self.start(http=f"127.0.0.1:{other.getsockname()[1]}")
            self.assertFalse((self.run_dir / "targets.json").exists())
            output = self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode, output)
        self.assertIn("cannot listen: Address already in use. The run continues without HTTP", output)

    def test_the_variable_is_not_passed_to_programs(self):
        self.stage.environment["OFFRAMP_HTTP"] = "127.0.0.1:0"
        launcher, producer, consumers = self.stage.start_run(1)
        self.run_dir = next((self.stage.folder / "build" / "runs").iterdir())
        self.assertEqual(200, self.get("/livez")[0])
        for puppet in (producer, *consumers):
            self.assertNotIn(b"OFFRAMP_HTTP", pathlib.Path(f"/proc/{puppet.pid}/environ").read_bytes())
        self.assertEqual(0, self.stage.call("dead-letters", "list", "--run-dir", str(self.run_dir))[0])
        output = self.stage.end(launcher, producer, consumers)
        self.assertEqual(0, launcher.returncode, output)

    def test_a_public_address_is_reported(self):
        launcher, producer, consumers = self.start(http="0.0.0.0:0")
        until(lambda: (self.run_dir / "targets.json").exists())
        self.assertEqual(200, self.get("/livez", Host="any.example")[0])
        output = self.stage.end(launcher, producer, consumers)
        self.assertIn("anyone who can connect may read", output)
