"""The live display on terminals of several widths."""

import importlib.util
import io
import re
import unittest

from offramp_launch import progress

STATUS = {
    "state": "running",
    "done_samples": 40,
    "total_samples": 300,
    "samples_per_second": 26.1,
    "gpu_utilization": 0.48,
    "consumer_utilization": 0.02,
    "limiting_stage": "copy to host",
}
MESSAGE = "all slabs are held by consumers: pid 12 for 3.1 s, pid 14 for 2.9 s [/x] and others that are named here"


@unittest.skipUnless(importlib.util.find_spec("rich"), "rich is not installed here")
class LiveDisplayTest(unittest.TestCase):
    def shown(self, width, status):
        """The lines on the screen after `status`."""
        from rich.console import Console

        screen = io.StringIO()
        # independent of the terminal of the test
        console = Console(
            file=screen,
            force_terminal=True,
            width=width,
            height=50,
            color_system=None,
            legacy_windows=False,
            _environ={"TERM": "xterm"},
        )
        display = progress.LiveDisplay("images", console)
        screen.seek(screen.truncate(0))
        display.show(status)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "")
        display.close()
        self.widest = max(map(len, text.split("\n")))
        return [line.rstrip() for line in text.split("\n")]

    def test_bar_state_and_cause_fit_a_usual_terminal(self):
        for width in (80, 100):
            for message in ("", MESSAGE):
                with self.subTest(width=width, message=message):
                    lines = self.shown(width, {**STATUS, "message": message})
                    self.assertRegex(lines[0], r"^running [━╸╺ -]{6,} ?40/300 images, 26.1/s, 0:10 left$")
                    self.assertEqual("  compute 48%, consumers 2%, held back by copy to host", lines[1])
                    self.assertEqual(message, " ".join(line.strip() for line in lines[2:]))
                    self.assertTrue(all(len(line) <= width for line in lines), lines)

    def test_a_wide_terminal_shows_everything_on_one_line(self):
        lines = self.shown(140, STATUS)
        self.assertRegex(lines[0], r"^running .*40/300 images.*held back by copy to host$")

    def test_the_longest_text_leaves_a_bar_at_80_columns(self):
        status = {
            **STATUS,
            "state": "abandoned",
            "done_samples": 1_000_000,
            "total_samples": 10_000_000,
            "samples_per_second": 12345.6,
        }
        self.assertRegex(
            self.shown(80, {**status, "state": "draining"})[0],
            r"^draining [━╸╺ -]{6,} ?1000000/10000000 images, 12345.6/s, 12:09 left$",
        )

    def test_a_narrow_terminal_keeps_the_beginning(self):
        lines = self.shown(45, STATUS)
        self.assertRegex(lines[0], r"^running [━╸╺ -]{6,} ?40/300 images")
        self.assertTrue(all(len(line) <= 45 for line in lines), lines)

    def test_lines_are_not_padded_to_the_right_edge(self):
        for message in ("", "no consumers, 16 ready"):
            self.shown(80, {**STATUS, "message": message})
            self.assertLess(self.widest, 80, message)

    def test_text_is_not_markup(self):
        self.assertIn("[/x]", "".join(self.shown(200, {**STATUS, "message": MESSAGE})))
