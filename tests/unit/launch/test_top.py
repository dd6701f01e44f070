"""`offramp top`: its display, its keys, and the restored terminal."""

import fcntl
import importlib.util
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, OnStage
from watched_documents import DOCUMENTS, SENTENCES, FakeLauncher
from offramp_launch.watching.rates import Rates
from offramp_launch.watching.top import Top

HAS_RICH = importlib.util.find_spec("rich")
SIZES = ((80, 24), (100, 30), (160, 50), (40, 12))
LEAVES_ALTERNATE_SCREEN, SHOWS_CURSOR = b"\x1b[?1049l", b"\x1b[?25h"


@unittest.skipUnless(HAS_RICH, "rich is not installed here")
class DrawingTest(unittest.TestCase):
    def lines(self, document, size, note=None):
        from offramp_launch.watching.drawing import draw

        seen = Rates()
        seen.add(document, 0.0)
        return draw(document, seen, *size, note)

    def test_every_document_fits_every_terminal(self):
        for name, document in {**DOCUMENTS, "nothing yet": {"run_id": "r", "status": {}}}.items():
            for size in SIZES:
                with self.subTest(document=name, size=size):
                    lines = self.lines(document, size)
                    self.assertLessEqual(len(lines), size[1])
                    self.assertLessEqual(max(line.cell_len for line in lines), size[0])
                    self.assertIn("q leave", lines[-1].plain + " q leave" * (size[0] < 60))

    def test_the_whole_sentence_is_on_top(self):
        for name, document in DOCUMENTS.items():
            for size in SIZES[:3]:
                with self.subTest(document=name, size=size):
                    self.assertIn(SENTENCES[name], " ".join(line.plain for line in self.lines(document, size)[1:5]))

    def test_shows_the_slabs_of_each_consumer(self):
        text = "\n".join(line.plain for line in self.lines(DOCUMENTS["trouble"], (80, 24)))
        consumer = next(each for each in DOCUMENTS["trouble"]["status"]["consumers"] if each["stalled"])
        self.assertRegex(
            text, rf"{consumer['session']} +{consumer['pid']} .*{', '.join(map(str, consumer['held']))}  stalled"
        )
        self.assertIn("22 free", text)

    def test_shows_all_slabs_or_their_shares(self):
        document = json.loads(json.dumps(DOCUMENTS["starved"]))
        document["status"]["slab_states"] = "L" * 4096
        for slabs, size, whole in ((16, (80, 24), 16), (4096, (80, 24), 80)):
            document["status"]["slab_states"] = "L" * slabs
            rows = [
                line.plain
                for line in self.lines(document, size)
                if set(line.plain.strip()) <= {"█", " "} and "█" in line.plain
            ]
            self.assertEqual(whole, sum(row.count("█") for row in rows))

    def test_messages_of_a_run_are_escaped(self):
        document = json.loads(json.dumps(DOCUMENTS["starved"]))
        document["log"].append("\x1b[2Jgone [bold]\x07")
        document["status"].update(shortage="", message="\x1b[31mred")
        text = "\n".join(line.plain for line in self.lines(document, (160, 50), note=("\x1b]0;title", True)))
        self.assertNotIn("\x1b", text)
        self.assertIn("\\x1b[2Jgone [bold]\\x07", text)


class RatesTest(unittest.TestCase):
    def document(self, at, busy, samples, copied):
        return {
            "status": {
                "state": "running",
                "now_ns": int(at * 1e9),
                "samples_per_second": 5.0,
                "stage_seconds": {"d2h": {"sum": copied}},
                "consumers": [{"pid": 7, "busy_seconds": busy, "samples": samples}],
            }
        }

    def test_shares_and_rates_cover_the_last_ten_seconds(self):
        seen = Rates()
        for second in range(30):
            busy = 0 if second < 15 else (second - 15) / 2
            seen.add(self.document(100 + second, busy, 3 * second, second / 4), 0)
        self.assertAlmostEqual(0.5, seen.growth(lambda moment: moment.busy.get(7)))
        self.assertAlmostEqual(3.0, seen.growth(lambda moment: moment.done.get(7)))
        self.assertAlmostEqual(0.25, seen.moments[-1].copy)

    def test_silence_is_measured_by_the_viewers_clock(self):
        seen = Rates()
        for now, word, silent in (
            (50, "12:00:01", 0),
            (51, "12:00:02", 0),
            (58, "12:00:02", 7),
            (59, "12:00:09", 0),
            (70, None, 0),
        ):
            seen.add({"status": {"state": "running", "time": word}}, now)
            self.assertEqual(silent, seen.silent)

    def test_all_moments_use_one_clock(self):
        seen = Rates()
        for document in (
            {"status": {"state": "starting"}},
            self.document(2, 0, 0, 0),
            self.document(3, 0, 0, 0),
            {"status": {"state": "failed"}},
        ):
            seen.add(document, 1e6)
        self.assertEqual([2, 3], [moment.at for moment in seen.moments])

    def test_a_late_consumer_is_measured_from_its_start(self):
        seen = Rates()
        seen.add({"status": {"state": "running", "now_ns": 1_000_000_000}}, 0)
        seen.add(self.document(9, 0.0, 0, 0), 0)
        seen.add(self.document(10, 1.0, 8, 0), 0)
        self.assertAlmostEqual(1.0, seen.growth(lambda moment: moment.busy.get(7)))

    def test_an_unchanged_status_is_counted_once(self):
        seen = Rates()
        for _ in range(3):
            seen.add(self.document(5, 0, 0, 0), 0)
        self.assertEqual(1, len(seen.moments))

    def test_a_line_has_one_value_per_column(self):
        seen = Rates()
        for second in range(0, 31, 3):
            seen.add(self.document(100 + second, 0, 0, 0), 0)
        line = seen.line("rate", 60, 60)
        self.assertEqual([None] * 29 + [5.0] * 31, line)


class Session:
    """A command on its own terminal. Owns: both ends of the terminal and the process."""

    def __init__(self, *command, environment, size=(24, 80)):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.output = b""
        self.process = subprocess.Popen(
            command,
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**environment, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def type(self, keys):
        os.write(self.ours, keys)

    def until(self, holds):
        """Reads the output until `holds` is true of all of it."""
        end = time.monotonic() + WATCHDOG_SECONDS
        while not holds(self.output):
            assert time.monotonic() < end, f"never drawn; the last: {self.output[-2000:]!r}"
            if select.select([self.ours], [], [], 0.05)[0]:
                self.output += os.read(self.ours, 65536)

    def until_drawn(self, pattern):
        self.until(lambda output: re.search(pattern, output))

    def ended(self):
        """Waits for the end, reads the remaining output and returns the exit code."""
        self.until(lambda _: self.process.poll() is not None)
        while select.select([self.ours], [], [], 0)[0]:
            self.output += os.read(self.ours, 65536)
        return self.process.returncode

    def ignores(self, number):
        """Reads the ignored signals, because the kernel never stops an orphaned process group."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return bool(int(re.search(r"SigIgn:\t(\w+)", status)[1], 16) & 1 << number - 1)

    def is_restored(self):
        after = termios.tcgetattr(self.theirs)
        return (
            after == self.before
            and self.output.rfind(LEAVES_ALTERNATE_SCREEN) > self.output.rfind(b"\x1b[?1049h")
            and self.output.rfind(SHOWS_CURSOR) > self.output.rfind(b"\x1b[?25l")
        )


class FakeTerminal:
    """A fake terminal of 80 by 24 that types the texts in `typed`. `drawn`: the displayed lines."""

    def __init__(self, *typed):
        from rich.console import Console

        self.console, self.drawn, self._typed = Console(width=80, height=24), [], [*typed]

    def show(self, lines):
        self.drawn.append(lines)

    def keys(self, _):
        return self._typed.pop(0)()


@unittest.skipUnless(HAS_RICH, "rich is not installed here")
class WatchingTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_keys_wait_for_the_first_document(self):
        with FakeLauncher(self.folder, {}) as launcher:

            def answers():
                launcher.document = {**DOCUMENTS["starved"], "before": 4, "consumers": 5}
                return "+"

            Top(self.folder).watch(FakeTerminal(lambda: "+-", answers, lambda: "+", lambda: "q"))
            self.assertEqual(
                [{"do": "scale", "consumers": 5}], [each for each in launcher.asked if each["do"] == "scale"]
            )

    def test_a_number_ends_autoscaling_and_f_restores_it(self):
        following = {"bounds": "1..4", "follows": True, "changes": 2, "mean_consumers": 1.5}
        more = "; autoscaling is off (scale 1..4 turns it on)"
        follows, follows_not = (
            {
                **DOCUMENTS["starved"],
                "before": 1,
                "consumers": 2,
                "more": words,
                "following": {**following, "follows": not words},
            }
            for words in ("", more)
        )
        with FakeLauncher(self.folder, follows) as launcher:

            def ends(key):
                launcher.document = follows_not
                return key

            def begins(key):
                launcher.document = follows
                return key

            screen = FakeTerminal(lambda: "", lambda: ends("+"), lambda: begins("f"), lambda: "q")
            Top(self.folder).watch(screen)
        self.assertEqual(
            [{"do": "scale", "consumers": follows["consumers_wanted"] + 1}, {"do": "scale", "consumers": "1..4"}],
            [each for each in launcher.asked if each["do"] == "scale"],
        )
        drawn = ["\n".join(line.plain for line in lines) for lines in screen.drawn]
        self.assertIn("autoscaled within 1..4", drawn[0])
        self.assertIn("1 -> 2 consumers; autoscaling is off: press f to turn it on", drawn[2])
        self.assertIn("autoscaling off", drawn[2])
        self.assertIn("autoscaling on, within 1..4", drawn[3])

    def test_merging_results_is_not_an_alarm(self):
        with FakeLauncher(self.folder, DOCUMENTS["starved"]) as launcher:

            def ends():
                launcher.mute()
                (self.folder / "status.json").write_text(json.dumps(DOCUMENTS["finishing"]["status"]))
                return ""

            def is_over():
                launcher.end()
                (self.folder / "status.json").write_text(json.dumps(DOCUMENTS["ended"]["status"]))
                return ""

            screen, top = FakeTerminal(ends, is_over), Top(self.folder)
            top.watch(screen)
            texts = [[line.plain for line in lines] for lines in screen.drawn]
            self.assertIn("Finishing: merging the results", texts[1])
            self.assertRegex(texts[1][-1], "^finishing: ")
            self.assertNotIn("red", "".join(str(span.style) for line in screen.drawn[1] for span in line.spans))
            self.assertIn(SENTENCES["ended"], top.final_messages())

    def test_a_stopped_launcher_is_reported(self):
        with FakeLauncher(self.folder, DOCUMENTS["starved"]) as launcher:
            screen = FakeTerminal(lambda: launcher.mute() or "", lambda: "q")
            Top(self.folder).watch(screen)
            self.assertIn("red", "".join(str(span.style) for span in screen.drawn[1][-1].spans))
            self.assertIn(SENTENCES["starved"], [line.plain for line in screen.drawn[1]])


class TerminalTest(OnStage):
    def run_begun(self, consumers=2):
        run = self.stage.start_run(consumers)
        self.run_dir = next((self.stage.folder / "build" / "runs").iterdir())
        return run

    def top(self, *arguments):
        """Runs `top` in the Python of this test, which has rich. The launch script would choose another one."""
        return Session(
            sys.executable,
            str(OFFRAMP.parent / "offramp_launch"),
            "top",
            *arguments,
            environment=self.stage.environment,
        )

    @unittest.skipUnless(HAS_RICH, "rich is not installed here")
    def test_keys_change_the_run_and_q_leaves(self):
        launcher, *_ = self.run_begun()
        with self.top(str(self.run_dir)) as session:
            session.until_drawn(rb"2 alive, 2 wanted")
            session.type(b"+")
            self.stage.enter()
            session.until_drawn(rb"2 -> 3 consumers")
            session.type(b"r")
            session.until_drawn(rb"reload: consumers are replaced")
            self.stage.enter()
            session.type(b"\x1a\x1c")  # Ctrl-Z, Ctrl-\: no effect
            self.assertTrue(session.ignores(signal.SIGTSTP))
            session.type(b"q")
            self.assertEqual(0, session.ended(), session.output)
            self.assertTrue(session.is_restored())
        self.assertIsNone(launcher.poll())  # the cleanup kills it during its reload, with its programs

    @unittest.skipUnless(HAS_RICH, "rich is not installed here")
    def test_any_end_restores_the_terminal(self):
        launcher, producer, consumers = self.run_begun(1)
        for how, code in (("a key", 130), ("SIGTERM", 130), ("SIGHUP", 130), ("SIGQUIT", 130)):
            with self.subTest(how=how), self.top() as session:
                session.until_drawn(rb"1 alive, 1 wanted")
                if how == "a key":
                    session.type(b"\x03")
                else:
                    session.process.send_signal(getattr(signal, how))
                self.assertEqual(code, session.ended(), session.output)
                self.assertTrue(session.is_restored())
                self.assertNotIn(b"Traceback", session.output)
        self.stage.end(launcher, producer, consumers)

    @unittest.skipUnless(HAS_RICH, "rich is not installed here")
    def test_draws_on_a_terminal_without_utf_8(self):
        launcher, producer, consumers = self.run_begun(1)
        self.stage.environment["PYTHONIOENCODING"] = "ascii"
        with self.top() as session:
            session.until_drawn(rb"1 alive, 1 wanted")
            session.until_drawn(rb"[-]{20}")  # an empty bar
            session.type(b"q")
            self.assertEqual(0, session.ended(), session.output)
            self.assertTrue(session.is_restored())
            session.output.decode("ascii")
        self.stage.end(launcher, producer, consumers)

    @unittest.skipUnless(HAS_RICH, "rich is not installed here")
    def test_ends_with_the_run_and_reports_its_result(self):
        launcher, producer, consumers = self.run_begun(1)
        with self.top() as session:
            session.until_drawn(rb"1 alive, 1 wanted")
            self.stage.end(
                launcher, producer, consumers, status={"state": "ended", "done_samples": 8, "total_samples": 8}
            )
            self.assertEqual(0, session.ended(), session.output)
            self.assertTrue(session.is_restored())
            self.assertIn(b"Ended: 8 of 8 samples", session.output[session.output.rfind(LEAVES_ALTERNATE_SCREEN) :])

    @unittest.skipUnless(HAS_RICH, "rich is not installed here")
    def test_reports_a_refusal_and_continues(self):
        launcher, producer, consumers = self.run_begun(1)
        with self.top() as session:
            session.until_drawn(rb"1 alive, 1 wanted")
            session.type(b"-")
            session.until_drawn(rb"scale 0 is out of bounds")
            session.type(b"q")
            self.assertEqual(0, session.ended())
        self.stage.end(launcher, producer, consumers)

    def test_without_a_terminal_it_suggests_status(self):
        launcher, producer, consumers = self.run_begun(1)
        code, output = self.stage.call("top")
        self.assertEqual(64, code)
        self.assertIn("offramp status", output)
        self.stage.end(launcher, producer, consumers)

    def test_without_rich_it_reports_what_to_install(self):
        launcher, producer, consumers = self.run_begun(1)
        script = (
            "import importlib.util, sys; sys.path.insert(0, sys.argv[1]); from offramp_launch import commands; find = importlib.util.find_spec; "
            "importlib.util.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest); sys.exit(commands.main(['top']))"
        )
        with Session(sys.executable, "-c", script, str(OFFRAMP.parent), environment=self.stage.environment) as session:
            self.assertEqual(71, session.ended(), session.output)
            self.assertIn(b"pip install rich", session.output)
            self.assertEqual(session.before, termios.tcgetattr(session.theirs))
        self.stage.end(launcher, producer, consumers)

    def test_a_missing_run(self):
        code, output = self.stage.call("top", "/nowhere")
        self.assertEqual(69, code, output)
        self.assertEqual(64, self.stage.call("top", "--wide")[0])
