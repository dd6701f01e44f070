import os
import signal

from stage import InFolder

from offramp_launch.supervision.children import Child
from offramp_launch.finishing import Finishing


class FinishingTest(InFolder):
    """The merge program is a shell script that signals its parent, as an impatient user does, and exits on request."""

    def setUp(self):
        super().setUp()
        self.door = self.folder / "door"
        os.mkfifo(self.door)
        self.notes = []

    def run_program(self, script, answer, kept_open=()):
        def note(text):
            self.notes.append(text)
            answer(len(self.notes))

        with Finishing(note) as finishing:
            program = Child("finish", ["/bin/sh", "-c", script], self.folder / "log", kept_open)
            return finishing.wait(program) or program.status

    def test_the_first_signal_prints_a_note_and_waits(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.notes.clear()
            code = self.run_program(
                f"kill -{int(number)} $PPID; read word < {self.door}; exit 7", lambda _: self.door.write_text("on\n")
            )
            self.assertEqual(7, code)
            self.assertEqual(1, len(self.notes))
            self.assertIn("merging the outputs", self.notes[0])

    def test_a_second_signal_ends_it(self):
        code = self.run_program(
            f"kill -TERM $PPID; read word < {self.door}",
            lambda count: count > 1 or os.kill(os.getpid(), signal.SIGTERM),
        )
        self.assertIs(Finishing.ENDED, code)
        self.assertEqual(2, len(self.notes))

    def test_a_hangup_after_a_signal_ends_nothing(self):
        code = self.run_program(
            f"kill -INT $PPID; read word < {self.door}; exit 0",
            lambda count: os.kill(os.getpid(), signal.SIGHUP) if count == 1 else self.door.write_text("on\n"),
        )
        self.assertEqual(0, code)

    def test_a_signal_before_its_start_or_after_its_end_is_harmless(self):
        with Finishing(lambda _: None) as finishing:
            os.kill(os.getpid(), signal.SIGTERM)
            program = Child("finish", ["/bin/true"], self.folder / "log", ())
            self.assertIsNone(finishing.wait(program))
            self.assertEqual(0, program.status)
            os.kill(os.getpid(), signal.SIGTERM)

    def test_reports_warnings(self):
        (self.folder / "log").write_text("10:00:00.000 warning offramp-consumer[7] of an earlier life\n")
        line = "10:00:00.000 {} offramp-consumer[8] {}"
        script = "".join(
            f"echo '{line.format(*words)}'; "
            for words in (("info", "it begins"), ("warning", "1 picture lacks tiles"), ("error", "its reason"))
        )
        self.assertEqual(0, self.run_program(script, lambda _: None))
        self.assertEqual(["finish: 1 picture lacks tiles"], self.notes)

    def test_reports_a_warning_before_a_long_log(self):
        """The log is longer than the part that is searched for the last error."""
        script = "echo '10:00:00.000 warning offramp-consumer[8] first'; yes '10:00:01.000 info offramp-consumer[8] it goes on' | head -n 4000"
        self.assertEqual(0, self.run_program(script, lambda _: None))
        self.assertEqual(["finish: first"], self.notes)

    def test_inherits_descriptors_and_runs_in_its_own_session(self):
        with open(self.folder / "lock", "w", encoding="ascii") as lock:
            code = self.run_program(
                f"test -e /proc/self/fd/{lock.fileno()} && set -- $(cat /proc/$$/stat) && test $6 = $$",
                lambda _: None,
                (lock.fileno(),),
            )
        self.assertEqual(0, code, (self.folder / "log").read_text())
