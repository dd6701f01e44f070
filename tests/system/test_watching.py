"""
Real runs watched by HTTP: Prometheus scrapes a run through its producer's death to its end, hostile clients, and the
sums over several producers of one run.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.parse

from tests.support.launched_gpus import GpusWorld
from tests.support.launched_run import LaunchedRun
from tests.support.waiting import put_away, wait_for

COPY = (
    *"--device cpu --model copy --copy-bytes 1MiB --batch 4 --slabs 4 --status-seconds 0.05".split(),
    *"--processor checksum".split(),
)
WATCHED = ("--http", "127.0.0.1:0")
MIB = 1 << 20
SECONDS = 60  # per answer
MOST_MEMORY = 160 * MIB  # of the server, for any number of clients
RULES = pathlib.Path(__file__).resolve().parents[2] / "launch" / "watching" / "offramp-alerts.yml"


def where(run_dir):
    """(host, port) of the run's server; None without one."""
    try:
        [listed] = json.loads((run_dir / "targets.json").read_text())
        host, _, port = listed["targets"][0].rpartition(":")
        return host, int(port)
    except (OSError, ValueError):
        return None


def get(at, path):
    """(code, text)"""
    connection = http.client.HTTPConnection(*at, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Prometheus:
    """
    A real Prometheus that scrapes a run every 2 s by its targets.json. Owns: the process and its folder. On a busy
    machine a scrape may time out, so callers wait for a later one.
    """

    def __init__(self, run_dir):
        self._folder = tempfile.mkdtemp(prefix="offramp-prometheus-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._at = free.getsockname()
        pathlib.Path(self._folder, "prometheus.yml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
                    "rule_files": [str(RULES)],
                    "scrape_configs": [
                        {
                            "job_name": "offramp",
                            "file_sd_configs": [{"files": [str(run_dir / "targets.json")], "refresh_interval": "1s"}],
                        }
                    ],
                }
            )
        )
        self._log = open(pathlib.Path(self._folder, "log"), "wb")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={self._folder}/prometheus.yml",
                f"--storage.tsdb.path={self._folder}/data",
                "--web.listen-address={}:{}".format(*self._at),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def close(self):
        put_away(self._process)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def asked(self, path, **parameters):
        """`data` of the answer; empty before Prometheus serves."""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            code, text = get(self._at, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
            return json.loads(text).get("data") or {} if code == 200 else {}
        return {}

    def values(self, query, **parameters):
        return [float(each["value"][1]) for each in self.asked("query", query=query, **parameters).get("result", [])]

    def moments(self, selector):
        """[(time, value)] of the only series, for the last hour."""
        found = self.asked("query", query=f"{selector}[1h]").get("result") or [{"values": []}]
        return [(float(time), float(value)) for time, value in found[0]["values"]]

    def rules(self):
        return [rule for group in self.asked("rules").get("groups", []) for rule in group["rules"]]


@unittest.skipUnless(
    shutil.which("prometheus"), "no prometheus (apt install prometheus, or its archive's folder in PATH)"
)
class ByPrometheus(unittest.TestCase):
    BYTES = 'offramp_bytes_total{state="completed"}'

    def test_a_run_a_take_over_and_the_end(self):
        batches = 400
        with (
            LaunchedRun(
                *COPY, *WATCHED, "--batches", str(batches), "--consumers", "2", "--producer-restarts", "1"
            ) as run,
            run.gate() as gate,
        ):
            run.start()
            gate.entered_by(2)
            prometheus = Prometheus(run.run_dir)
            self.addCleanup(prometheus.close)
            run.until(lambda: prometheus.values(self.BYTES) == [0.0], "the first scrape")
            self.let_to(100, 0, run, gate, prometheus)
            first = run.status()["pid"]
            os.kill(first, signal.SIGKILL)
            run.until(lambda: prometheus.values("offramp_producer_takeovers_total") == [1.0], "the take-over")
            run.until(
                lambda: prometheus.values('ALERTS{alertname="OfframpProducerTakenOver",alertstate="firing"}'),
                "the alert",
            )
            run.until(lambda: run.status().get("pid") not in (first, None), "the next producer at work")
            for so_far, slabs in zip((100, 160, 220, 280, 340), (160, 220, 280, 340, 396)):
                self.let_to(slabs, so_far, run, gate, prometheus)
            gate.open()
            self.assertEqual(run.wait(), 0, run.logs())
            wait_for(lambda: prometheus.asked("targets").get("activeTargets") == [], "the run's target removed")
            whole = run.summary()["slabs"]["released"]["bytes"]
            moments = wait_for(lambda: prometheus.moments(self.BYTES), "scraped values")
            (increase,) = wait_for(
                lambda: prometheus.values(f"increase({self.BYTES}[1h])", time=moments[-1][0]), "the increase"
            )
            print(
                f"\nincrease() {increase:.0f} bytes in {len(moments)} scrapes, summary.json {whole}: {increase / whole:.4f}"
            )
            self.assertEqual(whole, batches * MIB)
            self.assertAlmostEqual(increase / whole, 1, delta=0.02)
            self.assertEqual(
                [value for _, value in moments],
                sorted(value for _, value in moments),
                "the next producer continues the count of the first",
            )
            self.assertEqual(
                [1.0],
                wait_for(
                    lambda: prometheus.values("max_over_time(offramp_producer_takeovers_total[1h])"),
                    "the number of takeovers",
                ),
            )
            rules = wait_for(
                lambda: (found := prometheus.rules()) and all(rule["health"] != "unknown" for rule in found) and found,
                "the rules, evaluated",
            )
            self.assertEqual((6, {"ok"}), (len(rules), {rule["health"] for rule in rules}))
            self.check_lint((run.run_dir / "metrics.prom").read_text())

    def let_to(self, slabs, so_far, run, gate, prometheus):
        """Lets `slabs` slabs through, and waits until a scrape shows all but the two that consumers hold."""
        gate.let(slabs - so_far)
        run.until(
            lambda: any(value >= (slabs - 2) * MIB for value in prometheus.values(self.BYTES)),
            f"{slabs} slabs in a scrape",
        )

    def test_alerts_are_of_runs_whose_launcher_lives(self):
        """Samples every minute, from time 0 on. A worker has no consumers for ten minutes, and nothing is completed."""
        labels = 'job="offramp",instance="host"'

        def alerts_where(timestamps):
            return {
                "interval": "1m",
                "input_series": [
                    {"series": f'offramp_run_state{{{labels},state="running"}}', "values": "1x20"},
                    {"series": f"offramp_launcher_timestamp_seconds{{{labels}}}", "values": timestamps},
                    {"series": f'offramp_consumers{{{labels},gpu="cuda:0"}}', "values": "0x20"},
                    {"series": f'offramp_consumers{{{labels},gpu="cuda:1"}}', "values": "2x20"},
                    {
                        "series": f'offramp_wait_seconds_total{{{labels},gpu="cuda:0",stage="slab"}}',
                        "values": "0+30x20",
                    },
                    {"series": f"offramp_last_completion_timestamp_seconds{{{labels}}}", "values": "0x20"},
                ],
            }

        def alerts_at(moment, name, *found):
            return {"eval_time": moment, "alertname": name, "exp_alerts": list(found)}

        of_one = {
            "exp_labels": {"job": "offramp", "instance": "host", "gpu": "cuda:0", "severity": "critical"},
            "exp_annotations": {
                "summary": "host cuda:0 runs without consumers",
                "description": "See their logs in the run directory.",
            },
        }
        names = ("OfframpNoConsumers", "OfframpWaitsForConsumers", "OfframpNothingCompleted")
        for timestamps, expected in (
            ("0+60x20", [alerts_at("10m", names[0], of_one)]),
            ("0+60x3 180x20", [alerts_at("12m", name) for name in names]),
        ):
            with self.subTest(timestamps), tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                json.dump(
                    {
                        "rule_files": [str(RULES)],
                        "evaluation_interval": "1m",
                        "tests": [{**alerts_where(timestamps), "alert_rule_test": expected}],
                    },
                    file,
                )
                file.flush()
                done = subprocess.run(
                    ["promtool", "test", "rules", file.name],
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def check_lint(self, text):
        for arguments, given in ((("check", "metrics"), text), (("check", "rules", str(RULES)), "")):
            done = subprocess.run(
                ["promtool", *arguments], input=given, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)


class HostileClients(unittest.TestCase):
    """Hostile clients stop neither the run nor the server for others."""

    def setUp(self):
        self.clients = []
        self.addCleanup(lambda: [client.close() for client in self.clients])

    def client(self, words=b""):
        client = socket.create_connection(self.at, timeout=SECONDS)
        self.clients.append(client)
        with contextlib.suppress(OSError):
            client.sendall(words)
        return client

    def server_of(self, launcher):
        children = [
            pid
            for path in pathlib.Path(f"/proc/{launcher}/task").glob("*/children")
            for pid in path.read_text().split()
        ]
        return next(
            int(pid)
            for pid in children
            if b"offramp_launch/watching" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        )

    def test_the_run_and_others_do_not_notice(self):
        with LaunchedRun(*COPY, *WATCHED, "--batches", "1000000", "--consumers", "2") as run:
            run.start()
            self.at = run.until(lambda: where(run.run_dir), "the server's place")
            run.until(lambda: get(self.at, "/readyz")[0] == 200, "at work")
            server = self.server_of(json.loads(get(self.at, "/status.json")[1])["launcher_pid"])
            launcher_has = len(os.listdir(f"/proc/{run.launcher.pid}/fd"))
            for what, attack in (
                ("silent", lambda: [self.client() for _ in range(300)]),
                ("a thousand", lambda: [self.client(b"GET /st") for _ in range(700)]),
                ("garbage", lambda: [self.client(bytes(range(256)) * 8 + b"\r\n\r\n") for _ in range(50)]),
                ("a long line", lambda: [self.client(b"GET /" + b"x" * MIB + b" HTTP/1.1\r\n\r\n") for _ in range(5)]),
                ("a long head", lambda: [self.client(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200_000) for _ in range(5)]),
                (
                    "never reading",
                    lambda: [self.client(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(100)],
                ),
                (
                    "never reading many answers",
                    lambda: [
                        self.client(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500) for _ in range(50)
                    ],
                ),
            ):
                with self.subTest(what):
                    attack()
                    done = run.status()["done_samples"]
                    self.assertEqual((200, "the producer reports\n"), get(self.at, "/livez"))
                    self.assertIn('offramp_samples_total{state="completed"}', get(self.at, "/metrics")[1])
                    run.until(lambda: run.status()["done_samples"] > done, "progress of the run")
                    self.assertLess(
                        int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{server}/status").read_text())[1])
                        * 1024,
                        MOST_MEMORY,
                    )
            self.assertLess(
                len(os.listdir(f"/proc/{run.launcher.pid}/fd")),
                launcher_has + 4,
                "the launcher holds none of the connections",
            )
            self.assertIsNone(run.launcher.poll())
            self.assertEqual(
                server,
                self.server_of(json.loads(get(self.at, "/status.json")[1])["launcher_pid"]),
                "the same server process",
            )
            run.launcher.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(), 130, run.logs())


class Gpus(unittest.TestCase):
    def test_the_sum_over_workers_is_the_whole_through_all_shards(self):
        with (
            GpusWorld(*COPY, "--consumers", "2", "--batches", "60", *WATCHED, workers=2, shards=5) as world,
            world.gate() as gate,
        ):
            world.start()
            at = world.until(lambda: where(world.run_dir), "the server's place")
            world.until(lambda: get(at, "/readyz")[0] == 200, "at work")
            self.assertIn('offramp_consumers{gpu="', get(at, "/metrics")[1])
            gate.open()
            self.assertEqual(world.wait(), 0, world.logs())
            text = (world.run_dir / "metrics.prom").read_text()
            released = world.summary()["samples"]["released"]
            self.assertEqual(released, 240)
            values = re.findall(r'^offramp_samples_total\{gpu="([^"]+)",state="completed"\} (\d+)$', text, re.M)
            self.assertEqual(
                (2, released), (len({gpu for gpu, _ in values}), sum(int(value) for _, value in values)), text
            )
            self.assertIn("\nofframp_samples_expected 240\n", text)
            self.assertIn('\nofframp_run_state{state="ended"} 1\n', text)
