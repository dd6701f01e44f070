"""The page of --http: it is self-contained, reads a run's status and agrees with `top`. Its display, if a browser is installed."""

import contextlib
import dataclasses
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
from offramp_launch.watching.server import Server
from offramp_launch.watching.source import Source
from watched_documents import ALARMING, BELOW, DOCUMENTS, SENTENCES, FakeLauncher, changed

PAGE = pathlib.Path(diagnosis.__file__).with_name("page.html")
TEXT = PAGE.read_text()
SCRIPT = re.search(r"<script>(.*)</script>", TEXT, re.S)[1]
NODE = shutil.which("node")
WATCHDOG_SECONDS = 60
NOW = 1798633999        # a Wednesday, 12:33:19 UTC


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


def every(name, *tables):
    """The keys of all objects under `name` in `tables`, which are single objects or lists."""
    keys = set()
    for table in tables:
        found = table.get(name) or []
        for each in found if isinstance(found, list) else [found]:
            keys |= set(each)
    return keys


class PageTest(unittest.TestCase):
    def test_all_html_elements_are_closed(self):
        elements = Elements()
        elements.feed(TEXT)
        elements.close()
        self.assertEqual(([], []), (elements.open, elements.wrong))

    def test_frequent_changes_are_not_read_aloud(self):
        self.assertNotIn("<output", TEXT)
        self.assertEqual({"aloud": "polite", "selection": "polite", "lines": "off"}, dict(re.findall(r"id=\"(\w+)\"[^>]*aria-live=\"(\w+)\"", TEXT)))

    def test_loads_nothing_from_elsewhere(self):
        elements = Elements()
        elements.feed(TEXT)
        leading = [value for _, name, value in elements.attributes if name in ("src", "href", "srcset", "action", "data", "poster")]
        self.assertTrue(all(value.startswith("data:") for value in leading), leading)
        self.assertEqual(["http://www.w3.org/2000/svg"], re.findall(r"(?:https?:)?//[\w.]+\.\w{2,}[^\s\"']*", TEXT))
        self.assertNotRegex(TEXT, r"@import|url\(")
        self.assertEqual([], [name for _, name, _ in elements.attributes if name.startswith("on")], "the page's policy forbids inline handlers")

    def test_a_runs_messages_are_inserted_as_text(self):
        self.assertNotRegex(SCRIPT, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|createContextualFragment|DOMParser|srcdoc")

    def test_every_field_it_reads_is_in_some_status(self):
        documents = list(DOCUMENTS.values())
        workers = [worker for document in documents for worker in (document.get("workers") or {}).values()]
        statuses = [each["status"] for each in (*documents, *workers)]
        known = {"doc": every("it", *({"it": each} for each in (*documents, *workers))), "report": every("it", *({"it": each} for each in (*documents, *workers))),
                 "status": every("it", *({"it": each} for each in (*statuses, *(each["earlier"] for each in workers)))),
                 "consumer": every("consumers", *statuses), "worker": every("workers", *statuses), "death": every("deaths", *documents),
                 "slabs": every("slabs", *statuses), "releases": every("releases", *statuses), "stages": every("stage_seconds", *statuses)}
        read = set(re.findall(rf"(?<!\")\b({'|'.join(known)})\.([A-Za-z_]\w*)", SCRIPT))
        self.assertGreater(len(read), 40)
        self.assertEqual([], sorted(f"{whose}.{name}" for whose, name in read if name not in known[whose]))

    @unittest.skipUnless(NODE, "Node.js is not installed here: the page's script is not run")
    def test_matches_top(self):
        finished = subprocess.run([NODE, "-e", SCRIPT + """
            const documents = JSON.parse(require("fs").readFileSync(0, "utf8"));
            console.log(JSON.stringify(Object.fromEntries(Object.entries(documents).map(([name, doc]) => [name, {
              sentence: sentence(doc), silent: sentence(doc, 12), faults: faults(doc), consumers: howManyConsumers(doc), slabs: slabsOf(doc).map(slab => [slab.state, slab.pid ?? null]), copied: copySeconds(doc),
              log: (doc.log || []).map(atClock), until: [timeLeft(doc), 86399, 86400, 9e9].filter(left => left != null).map(left => until(left, NOW))}]))));""".replace("NOW", str(NOW))],
                                  input=json.dumps(DOCUMENTS), capture_output=True, text=True, timeout=WATCHDOG_SECONDS, env={**os.environ, "TZ": "UTC"}, check=False)
        self.assertEqual(0, finished.returncode, finished.stderr)
        self.set_time_zone("UTC")
        for name, page in json.loads(finished.stdout).items():
            with self.subTest(document=name):
                document = DOCUMENTS[name]
                self.assertEqual(dataclasses.asdict(diagnosis.sentence(document)), page["sentence"])
                self.assertEqual(dataclasses.asdict(diagnosis.sentence(document, 12)), page["silent"])
                self.assertEqual([[*fault] for fault in diagnosis.faults(document)],
                                 [[diagnosis.number(count) if isinstance(count, int) else count, text, mild] for count, text, mild in (each + [False] * (3 - len(each)) for each in page["faults"])])
                self.assertEqual([[slab.state, slab.pid] for slab in diagnosis.slabs_of(document)], page["slabs"])
                if "consumers_wanted" in document:     # the whole of several producers has no number
                    self.assertEqual(diagnosis.how_many_consumers(document), page["consumers"])
                self.assertEqual(diagnosis.copy_seconds(document), page["copied"])
                self.assertEqual([diagnosis.at_clock(line) for line in document["log"]], page["log"])
                self.assertEqual([diagnosis.until(left, NOW) for left in (diagnosis.time_left(document), 86399, 86400, 9e9) if left is not None], page["until"])

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
        for name in ("starved", "gpus"):    # the message adds nothing to the headline
            self.assertNotIn("in use", diagnosis.sentence(DOCUMENTS[name]).why)

    def test_a_silent_producer_is_an_alarm(self):
        sentence = diagnosis.sentence(DOCUMENTS["computing"], 12)
        self.assertEqual(("The producer has not reported for 12 s", f"Last report: {SENTENCES['computing']}", True), (sentence.text, sentence.why, sentence.alarm))
        for name, seconds in (("computing", 4), ("ended", 12), ("finishing", 12)):
            self.assertEqual(SENTENCES[name], diagnosis.sentence(DOCUMENTS[name], seconds).text)

    def test_predicts_the_end_of_a_run_in_progress(self):
        self.set_time_zone("UTC")
        goes_on, rests = DOCUMENTS["computing"], dict(total_samples=8412 + 284 * 90000, samples_per_second=284)
        self.assertEqual("7 s left, until 12:33", diagnosis.left_in_words(goes_on, NOW))
        self.assertEqual("25 h 00 min left, until Thu 13:33", diagnosis.left_in_words(changed("computing", status=rests), NOW))
        for end in (changed("computing", status={"state": "draining"}), {**goes_on, "ending": True}, {**goes_on, "finishing": True}, DOCUMENTS["stopped"]):
            self.assertEqual("", diagnosis.left_in_words(end, NOW))

    def test_every_time_is_in_the_viewers_time_zone(self):
        self.set_time_zone("Asia/Tokyo")
        self.assertEqual("13:32:55 consumer 1 (pid 1738) joined", diagnosis.at_clock("2026-11-26T04:32:55.637Z consumer 1 (pid 1738) joined"))
        self.assertEqual("a line without a time", diagnosis.at_clock("a line without a time"))

    def test_counts_of_one_are_singular(self):
        texts = [text for count, text, _ in diagnosis.faults(DOCUMENTS["one_of_each"]) if count == "1"]
        self.assertEqual(13, len(texts))
        self.assertEqual([], [text for text in texts if re.match(r"\w+s\b", text)])

    @unittest.skipUnless(NODE, "Node.js is not installed here: the page's script is not run")
    def test_a_history_has_one_clock(self):
        finished = subprocess.run([NODE, "-e", SCRIPT + """
            const history = new History(), moment = more => ({status: {state: "running", ...more}});
            for (const doc of [moment(), moment({now_ns: 2e9}), moment({now_ns: 3e9}), moment()]) history.add(doc);
            console.log(JSON.stringify(history.moments.map(moment => moment.at)));"""], capture_output=True, text=True, timeout=WATCHDOG_SECONDS, check=False)
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
                    link = "over; this is its final state" if diagnosis.sentence(document).kind in ("ended", "abandoned", "failed") else "live"
                    self.assertEqual(link, browser.value("document.getElementById('link').textContent"))
                    self.assertEqual(len(diagnosis.slabs_of(document)), browser.value("document.querySelectorAll('#grid g').length"))
                    self.assertEqual(0, browser.value("document.querySelectorAll('#faults b b, #sentence b').length"), "a tag in a message of the run became an element")
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
    def test_highlights_slabs_of_a_consumer_and_its_holder(self):
        with Browser() as browser, served(DOCUMENTS["trouble"]) as url:
            browser.show(url)
            browser.until("document.querySelectorAll('#rows tr').length")
            held = next(consumer for consumer in DOCUMENTS["trouble"]["status"]["consumers"] if len(consumer["held"]) > 1)
            row = f"[...document.querySelectorAll('#rows tr')].find(row => row.children[1].textContent == '{held['pid']}')"
            picked = "JSON.stringify([...document.querySelectorAll('#grid g')].flatMap((slab, place) => slab.classList.contains('picked') ? [place] : []))"
            browser.value(f"{row}.dispatchEvent(new PointerEvent('pointerenter'))")
            self.assertEqual(held["held"], json.loads(browser.value(picked)))
            browser.value(f"{row}.dispatchEvent(new PointerEvent('pointerleave'))")
            self.assertEqual([], json.loads(browser.value(picked)))
            browser.value(f"document.querySelectorAll('#grid g')[{held['held'][0]}].firstChild.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true}}))")
            self.assertTrue(browser.value(f"{row}.classList.contains('picked')"))
            for key in ("Escape", *["ArrowRight"] * (1 + held["held"][0])):     # the first arrow selects the first slab
                browser.value(f"document.getElementById('grid').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")
            self.assertTrue(browser.value(f"{row}.classList.contains('picked')"))
            self.assertIn(f"Slab {held['held'][0]}: with a consumer {held['session']}", browser.value("document.getElementById('selection').textContent"))

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
    def test_polls_without_an_event_stream(self):
        with Browser() as browser, served(DOCUMENTS["starved"]) as url:
            browser.before_each_page("delete window.EventSource")
            browser.show(url)
            browser.until(f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES['starved'])}")

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_a_stale_status_is_not_live(self):
        with Browser() as browser, served(DOCUMENTS["computing"]) as url:
            browser.before_each_page("const now = performance.now.bind(performance); window.ahead = 0; performance.now = () => now() + window.ahead")
            browser.show(url)
            browser.until(f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES['computing'])} && document.getElementById('link').textContent == 'live'")
            browser.value("window.ahead = 12e3")
            browser.until("document.getElementById('sentence').textContent.startsWith('The producer has not reported for 1')")
            self.assertEqual("not live", browser.value("document.getElementById('link').textContent"))

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_a_silent_launcher_is_not_a_lost_connection(self):
        for events in ("", "delete window.EventSource"):
            with self.subTest(before=events), Browser() as browser, tempfile.TemporaryDirectory() as folder, FakeLauncher(folder, DOCUMENTS["computing"]) as launcher, \
                    served_from(Source(pathlib.Path(folder))) as url:
                browser.before_each_page(events)
                browser.show(url)
                browser.until(f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES['computing'])}")
                launcher.end()
                browser.until("document.getElementById('sentence').textContent == 'The launcher does not answer'")
                self.assertRegex(browser.value("document.getElementById('link').textContent"), "no answer for .+")
                self.assertRegex(browser.value("document.getElementById('why').textContent"), f"Last seen: {SENTENCES['computing']}")

    @unittest.skipUnless(CHROMIUM, "chromium is not installed here: the page is not shown")
    def test_reports_a_lost_connection(self):
        with Browser() as browser:
            for name, last in (("starved", "No connection: the run has ended, or its host is unreachable"), ("ended", SENTENCES["ended"])):
                with self.subTest(document=name):
                    with served(DOCUMENTS[name]) as url:
                        browser.show(url)
                        browser.until(f"document.getElementById('sentence').textContent == {json.dumps(SENTENCES[name])}")
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
            source.end()
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    unittest.main()
