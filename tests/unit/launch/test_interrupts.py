"""Ctrl-C ends a command with exit code 130 and without a traceback, at any moment."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from stage import OFFRAMP, WATCHDOG_SECONDS, InFolder

BY_ITSELF_OR_BY_THE_SIGNAL = (130, -signal.SIGINT)  # a shell reports 130 for both
MOMENTS = 40
APART_SECONDS = 0.012


class InterruptTest(InFolder):
    def setUp(self):
        super().setUp()
        # The producer never answers, so the run is still starting when the signal arrives.
        program = self.folder / "offramp-producer"
        program.write_text("#!/bin/sh\nexec sleep 600\n")
        program.chmod(0o755)
        self.environment = {
            **os.environ,
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_BUILD_DIR": str(self.folder),
            "OFFRAMP_BIN_DIR": str(self.folder),
        }

    def interrupt(self, after):
        """(exit code, output) of a command after SIGINT to its process group, as from a terminal."""
        command = subprocess.Popen(
            [OFFRAMP, "run"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        time.sleep(after)
        os.killpg(command.pid, signal.SIGINT)
        output, _ = command.communicate(timeout=WATCHDOG_SECONDS)
        return command.returncode, output

    def interrupt_at_all_moments(self):
        for moment in range(MOMENTS):
            code, output = self.interrupt(moment * APART_SECONDS)
            self.assertIn(code, BY_ITSELF_OR_BY_THE_SIGNAL, output)
            self.assertIn(output, ("", "offramp: interrupted\n"))

    def test_at_the_start_and_later(self):
        self.interrupt_at_all_moments()

    def test_after_the_switch_to_the_python_of_the_set_up(self):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"], check=True)
        self.interrupt_at_all_moments()

    def test_an_interrupt_within_a_finalizer_is_kept(self):
        program = """if True:
            import os, signal, time, weakref
            from offramp_launch import interrupts

            class Interrupted:
                def __del__(self):
                    os.kill(os.getpid(), signal.SIGINT)

            def finalized(argv):
                Interrupted()
                time.sleep(600)

            def called_back(argv):
                kept = weakref.ref(Referred(), lambda _: os.kill(os.getpid(), signal.SIGINT))
                time.sleep(600)

            class Referred:
                pass
            interrupts.begin()
            os._exit(interrupts.carry_out(WAY, []))
        """
        for way in ("finalized", "called_back"):
            done = subprocess.run(
                [sys.executable, "-c", program.replace("WAY", way)],
                env={**os.environ, "PYTHONPATH": str(OFFRAMP.parent)},
                capture_output=True,
                text=True,
                timeout=WATCHDOG_SECONDS,
                check=False,
            )
            self.assertEqual((130, "", ""), (done.returncode, done.stdout, done.stderr), way)

    def test_an_ignored_interrupt_stays_ignored(self):
        command = subprocess.Popen(
            [OFFRAMP, "version"],
            env={**self.environment, "OFFRAMP_BIN_DIR": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        while command.poll() is None:
            os.killpg(command.pid, signal.SIGINT)
            time.sleep(APART_SECONDS)
        output, _ = command.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual(0, command.returncode, output)


class OtherPythonTest(unittest.TestCase):
    """Programs in another Python, whose imports take seconds."""

    def test_each_program_handles_an_interrupt_from_its_first_line(self):
        for program in ("offramp_launch", "exporter", "searcher"):
            started = subprocess.Popen(
                [sys.executable, OFFRAMP.parent / program, "--help"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}),
            )
            started.send_signal(signal.SIGINT)
            output, _ = started.communicate(timeout=WATCHDOG_SECONDS)
            self.assertEqual((130, ""), (started.returncode, output), program)

    def test_cleans_up_despite_repeated_interrupts(self):
        with tempfile.TemporaryDirectory() as folder:
            inner = pathlib.Path(folder, "inner.py")
            inner.write_text(
                "from offramp_launch import interrupts\n"
                "interrupts.begin()\n"
                "import sys, time\n"
                "def main(argv):\n"
                "    try:\n"
                "        print('at work', flush=True)\n"
                "        time.sleep(600)\n"
                "    finally:\n"
                "        print('stopping', flush=True)\n"
                "        sys.stdin.readline()\n"
                "        print('in order', flush=True)\n"
                "sys.exit(interrupts.carry_out(main, []))\n"
            )
            outer = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import sys; from offramp_launch import interrupts; sys.exit(interrupts.carry_out("
                    f"lambda argv: interrupts.run_python([sys.executable, {str(inner)!r}]), []))",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            self.assertEqual("at work\n", outer.stdout.readline())
            outer.send_signal(signal.SIGINT)  # to the launcher alone, as `kill` does
            self.assertEqual("stopping\n", outer.stdout.readline())
            os.killpg(outer.pid, signal.SIGINT)  # to the process group, as a terminal does
            output, _ = outer.communicate("\n", timeout=WATCHDOG_SECONDS)
            self.assertEqual((130, "in order\n"), (outer.returncode, output))

    def test_a_deferred_block_ends_before_the_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            program = (
                "import os; from offramp_launch import interrupts\n"
                "def main(argv):\n"
                "    interrupts.handle_all_signals()\n"
                "    try:\n"
                "        with interrupts.deferred():\n"
                f"            os.kill(os.getpid(), {int(number)})\n"
                "            print('in order', flush=True)\n"
                "        print('not raised')\n"
                "    except KeyboardInterrupt:\n"
                "        print('raised', flush=True)\n"
                "interrupts.begin()\n"
                "interrupts.carry_out(main, [])"
            )
            done = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                text=True,
                timeout=WATCHDOG_SECONDS,
                check=False,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            self.assertEqual("in order\nraised\n", done.stdout, done.stderr)
