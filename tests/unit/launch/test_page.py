"""
The sentences and rows of a run, and the page of --http that draws them: it is self-contained. Its display, if a browser
is installed.
"""

import contextlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.browser import CHROMIUM, Browser  # noqa: E402

from offramp_launch.watching import diagnosis
from offramp_launch.watching.rates import Rates
from offramp_launch.watching.server import Server, Source
from offramp_launch.watching.view import view_of
from watched_documents import ALARMING, BELOW, DOCUMENTS, SENTENCES, FakeLauncher, changed

LAUNCH = pathlib.Path(__file__).resolve().parents[3] / "launch"
PAGE = pathlib.Path(diagnosis.__file__).with_name("page.html")
TEXT = PAGE.read_text()
SCRIPT = re.search(r"<script>(.*)</script>", TEXT, re.S)[1]
NODE = shutil.which("node")
WATCHDOG_SECONDS = 60
NOW = 1798633999  # a Wednesday, 12:33:19 UTC


class Elements(html.parser.HTMLParser):
    """Collects the open elements and every attribute."""

    def __init__(self):
        super().__init__()
        self.open, self.attributes, self.wrong = [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += [(tag, *each) for each in attributes]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))


def viewed(document):
    """The view of a document, as a client of the server receives it."""
    return json.loads(json.dumps(view_of(document, Rates(), 0.0)))


class PageTest(unittest.TestCase):
    def test_all_html_elements_are_closed(self):
        elements = Elements()
        elements.feed(TEXT)
        elements.close()
        self.assertEqual(([], []), (elements.open, elements.wrong))

    def test_frequent_changes_are_not_read_aloud(self):
        self.assertNotIn("<output", TEXT)
        self.assertEqual(
            {"aloud": "polite", "selection": "polite", "lines": "off"},
            dict(re.findall(r"id=\"(\w+)\"[^>]*aria-live=\"(\w+)\"", TEXT)),
        )

    def test_loads_nothing_from_elsewhere(self):
        elements = Elements()
        elements.feed(TEXT)
        leading = [
            value
            for _, name, value in elements.attributes
            if name in ("src", "href", "srcset", "action", "data", "poster")
        ]
        self.assertTrue(all(value.startswith("data:") for value in leading), leading)
        self.assertEqual(["http://www.w3.org/2000/svg"], re.findall(r"(?:https?:)?//[\w.]+\.\w{2,}[^\s\"']*", TEXT))
        self.assertNotRegex(TEXT, r"@import|url\(")
        self.assertEqual(
            [],
            [name for _, name, _ in elements.attributes if name.startswith("on")],
            "the page's policy forbids inline handlers",
        )

    def test_a_runs_messages_are_inserted_as_text(self):
        self.assertNotRegex(
            SCRIPT,
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|createContextualFragment|DOMParser|srcdoc",
        )

    def test_every_field_it_reads_is_in_some_status(self):
        documents = list(DOCUMENTS.values())
        views = [viewed(document) for document in documents]
        known = {
            "doc": {"view"}.union(*documents),
            "status": set().union(*(each["status"] for each in documents)),
            "view": set().union(*views),
            **{
                name: set().union(*(row for view in views for row in view[rows]))
                for name, rows in (
                    ("consumer", "consumers"),
                    ("producer", "producers"),
                    ("group", "slabs"),
                    ("team", "groups"),
                )
            },
            "headline": set(views[0]["sentence"]),
            "moment": set(views[0]["now"]),
        }
        read = set(re.findall(rf"(?<!\")\b({'|'.join(known)})\.([A-Za-z_]\w*)", SCRIPT))
        self.assertGreater(len(read), 40)
        self.assertEqual([], sorted(f"{whose}.{name}" for whose, name in read if name not in known[whose]))

    @unittest.skipUnless(NODE, "Node.js is not installed here: the page's script is not run")
    def test_the_pages_times_are_in_the_viewers_zone(self):
        finished = subprocess.run(
            [
                NODE,
                "-e",
                f"{SCRIPT}console.log(JSON.stringify([until(8000, {NOW}), until(90000, {NOW}), atClock('2026-11-26T04:32:55.637Z joined'), atClock('12 times')]))",
            ],
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            env={**os.environ, "TZ": "Asia/Tokyo"},
            check=False,
        )
        self.assertEqual(
            ["23:46", "Thu 22:33", "13:32:55 joined", "12 times"], json.loads(finished.stdout or finished.stderr)
        )

    def set_time_zone(self, zone):
        before = os.environ.get("TZ")

        def set_zone(zone):
            os.environ.pop("TZ", None)
            os.environ.update({"TZ": zone} if zone else {})
            time.tzset()

        set_zone(zone)
        self.addCleanup(set_zone, before)

    def test_each_document_has_its_sentence(self):
        self.assertEqual(SENTENCES, {name: diagnosis.sentence(document).text for name, document in DOCUMENTS.items()})

    def test_each_sentence_has_its_details(self):
        self.assertEqual(BELOW, {name: diagnosis.sentence(DOCUMENTS[name]).why for name in BELOW})
        self.assertIn("all slabs are in use", DOCUMENTS["starved"]["status"]["message"])
        for name in ("starved", "gpus"):  # the message adds nothing to the headline
            self.assertNotIn("in use", diagnosis.sentence(DOCUMENTS[name]).why)

    def test_a_silent_producer_is_an_alarm(self):
        sentence = diagnosis.sentence(DOCUMENTS["computing"], 12)
        self.assertEqual(
            ("The producer has not reported for 12 s", f"Last report: {SENTENCES['computing']}", True),
            (sentence.text, sentence.why, sentence.alarm),
        )
        for name, seconds in (("computing", 4), ("ended", 12), ("finishing", 12)):
            self.assertEqual(SENTENCES[name], diagnosis.sentence(DOCUMENTS[name], seconds).text)

    def test_predicts_the_end_of_a_run_in_progress(self):
        self.set_time_zone("UTC")
        self.assertEqual(
            ["7 s", "12:33", "Thu 13:33"],
            [
                diagnosis.in_words(viewed(DOCUMENTS["computing"])["left_seconds"]),
                diagnosis.until(7, NOW),
                diagnosis.until(90000, NOW),
            ],
        )
        for end in (
            changed("computing", status={"state": "draining"}),
            {**DOCUMENTS["computing"], "ending": True},
            {**DOCUMENTS["computing"], "finishing": True},
            DOCUMENTS["stopped"],
        ):
            self.assertEqual((None, True), (viewed(end)["left_seconds"], viewed(end)["is_ending"]))

    def test_each_slab_has_a_state_and_its_holder(self):
        (group,) = viewed(DOCUMENTS["trouble"])["slabs"]
        self.assertEqual(
            ("FFFFFFFFLLFFFFFFFFFFFFFF", {"8": 25884, "9": 25884}, True),
            (group["states"], group["holders"], group["is_known"]),
        )
        self.assertEqual(
            ["producer 1, ", "producer 2, "], [each["whose"] for each in viewed(DOCUMENTS["gpus"])["slabs"]]
        )
        (counted,) = viewed(DOCUMENTS["sparse"])["slabs"]
        self.assertEqual(("L" * 2 + "F" * 22, {}, False), (counted["states"], counted["holders"], counted["is_known"]))

    def test_each_consumer_and_producer_has_its_row(self):
        late = viewed(DOCUMENTS["trouble"])["consumers"][0]
        self.assertEqual(
            (2, 25884, "8, 9", "slabs 8, 9", "5.1 s", True),
            tuple(late[name] for name in ("number", "pid", "held", "holds", "age", "is_stalled")),
        )
        view = viewed(DOCUMENTS["lost_gpu"])
        self.assertEqual(
            [("GPU 0", "shard 4", False), ("GPU 1", "lost", True)],
            [(each["name"], each["state"], each["is_alarm"]) for each in view["producers"]],
        )
        self.assertEqual("1 of 2 at work", view["producers_in_words"])
        self.assertEqual(
            f"{LAUNCH}/offramp top /runs/of-gpus/s4", dict(map(tuple, view["producers"][0]["facts"]))["look closer"]
        )
        self.assertEqual(
            ["shard 4, silent for 8 s", "shard 5"],
            [each["state"] for each in viewed(DOCUMENTS["mute_gpu"])["producers"]],
        )

    def test_a_malformed_document_has_a_view(self):
        for malformed in (
            {**DOCUMENTS["computing"], "deaths": 7},
            changed("computing", status={"now_ns": "late"}),
            {"status": [1]},
        ):
            view = viewed(malformed)
            self.assertEqual(("malformed", True), (view["sentence"]["kind"], view["sentence"]["alarm"]))
            self.assertEqual(set(viewed(DOCUMENTS["computing"])), set(view))

    def test_every_time_is_in_the_viewers_time_zone(self):
        self.set_time_zone("Asia/Tokyo")
        self.assertEqual(
            "13:32:55 consumer 1 (pid 1738) joined",
            diagnosis.at_clock("2026-11-26T04:32:55.637Z consumer 1 (pid 1738) joined"),
        )
        self.assertEqual("a line without a time", diagnosis.at_clock("a line without a time"))

    def test_counts_of_one_are_singular(self):
        texts = [text for count, text, _ in diagnosis.faults(DOCUMENTS["one_of_each"]) if count == "1"]
        self.assertEqual(13, len(texts))
        self.assertEqual([], [text for text in texts if re.match(r"\w+s\b", text)])

    @unittest.skipUnless(NODE, "Node.js is not installed here: the page's script is not run")
    def test_a_history_has_one_clock(self):
        finished = subprocess.run(
            [
                NODE,
                "-e",
                SCRIPT
                + """
            const history = new History();
            for (const at of [null, 1e6, 2, 2, 3]) history.add({at});
            console.log(JSON.stringify(history.moments.map(moment => moment.at)));""",
            ],
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        self.assertEqual("[2,3]\n", finished.stdout, finished.stderr)

    def test_alarms_only_when_action_is_needed(self):
        self.assertEqual(ALARMING, {name for name, document in DOCUMENTS.items() if diagnosis.sentence(document).alarm})

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_a_browser_shows_it_under_its_content_policy(self):
        with Browser() as browser:
            for name, document in DOCUMENTS.items():
                with self.subTest(document=name), served(document) as url:
                    browser.show(url)
                    browser.until("document.getElementById('sentence').textContent != 'Waiting for the run'")
                    self.assertEqual(SENTENCES[name], browser.value("document.getElementById('sentence').textContent"))
                    link = (
                        "over; this is its final state"
                        if diagnosis.sentence(document).kind in ("ended", "abandoned", "failed")
                        else "live"
                    )
                    self.assertEqual(link, browser.value("document.getElementById('link').textContent"))
                    self.assertEqual(
                        sum(len(each["states"]) for each in viewed(document)["slabs"]),
                        browser.value("document.querySelectorAll('#grid g').length"),
                    )
                    self.assertEqual(
                        0,
                        browser.value("document.querySelectorAll('#faults b b, #sentence b').length"),
                        "a tag in a message of the run became an element",
                    )
            self.assertEqual([], browser.errors)

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_fits_on_a_phone(self):
        wider = "JSON.stringify([...document.querySelectorAll('html, main, .lane > span')].flatMap(each => each.scrollWidth > each.clientWidth ? [each.textContent.slice(0, 60)] : []))"
        shares = set()
        with Browser() as browser:
            browser.screen(375, 812)
            for name, document in DOCUMENTS.items():
                with self.subTest(document=name), served(document) as url:
                    browser.show(url)
                    browser.until("document.getElementById('sentence').textContent != 'Waiting for the run'")
                    self.assertEqual([], json.loads(browser.value(wider)))
                    shares.add(browser.value("document.getElementById('consumers-now').textContent"))
        self.assertIn("100 %", shares)

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_another_run_starts_from_an_empty_page(self):
        source = Source(pathlib.Path("/nowhere"))
        source.set_final(DOCUMENTS["gpus"])
        with Browser() as browser, served_from(source) as url:
            names = "[...document.querySelectorAll('#producers summary > :first-child')].map(name => name.textContent).join()"
            browser.show(url)
            browser.until(f"{names} == 'producer 1,producer 2'")
            source.set_final({**DOCUMENTS["lost_gpu"], "run_id": "another"})
            browser.until(f"{names} == 'GPU 0,GPU 1'")
            self.assertEqual([], browser.errors)

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_a_stale_status_is_not_live(self):
        with (
            Browser() as browser,
            tempfile.TemporaryDirectory() as folder,
            FakeLauncher(folder, DOCUMENTS["computing"]),
            served_from(Source(pathlib.Path(folder))) as url,
        ):
            browser.show(url)
            browser.until(
                f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES['computing'])} && document.getElementById('link').textContent == 'live'"
            )
            browser.until(
                "document.getElementById('sentence').textContent.startsWith('The producer has not reported for')"
            )
            self.assertEqual("not live", browser.value("document.getElementById('link').textContent"))

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_a_silent_launcher_is_not_a_lost_connection(self):
        for events in ("", "delete window.EventSource"):
            with (
                self.subTest(before=events),
                Browser() as browser,
                tempfile.TemporaryDirectory() as folder,
                FakeLauncher(folder, DOCUMENTS["computing"]) as launcher,
                served_from(Source(pathlib.Path(folder))) as url,
            ):
                browser.before_each_page(events)
                browser.show(url)
                browser.until(
                    f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES['computing'])}"
                )
                launcher.end()
                browser.until("document.getElementById('sentence').textContent == 'The launcher does not answer'")
                self.assertRegex(browser.value("document.getElementById('link').textContent"), "no answer for .+")
                self.assertRegex(
                    browser.value("document.getElementById('why').textContent"), f"Last seen: {SENTENCES['computing']}"
                )

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_reports_a_lost_connection(self):
        with Browser() as browser:
            for name, last in (
                ("starved", "No connection: the run has ended, or its host is unreachable"),
                ("ended", SENTENCES["ended"]),
            ):
                with self.subTest(document=name):
                    with served(DOCUMENTS[name]) as url:
                        browser.show(url)
                        browser.until(
                            f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES[name])}"
                        )
                    browser.until("document.getElementById('link').textContent != 'live'")
                    self.assertEqual(last, browser.value("document.getElementById('sentence').textContent"))


@contextlib.contextmanager
def served(document):
    """The address of a page that shows `document`. The server closes its connections at the end."""
    source = Source(pathlib.Path("/nowhere"))
    source.set_final(document)
    with served_from(source) as url:
        yield url


@contextlib.contextmanager
def served_from(source):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.dup(), source, TEXT, True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            source.is_over.set()
            server.shutdown()
            server.server_close()
