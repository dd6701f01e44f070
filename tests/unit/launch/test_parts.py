"""Small parts: arguments, back-off, finding runs, logs, summaries, exit codes, builds."""

import contextlib
import fcntl
import io
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from stage import InFolder

from offramp_launch import (
    arguments,
    demo,
    doctor,
    progress,
    dead_letters,
    retries,
    run_dir,
    run_steps,
    screen,
    settings,
    shared_folder,
    starting,
    summary,
    testing,
)
from offramp_launch.setup import build
from offramp_launch.supervision import backoff, control, events, log_follower
from offramp_launch.exit_code import ExitCode, LaunchError, shell_code, status_behind_a_shell
from offramp_launch.places import Places
from offramp_launch.stores import place, store

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


class ArgumentsTest(unittest.TestCase):
    def test_flawed_urls_are_refused_without_their_secret(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "settings.toml")
            for url, flaw in (
                ("s3://KEY:SECRET@bucket/a", "user info"),
                ("s3://KEY:SEC/RET@bucket/a", "user info"),
                ("s3://SECRET@bucket/a", "user info"),
                ("abfss://KEY:SECRET@account/a", "user info"),
                ("s3://bucket/SECRET#b", "'#'"),
                ("s3://bucket/SECRET?b=1", r"'\?'"),
                ("s3://bucket/SECRET%41", "'%'"),
                ("s3://bucket/SECRET\tb", r"'\\t'"),
                ("s3://bucket/SECRET ", "' '"),
                ("s3://bucket/./SECRET", "'.' or '..'"),
                ("s3://bucket/SECRET/..", "'.' or '..'"),
            ):
                file.write_text(f"output = '{url}'\n")
                given = [([f"--output={url}"], {}), ([], {"OFFRAMP_OUTPUT": url})]
                for argv, environment in given + [([], {"OFFRAMP_CONFIG": str(file)})] * (not url.endswith(" ")):
                    with self.subTest(argv=argv), self.assertRaisesRegex(LaunchError, flaw) as refused:
                        place.url_given(argv, environment)
                    self.assertEqual(ExitCode.USAGE, refused.exception.code)
                    self.assertNotIn("SEC", str(refused.exception) + refused.exception.in_one_line())
            for url in ("s3://bucket", "s3://bucket/a b/é@.c/", "abfs://container@account.dfs.core.windows.net/a"):
                file.write_text(f'output = "{url}"  # a remark\n')
                self.assertEqual(url, place.url_given([], {"OFFRAMP_CONFIG": str(file)}))

    def in_the_package(self, program, *arguments):
        """What a program that uses the Python package prints, as JSON."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "launch/python")},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def test_the_python_package_names_the_same_lines_of_a_traceback(self):
        program = "import json; from offramp._dead_letters import CODE_LOCATION as at, NOT_THE_USERS as others; print(json.dumps([at.pattern, at.flags, others.pattern]))"
        ours = [retries.CODE_LOCATION.pattern, retries.CODE_LOCATION.flags, retries.NOT_THE_USERS.pattern]
        self.assertEqual(ours, self.in_the_package(program))

    def test_the_python_package_has_the_same_rules_for_urls(self):
        """An Egress checks its URL before it starts the launcher: a command line would show a secret."""
        program = "import json, sys; from offramp import _validate; print(json.dumps([_validate.STORES, *map(_validate.flaw_of, sys.argv[1:])]))"
        urls = [
            "s3://b/c d",
            "s3://b:1",
            "abfs://c@a/x",
            "abfs://c:k@a/x",
            "s3://k@b",
            *(f"s3://b/{c}x" for c in "?#%\t\x7f"),
            "s3://b/../x",
            "s3://b ",
        ]
        ours = [list(store.SCHEMES), *map(store.flaw_of, urls)]
        self.assertEqual(ours, self.in_the_package(program, *urls))

    def test_takes_its_flags_and_keeps_the_others_in_order(self):
        taken, rest = arguments.take_values(
            ["--batch", "4", "--python", "/p", "--x=1", "--cuda-dir=/c=d"], ["--python", "--cuda-dir"]
        )
        self.assertEqual({"--python": "/p", "--cuda-dir": "/c=d"}, taken)
        self.assertEqual(["--batch", "4", "--x=1"], rest)

    def test_the_last_value_of_a_flag_counts(self):
        self.assertEqual({"--python": "b"}, arguments.take_values(["--python=a", "--python", "b"], ["--python"])[0])

    def test_a_flag_without_its_value_is_refused_by_name(self):
        with self.assertRaisesRegex(LaunchError, "--python needs a value") as refused:
            arguments.take_values(["--python"], ["--python"])
        self.assertEqual(ExitCode.USAGE, refused.exception.code)

    def test_flags_of_the_launcher_are_removed_with_their_values(self):
        self.assertEqual(
            ("requirements-parquet.txt",), starting.requirements_of(["--processor", "checksum,embeddings-parquet"], {})
        )
        self.assertEqual(
            ("requirements-parquet.txt",), starting.requirements_of([], {"OFFRAMP_PROCESSOR": "embeddings-parquet"})
        )
        self.assertEqual(("requirements-parquet.txt",), starting.requirements_of(["--source", "parquet-text"], {}))
        self.assertEqual(
            ("requirements-parquet.txt",), starting.requirements_of([], {"OFFRAMP_SOURCE": "parquet-text"})
        )
        for output in ("s3://bucket/results", "GS://bucket", "az://container/results"):
            self.assertEqual(("requirements-stores.txt",), starting.requirements_of(["--output", output], {}))
            self.assertEqual(("requirements-stores.txt",), starting.requirements_of([], {"OFFRAMP_OUTPUT": output}))
        self.assertEqual((), starting.requirements_of(["--output", "results/s3:"], {"OFFRAMP_OUTPUT": "s3://b/p"}))
        self.assertEqual((), starting.requirements_of(["--source=jsonl-text"], {"OFFRAMP_SOURCE": "parquet-text"}))
        self.assertEqual(
            (), starting.requirements_of(["--processor=embeddings-sqlite"], {"OFFRAMP_PROCESSOR": "embeddings-parquet"})
        )
        self.assertEqual(
            ["run", "--a", "--http-header", "@FILE"],
            arguments.shown(["run", "--http-header=Authorization: Bearer x", "--a"]),
        )
        self.assertEqual(["run", "--http-header", "@h"], arguments.shown(["run", "--http-header", "@h"]))
        self.assertEqual(["run"], arguments.shown(["run"]))
        self.assertEqual(
            ["run", "--http-url", "https://h/p?QUERY"], arguments.shown(["run", "--http-url=https://h/p?key=SECRET"])
        )
        self.assertEqual(
            ["run", "--a", "--http-url", "URL"],
            arguments.to_type_again(["run", "--http-url=https://h/p?key=SECRET", "--a"]),
        )
        self.assertEqual(
            ["run", "--http-url", "https://h/p"], arguments.to_type_again(["run", "--http-url", "https://h/p"])
        )
        environment = {}
        self.assertEqual(
            ["run", "--a"], arguments.hide_query(["run", "--http-url", "https://h/p?key=SECRET", "--a"], environment)
        )
        self.assertEqual({"OFFRAMP_HTTP_URL": "https://h/p?key=SECRET"}, environment)
        plain = ["run", "--http-url", "https://h/p"]
        self.assertEqual((plain, plain), (arguments.hide_query(plain, {}), arguments.shown(plain)))
        self.assertEqual(
            ["--a", "1"], arguments.without_values(["--run-dir", "/r", "--a", "1", "--run-id=x"], settings.SETTLED)
        )

    def test_counts(self):
        self.assertEqual(12, arguments.count("12", "scale"))
        for bad in ("", "-1", "1.0", "two", "²", "None"):
            with self.assertRaises(LaunchError):
                arguments.count(bad, "scale")


class BackoffTest(unittest.TestCase):
    def test_doubles_to_its_limit_and_resets_after_a_healthy_life(self):
        waits = backoff.Backoff()
        self.assertEqual([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0], [waits.after_life_of(0) for _ in range(8)])
        self.assertEqual(0.1, waits.after_life_of(10))
        self.assertEqual(0.2, waits.after_life_of(9.9))

    def test_the_budget_is_spent_by_deaths_without_progress_only(self):
        budget = backoff.FailureBudget(limit=3)
        self.assertEqual([False, False, False, False, True], [budget.note_death(done) for done in (0, 0, 1, 1, 1)])


class TimersTest(unittest.TestCase):
    def test_runs_due_timers_in_order_and_returns_the_next_delay(self):
        now, done = [0.0], []
        due = events.Timers(clock=lambda: now[0])
        self.assertIsNone(due.next_in())
        due.after(2, lambda: done.append("second"))
        due.after(1, lambda: done.append("first"))
        self.assertEqual(1, due.next_in())
        now[0] = 1.5
        due.run_due()
        self.assertEqual((["first"], 0.5), (done, due.next_in()))
        now[0] = 9
        self.assertEqual(0, due.next_in())
        due.run_due()
        self.assertEqual(["first", "second"], done)


class RunDirTest(InFolder):
    def setUp(self):
        super().setUp()
        self.places = Places(root=self.folder, build=self.folder / "build")

    def make_run(self, name):
        run = self.places.runs / name
        (run / run_dir.LIVE).mkdir(parents=True)
        (run / run_dir.CONTROL_SOCKET).touch()
        return run

    def find(self, wanted=None, live=()):
        return run_dir.find_live_run(self.places, wanted, accepts=lambda path: path.parents[1] in live)

    def test_finds_the_only_live_run(self):
        self.make_run("dead")
        live = self.make_run("live")
        self.assertEqual(live, self.find(live=[live]))

    def test_reports_when_no_run_is_live(self):
        self.make_run("dead")
        with self.assertRaises(LaunchError) as refused:
            self.find()
        self.assertEqual(ExitCode.NO_SUCH_RUN, refused.exception.code)

    def test_lists_several_live_runs(self):
        runs = [self.make_run("a"), self.make_run("b")]
        with self.assertRaises(LaunchError) as refused:
            self.find(live=runs)
        for run in runs:
            self.assertIn(f"--run-dir {run}", str(refused.exception))
        self.assertEqual(runs[1], self.find(wanted=str(runs[1]), live=runs))

    def test_finds_a_run_elsewhere_once_through_its_link(self):
        elsewhere = self.folder / "elsewhere"
        held = run_dir.RunDir(self.places, elsewhere)
        self.addCleanup(os.close, held._lock)
        (elsewhere / run_dir.CONTROL_SOCKET).touch()
        self.assertEqual(elsewhere, self.find(live=[elsewhere]))

    def test_a_deep_repository_gets_its_run_directories_in_tmp(self):
        deep = Places(root=self.folder, build=self.folder / ("d" * 100))
        self.assertEqual(run_dir.short_runs_folder() / "id", run_dir.choose_run_dir(deep, "", "id"))
        self.assertEqual(self.places.runs / "id", run_dir.choose_run_dir(self.places, "", "id"))

    def test_a_path_may_be_as_long_as_a_socket_address(self):
        room = run_dir.LONGEST_SOCKET_PATH - len("/" + run_dir.LONGEST_SOCKET)
        self.assertTrue(run_dir.fits_a_socket("/" + "d" * (room - 1)))
        self.assertFalse(run_dir.fits_a_socket("/" + "d" * room))
        self.assertFalse(run_dir.fits_a_socket("/" + "é" * ((room + 1) // 2)))

    def test_a_run_directory_for_groups_needs_room_for_their_folders(self):
        below = "groups/masks"
        most = run_dir.LONGEST_SOCKET_PATH - len(f"/{below}/{run_dir.LONGEST_SOCKET}")
        longest = "/" + "d" * (most - 1)
        self.assertEqual(pathlib.Path(longest), run_dir.choose_run_dir(self.places, longest, "id", below))
        why = f"d' is too long: the path of its socket {below}/{run_dir.LONGEST_SOCKET} .*\n.*at most {most} bytes"
        with self.assertRaisesRegex(LaunchError, why):
            run_dir.choose_run_dir(self.places, longest + "d", "id", below)

    def test_a_planted_link_in_tmp_is_refused(self):
        trap = self.folder / "trap"
        trap.symlink_to(self.folder)
        with self.assertRaises(LaunchError) as refused:
            run_dir.own_folder_in_tmp(trap)
        self.assertEqual(ExitCode.NOT_PERMITTED, refused.exception.code)
        run_dir.own_folder_in_tmp(self.folder / "mine")
        run_dir.own_folder_in_tmp(self.folder / "mine")

    def take(self, run):
        """Takes the directory as a launcher does, until the next one does or the test ends."""
        held = run_dir.RunDir(self.places, run)
        self.addCleanup(os.close, held._lock)
        return held

    def let_go(self, held):
        fcntl.flock(held._lock, fcntl.LOCK_UN)

    def reports_of(self, run):
        return {str(path.relative_to(run)): path.read_text() for path in run.rglob("*") if path.is_file()}

    def begin_run(self, run, text, status="{}"):
        """What a run leaves. `status`: None for a run that was killed before its producer reported."""
        held = self.take(run)
        held.log("producer").write_text(text)
        for name in ("config.toml", "summary.json", "metrics.prom", "dropped.jsonl", "logs/launcher.json"):
            held.write(name, text)
        if status:
            held.write("status.json", status)
        self.let_go(held)

    def test_before_has_the_reports_of_the_last_run_that_has_begun(self):
        run = self.folder / "again"
        files = (
            "logs/producer.log",
            "config.toml",
            "summary.json",
            "metrics.prom",
            "dropped.jsonl",
            "logs/launcher.json",
        )
        self.begin_run(run, "first")
        self.begin_run(run, "second")
        before = {f"before/{name}": "first" for name in files}
        now = {name: "second" for name in files}
        kept = {"live/launcher.lock": "", "before/status.json": "{}"}
        self.assertEqual({**kept, **before, **now, "status.json": "{}"}, self.reports_of(run))
        for status in ('{"begun": false}', None):
            self.begin_run(run, "third", status)
            before = {f"before/{name}": "second" for name in files}
            now = {name: "third" for name in files}
            last = {"status.json": status} if status else {}
            self.assertEqual({**kept, **before, **now, **last}, self.reports_of(run))
            self.assertEqual(run / "before", run_dir.last_begun(run))
        self.let_go(self.take(run))
        self.assertEqual({**kept, **before}, self.reports_of(run))

    def test_a_launcher_that_fails_keeps_the_producers_summary(self):
        held = self.take(self.folder / "run")
        held.write("summary.json", '{"samples": {"released": 8}, "exit": 0}')
        for why in ("the output is gone", "too late"):
            with (
                self.assertRaises(LaunchError),
                run_steps.reason_in_summary(held, {"run_id": "r"}),
            ):
                raise LaunchError(why, "", ExitCode.CANNOT_WRITE)
        found = held.read_json("summary.json")
        self.assertEqual(
            ("r", {"released": 8}, 73, "the output is gone"),
            tuple(found[name] for name in ("run_id", "samples", "exit", "failure")),
        )

    def test_work_of_an_earlier_run_stays_in_its_place(self):
        run = self.folder / "again"
        self.begin_run(run, "first")
        work = {f"{folder}/file": folder for folder in ("output", "dead-letters", "live/spill")}
        for name, text in work.items():
            (run / name).parent.mkdir()
            (run / name).write_text(text)
        (run / "live/control.sock").touch()
        self.take(run)
        self.assertEqual(work, {name: text for name, text in self.reports_of(run).items() if name in work})
        self.assertEqual({"before", "live", "logs", "output", "dead-letters"}, set(os.listdir(run)))

    def test_accepts_only_an_absent_empty_or_own_directory(self):
        empty = self.folder / "empty"
        empty.mkdir(mode=0o755)
        for folder, mode in ((empty, 0o755), (self.folder / "absent" / "below", 0o700), (empty, 0o755)):
            held = run_dir.RunDir(self.places, folder)
            self.assertEqual(mode, folder.stat().st_mode & 0o777, "an existing folder keeps its mode")
            os.close(held._lock)
        trap = self.folder / "trap"
        (trap / run_dir.LIVE).mkdir(parents=True)
        (trap / run_dir.LOCK).symlink_to(self.folder / "elsewhere")
        open_to_all = self.folder / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o1777)
        for folder in (trap, open_to_all):
            with self.assertRaises(LaunchError) as refused:
                run_dir.RunDir(self.places, folder)
            self.assertEqual(ExitCode.USAGE, refused.exception.code)
            self.assertIn(f"such as {folder / 'run'}", str(refused.exception))
        self.assertFalse((self.folder / "elsewhere").exists())
        self.assertEqual([], os.listdir(open_to_all))
        self.assertEqual(0o1777, open_to_all.stat().st_mode & 0o7777)

    def test_run_ids_are_accepted_by_the_programs(self):
        self.assertRegex(run_dir.new_run_id(), r"^[A-Za-z0-9._-]{1,48}$")


class PrivateFolderTest(InFolder):
    def setUp(self):
        super().setUp()
        self.places = Places(root=self.folder, build=self.folder / "build")
        short = unittest.mock.patch.object(run_dir, "short_runs_folder", lambda: self.folder / "short")
        short.start()
        self.addCleanup(short.stop)

    def make_run(self, runs, mode=0o700, uid=None):
        run = runs / "a-run"
        for folder in ("dead-letters", run_dir.LIVE):
            (run / folder).mkdir(parents=True)
        (run / run_dir.CONTROL_SOCKET).touch()
        run.chmod(mode)
        if uid is not None:
            os.chown(run, uid, uid)
        return run

    def found(self):
        return run_dir.live_runs(self.places, accepts=lambda path: True)

    def test_a_folder_in_tmp_counts_only_if_private_to_this_user(self):
        run = self.make_run(self.folder / "short")
        (self.folder / "short").chmod(0o700)
        self.assertEqual([run], self.found())
        (self.folder / "short").chmod(0o755)
        self.assertEqual([], self.found())
        (self.folder / "short").rename(self.folder / "elsewhere")
        (self.folder / "elsewhere").chmod(0o700)
        (self.folder / "short").symlink_to(self.folder / "elsewhere")
        self.assertEqual([], self.found(), "a link may be planted")

    def test_a_run_writable_by_others_is_ignored(self):
        run = self.make_run(self.places.runs, mode=0o770)
        self.assertEqual([], self.found())
        for look in (
            lambda: run_dir.find_live_run(self.places, str(run), accepts=lambda path: True),
            lambda: dead_letters.choose_run(self.places, str(run)),
        ):
            with self.assertRaises(LaunchError) as refused:
                look()
            self.assertEqual(ExitCode.NOT_PERMITTED, refused.exception.code)
        with self.assertRaises(LaunchError) as refused:
            dead_letters.choose_run(self.places, None)
        self.assertEqual(ExitCode.NO_INPUT, refused.exception.code)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder away")
    def test_another_users_run_is_ignored(self):
        run = self.make_run(self.places.runs, uid=65534)
        self.assertEqual([], self.found())
        self.assertRaises(LaunchError, dead_letters.choose_run, self.places, None)
        self.assertRaises(LaunchError, dead_letters.choose_run, self.places, str(run))
        self.assertRaises(LaunchError, run_dir.find_live_run, self.places, str(run), lambda path: True)


class ControlServerTest(unittest.TestCase):
    def test_a_malformed_request_is_refused(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder, selectors.DefaultSelector() as selector:
            server = control.ControlServer(pathlib.Path(folder, "s"), selector, lambda request: {})
            with socket.socket(socket.AF_UNIX) as client, contextlib.closing(server):
                client.connect(f"{folder}/s")
                selector.select()[0][0].data()
                for request in (b"no JSON", b"[]", b"[" * 4000):
                    client.sendall(request + b"\n")
                    selector.select()[0][0].data()
                    answer = json.loads(client.recv(65536))
                    self.assertEqual((False, ExitCode.USAGE), (answer["ok"], answer["code"]), request[:9])


class ControlClientTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.run = pathlib.Path(folder.name)
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.server.close)
        (self.run / run_dir.LIVE).mkdir()
        self.server.bind(str(self.run / run_dir.CONTROL_SOCKET))

    def refusal(self, answer=None):
        """The error of a request. `answer`: the pieces that the other side sends before it is silent."""
        client = control.ControlClient(self.run, patience=0.2)
        self.addCleanup(client._socket.close)
        other, _ = self.server.accept()
        self.addCleanup(other.close)
        other.setblocking(False)
        for piece in answer or ():
            with contextlib.suppress(BlockingIOError):
                other.send(piece)
        with self.assertRaises(LaunchError) as refused:
            client.ask({"do": "status"})
        return refused.exception

    def test_a_silent_launcher_is_not_awaited(self):
        self.server.listen(8)
        for answer in (None, [b'{"ok": '], [b"x" * 65536] * 4):
            self.assertEqual(ExitCode.NO_SUCH_RUN, self.refusal(answer).code)
        self.assertIn("is alive but does not answer", str(self.refusal()))

    def test_a_launcher_with_a_full_queue_is_not_awaited(self):
        self.server.listen(0)
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(8)]
        for one in waiting:
            self.addCleanup(one.close)
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(str(self.run / run_dir.CONTROL_SOCKET))
        self.assertTrue(
            run_dir.accepts_connections(self.run / run_dir.CONTROL_SOCKET), "the socket belongs to a live run"
        )
        with self.assertRaisesRegex(LaunchError, "does not answer"):
            control.ControlClient(self.run, patience=0.2)

    def test_an_endless_answer_is_cut(self):
        self.server.listen(8)
        with unittest.mock.patch.object(control, "LONGEST_ANSWER", 1000):
            self.assertIn("does not answer", str(self.refusal([b"x" * 4096])))

    def test_an_invalid_answer_is_an_internal_error(self):
        self.server.listen(8)
        for answer in (b"[]\n", b"none\n", b"3\n", b'{"ok": false, "code": {}}\n', b"[" * 100000 + b"\n"):
            self.assertEqual(ExitCode.PROTOCOL, self.refusal([answer]).code, answer[:20])


class ScreenTest(unittest.TestCase):
    def test_control_characters_are_escaped_and_lines_kept(self):
        for text, shown in (
            ("plain\n\tä€🙂", None),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("\u009b31m", "\\x9b31m"),
            ("a\rb", "a\\x0db"),
            ("\u202egpj.exe", "\\u202egpj.exe"),
            ("\u2028\u2066", "\\u2028\\u2066"),
            ("\udc9b", "\\x9b"),
        ):
            self.assertEqual(text if shown is None else shown, screen.printable(text))
        self.assertEqual("a\\nb", screen.one_line("a\nb"))

    def test_a_guarded_stream_prints_everything(self):
        out = io.StringIO()
        guarded = screen.Guarded(out)
        print("a\x1b[2Jb", file=guarded, flush=True)
        guarded.writelines(["\x07", "c"])
        self.assertEqual("a\\x1b[2Jb\n\\x07c", out.getvalue())
        self.assertIs(out, screen.drawn_on(guarded))
        self.assertIs(out, screen.drawn_on(out))

    def test_markup_and_control_characters_are_text_on_the_live_line(self):
        try:
            import rich  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no Rich")
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        with (
            unittest.mock.patch.object(screen.sys, "stdout", screen.Guarded(terminal)),
            unittest.mock.patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": "200"}),
        ):
            display = progress.LiveDisplay("images")
            display.note("note [/x] \x1b[31m")
            display.show(
                {
                    "state": "run[/x]ning",
                    "done_samples": 1,
                    "total_samples": 2,
                    "message": "spill [/x] full \x1b]0;t\x07 \u202e",
                }
            )
            display.close()
        output = terminal.getvalue()
        for text in ("note [/x] \\x1b[31m", "run[/x]ning", "spill [/x] full \\x1b]0;t\\x07 \\u202e"):
            self.assertIn(text, output)


class SharedFolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "output"
        self.folder.mkdir()
        self.secret = self.folder.parent / "secret"
        self.secret.write_text("secret")

    def test_only_ordinary_files_of_a_bounded_size_are_read(self):
        (self.folder / "file").write_bytes(b"four")
        self.assertEqual(b"four", shared_folder.read(self.folder, "file"))
        self.assertEqual(b"four", shared_folder.read(self.folder, "file", largest=4))
        self.assertEqual(b"four", shared_folder.read_line(self.folder, "file", longest=4))
        (self.folder / "link").symlink_to(self.secret)
        (self.folder / "endless").symlink_to("/dev/zero")
        (self.folder / "folders").symlink_to(self.folder.parent)
        os.mkfifo(self.folder / "pipe")
        for name, largest in (
            ("file", 3),
            ("link", 9),
            ("endless", 9),
            ("pipe", 9),
            ("folders/secret", 9),
            ("", 9),
            ("none", 9),
        ):
            with self.assertRaises((OSError, ValueError), msg=name):
                shared_folder.read(self.folder, name, largest)
            with self.assertRaises((OSError, ValueError), msg=name):
                shared_folder.read_line(self.folder, name, largest)
        self.assertEqual(
            [True, False, False, False, False],
            [shared_folder.holds(self.folder, name) for name in ("file", "link", "endless", "pipe", "folders/secret")],
        )

    def test_a_write_replaces_a_link_and_not_its_target(self):
        (self.folder / "page").symlink_to(self.secret)
        shared_folder.write(self.folder, "page", b"ours")
        self.assertEqual("secret", self.secret.read_text())
        self.assertFalse((self.folder / "page").is_symlink())
        self.assertEqual("ours", (self.folder / "page").read_text())
        os.mkfifo(self.folder / "pipe")
        shared_folder.write(self.folder, "pipe", b"ours")
        (self.folder / "folders").symlink_to(self.folder.parent)
        self.assertRaises(OSError, shared_folder.write, self.folder, "folders/secret", b"ours")
        self.assertEqual({"page", "pipe", "folders"}, set(os.listdir(self.folder)), "no temporary file is left")


class SeparateFoldersTest(InFolder):
    def setUp(self):
        super().setUp()
        self.input = self.folder / "photos"
        (self.input / "2024").mkdir(parents=True)

    def refused(self, output, processor="mask-png", source=None):
        try:
            run_steps.require_apart(str(output), {"input": str(source or self.input), "processor": processor})
        except LaunchError as problem:
            self.assertEqual(ExitCode.USAGE, problem.code)
            return True
        return False

    def test_refuses_results_in_the_input_even_through_a_link(self):
        (self.folder / "link").symlink_to(self.input)
        for output in (
            self.input,
            self.input / "masks",
            self.input / "2024",
            self.folder / "link",
            self.folder / "link" / "new",
            self.input / "x" / "..",
        ):
            self.assertTrue(self.refused(output), output)
        for output in (self.folder, self.folder / "photos-masks", self.folder / "masks", self.input / ".."):
            self.assertFalse(self.refused(output), output)

    def test_checks_the_folder_of_each_processor(self):
        results = self.folder / "cut-out"
        results.mkdir()
        self.assertTrue(self.refused(self.folder, "cut-out,records", results))
        self.assertTrue(self.refused(self.folder, "records,cut-out", self.folder), "the input is the folder above")
        self.assertFalse(self.refused(self.folder, "cut-out", results))
        self.assertFalse(self.refused(self.folder, "mask-png,records", results))
        (self.folder / "out").mkdir()
        (self.folder / "out" / "mask-png").symlink_to(self.input)
        self.assertTrue(self.refused(self.folder / "out", "mask-png,records"))

    def test_files_and_lists_are_left_to_the_producer(self):
        (self.folder / "a.png").touch()
        self.assertFalse(self.refused(self.folder, source=self.folder / "a.png"))


class LogFollowerTest(unittest.TestCase):
    def test_reads_whole_lines_only(self):
        with tempfile.NamedTemporaryFile() as log:
            follower = log_follower.LogFollower(log.name)
            log.write(b"one\ntw")
            log.flush()
            self.assertEqual(["one"], follower.new_lines())
            log.write(b"o\n\xff\n")
            log.flush()
            self.assertEqual(["two", "\ufffd"], follower.new_lines())
            self.assertEqual([], follower.new_lines())

    def test_an_endless_line_is_not_collected(self):
        with tempfile.NamedTemporaryFile() as log:
            follower = log_follower.LogFollower(log.name)
            for _ in range(8):
                log.write(b"x" * log_follower.LONGEST_LINE)
                log.flush()
                self.assertEqual([], follower.new_lines())
            self.assertLessEqual(len(follower._partial), 2 * log_follower.LONGEST_LINE)

    def test_a_line_that_nests_too_deeply_is_no_record(self):
        self.assertIsNone(log_follower.record('{"level": ' + "[" * 100_000))

    def test_a_log_that_is_not_there_yet_is_empty(self):
        self.assertEqual([], log_follower.LogFollower("/nowhere/log").new_lines())

    def test_a_traceback_is_shortened_to_its_exception(self):
        with tempfile.NamedTemporaryFile() as log:
            log.write(
                b"12:00:00.000 error   offramp-consumer[1] batch 7 failed: Traceback (most recent call last):\n"
                b'  File "post.py", line 4, in save\n    raise ValueError(7)\nValueError: 7\n\n'
                b"During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
                b"  File \"post.py\", line 6, in save\nKeyError: 'x'\nof two lines\nprinted by the processor\n"
                b"12:00:00.001 info    offramp-consumer[1] left\nnot of a message\n12:00:00.002 warning offramp-consumer[1] slow\n"
            )
            log.flush()
            self.assertEqual(
                [("error", "batch 7 failed: KeyError: 'x'"), ("warning", "slow")],
                log_follower.LogFollower(log.name).new_warnings(),
            )

    def test_distinguishes_warnings_from_the_rest_in_both_formats(self):
        for line, expected in (
            ("12:00:00.000 warning offramp-consumer[17] disk slow", ("warning", "disk slow")),
            ("12:00:00.000 error   offramp-producer[1] bad: a. b", ("error", "bad: a. b")),
            ("12:00:00.000 info    offramp-producer[1] error of the day", None),
            (json.dumps({"level": "error", "message": "m"}), ("error", "m")),
            (json.dumps({"level": "info", "message": "m"}), None),
            ("{broken", None),
            ("[1]", None),
            ("error", None),
            ("", None),
        ):
            self.assertEqual(expected, log_follower.severity(line), line)


class SummaryTest(unittest.TestCase):
    def text(self, unit="images", **ended):
        return summary.describe({"run_id": "r", "run_dir": "/r", **ended}, unit, "", "x")

    def test_every_consumer_is_listed(self):
        merged = summary.merge(
            {
                "model": "copy",
                "consumers": [{"pid": 1, "batches": 3, "samples": 9}, {"pid": 3, "batches": 1, "samples": 2}],
            },
            [
                {"pid": 1, "exit": -9, "cpu_seconds": 0.5},
                {"pid": 2, "exit": 0, "cpu_seconds": 0.1},
            ],
        )
        self.assertEqual("copy", merged["model"])
        self.assertEqual(
            [(1, 3, 0.5, -9, "SIGKILL"), (2, 0, 0.1, 0, None), (3, 1, None, None, None)],
            [
                tuple(entry[key] for key in ("pid", "batches", "cpu_seconds", "exit", "signal"))
                for entry in merged["consumers"]
            ],
        )

    def test_reports_the_pictures_that_the_gpu_decoded(self):
        for decoded, line in ((7, "  decoded    7 pictures on the GPU\n"), (0, "")):
            text = self.text(exit=0, samples={"released": 9}, decoded_on_gpu=decoded)
            self.assertEqual(("decoded" in text, True), (bool(line), line in text))

    def test_reports_the_first_skipped_items_and_how_many_there_are(self):
        skipped = [{"item": index, "origin": f"{index}.jpg", "reason": "empty"} for index in range(30)]
        text = self.text(exit=0, samples={"skipped": 31}, skipped=skipped)
        self.assertIn("skipped    31:", text)
        self.assertIn("19.jpg: empty\n    and 11 more: summary.json lists the first 30", text)
        self.assertNotIn("20.jpg", text)
        text = self.text(exit=65, samples={"skipped": 0}, skipped=skipped)
        self.assertIn("skipped    30:", text)
        self.assertIn("and 10 more: summary.json lists all", text)
        self.assertNotIn("unreadable", text)
        text = self.text(exit=65, samples={}, unreadable_upcoming=skipped)
        self.assertIn(
            "  unreadable 30, in batches that were never started:\n    0.jpg: empty\n    1.jpg: empty\n", text
        )
        self.assertIn("19.jpg: empty\n    and 10 more: summary.json lists all\n", text)
        self.assertNotIn("20.jpg", text)
        text = self.text(exit=0, samples={"skipped": 20}, skipped=skipped[:20])
        self.assertNotIn(" more", text)
        tiles = {"item": 6, "origin": "b.png, tile 0,0", "reason": "damaged", "similar": 40}
        text = self.text(exit=0, samples={"skipped": 42}, skipped=[tiles, skipped[0]], unit="tiles")
        self.assertIn("skipped    42:\n    b.png, tile 0,0: damaged (and 40 more like it)\n    0.jpg: empty\n", text)
        self.assertNotIn("summary.json lists", text)
        text = self.text(exit=0, samples={"skipped": 61}, skipped=[*skipped[:20], tiles], unit="tiles")
        self.assertIn("and 41 more: summary.json lists all", text)
        text = self.text(exit=65, samples={}, unreadable_upcoming=[tiles, skipped[0]], unit="tiles")
        self.assertIn("unreadable 42, in batches", text)
        self.assertNotIn("summary.json lists", text)
        for listed, listing in (
            (1, "skipped    2:\n    0.jpg: empty\n    and 1 more: a producer that died found them"),
            (0, "skipped    2\n    a producer that died found them"),
        ):
            text = self.text(exit=0, samples={"skipped": 2}, skipped=skipped[:listed])
            self.assertIn(f"{listing}; a run with --resume tries them again, and lists them\n", text)

    def test_shows_a_rate_only_for_a_run_with_results(self):
        times = {"seconds": 2, "first_batch_seconds": 1, "samples_per_second": 4}
        whole = "done       8 images in 2.00 s: the first batch after 1.00 s, 4.00 images/s in all"
        for exit_code, samples, line in (
            (0, {"released": 8, "sourced": 8}, whole),
            (0, {"released": 0, "sourced": 0, "done_before": 8}, "done       nothing was left to do (2.00 s)"),
            (0, {"released": 0, "sourced": 3, "done_before": 8}, "done       0 images in 2.00 s"),
            (130, {"released": 0, "sourced": 0, "done_before": 8}, "done       0 images in 2.00 s"),
        ):
            self.assertIn(f"  {line}\n", self.text(exit=exit_code, samples=samples, **times))

    def test_shows_the_steady_rate_only_if_measured(self):
        run = {"exit": 0, "seconds": 2, "first_batch_seconds": 1, "samples": {"released": 8}}
        self.assertIn("after 1.00 s, then 9.00 images/s\n", self.text(**run, steady=True, samples_per_second=9))
        text = self.text(**run, steady=False, samples_per_second=4)
        self.assertIn("after 1.00 s, 4.00 images/s in all\n", text)
        self.assertNotIn("then", text)

    def test_reports_dropped_samples_and_their_list(self):
        text = self.text(exit=0, samples={"dropped_when_full": 7, "ever_spilled": 9})
        self.assertIn("7 images: no slab was free; /r/dropped.jsonl lists them, --resume makes them", text)
        self.assertIn("9 images waited on the disk", text)
        self.assertNotIn("slab", self.text(exit=0, samples={}))

    def test_prints_how_to_continue_only_if_that_helps(self):
        for exit_code, samples, goes_on in (
            (130, {"released": 3}, True),
            (130, {}, True),
            (73, {}, True),
            (84, {"released": 3}, True),
            (137, None, True),
            (1, None, True),
            (64, {}, False),
            (65, None, False),
            (66, None, False),
            (78, None, False),
            (83, None, False),
            (65, {"released": 3}, True),
            (71, {"released": 3}, True),
            (71, {}, False),
            (80, {}, False),
            (81, {}, False),
            (81, {"done_before": 3}, True),
            (85, {}, False),
            (0, {"released": 8}, False),
            (0, {"released": 8, "dropped_when_full": 1}, True),
        ):
            counted = {"incomplete": True} if samples is None else {"samples": samples}
            self.assertEqual(goes_on, "  continue   x" in self.text(exit=exit_code, **counted), (exit_code, samples))

    def test_prints_no_command_that_fails_on_the_same_items(self):
        for cause, goes_on in (
            (None, True),
            ({"kind": "input"}, True),
            ({"kind": "model"}, False),
            ({"kind": "slab-too-small", "slab_bytes": 9}, True),
        ):
            text = self.text(exit=65, samples={"released": 3}, failure_cause=cause)
            self.assertEqual(goes_on, "  continue   x" in text, cause)

    def test_prints_no_command_after_a_wrong_setting(self):
        for exit_code in (64, 66, 77, 78, 83):
            for samples in ({"done_before": 3}, {"released": 2}):
                self.assertNotIn("  continue  ", self.text(exit=exit_code, samples=samples), (exit_code, samples))

    def test_random_weights_are_loud(self):
        self.assertIn("RANDOM WEIGHTS", self.text(exit=0, random_weights=True))
        for model, remedy in (
            ("encoder, 12 parameters", "--weights FILE.safetensors gives"),
            ("AOTInductor package net.pt2: one output", "export --weights FILE"),
        ):
            self.assertIn(remedy, self.text(exit=0, model=model, random_weights=True))
        self.assertNotIn("RANDOM WEIGHTS", self.text(exit=0, random_weights=False))


class ProgressTest(unittest.TestCase):
    def test_describes_the_known_values(self):
        self.assertEqual("0 images, 0.0/s", progress.describe({}, "images"))
        self.assertEqual(
            "3/9 images, 1.5/s, 0:04 left, compute 50%, consumers 25%, held back by compute",
            progress.describe(
                {
                    "done_samples": 3,
                    "total_samples": 9,
                    "samples_per_second": 1.5,
                    "gpu_utilization": 0.5,
                    "consumer_utilization": 0.25,
                    "limiting_stage": "compute",
                },
                "images",
            ),
        )

    def test_the_time_that_is_left(self):
        for total, rate, left in ((None, 2, None), (10, 0, None), (10, 2, 5), (0, 2, None)):
            self.assertEqual(left, progress.seconds_left({"total_samples": total, "samples_per_second": rate}))
        self.assertEqual(["0:05", "1:05", "2:00:10"], [progress.spelled(seconds) for seconds in (5.2, 65, 7210)])

    def test_without_a_terminal_it_is_a_line_of_json_every_five_seconds(self):
        now, out = [100.0], io.StringIO()
        display = progress.PlainDisplay("images", clock=lambda: now[0])
        with contextlib.redirect_stdout(out):
            for now[0], done in ((100, 0), (102, 4), (105, 10)):
                display.show(
                    {
                        "state": "running",
                        "done_samples": done,
                        "total_samples": 20,
                        "limiting_stage": "compute",
                        "samples_per_second": 2.0,
                    }
                )
        lines = [json.loads(line)["progress"] for line in out.getvalue().splitlines()]
        self.assertEqual([0, 10], [line["done"] for line in lines])
        self.assertEqual(
            {
                "state": "running",
                "unit": "images",
                "done": 10,
                "total": 20,
                "per_second": 2,
                "seconds_left": 5,
                "limiting_stage": "compute",
            },
            lines[1],
        )

    def test_without_a_terminal_the_end_is_reported_once_immediately(self):
        now, out = [100.0], io.StringIO()
        display = progress.PlainDisplay("images", clock=lambda: now[0])
        with contextlib.redirect_stdout(out):
            for now[0], state in ((100, "running"), (101, "running"), (102, "ended"), (103, "ended")):
                display.show({"state": state, "done_samples": 7, "samples_per_second": 2.0})
        lines = [json.loads(line)["progress"] for line in out.getvalue().splitlines()]
        self.assertEqual(["running", "ended"], [line["state"] for line in lines])
        self.assertEqual(
            [2, None], [line.get("per_second") for line in lines], "the last rate is not the rate of the run"
        )

    def test_reports_skipped_items_beside_the_progress(self):
        status = {"state": "running", "done_samples": 37, "skipped": 19, "total_samples": 66, "samples_per_second": 2}
        self.assertEqual("37/66 images, 19 skipped, 2.0/s, 0:05 left", progress.counted(status, "images"))
        self.assertEqual(
            (37, 19, 5),
            tuple(
                json.loads(progress.as_json(status, "images"))["progress"][key]
                for key in ("done", "skipped", "seconds_left")
            ),
        )

    def test_an_ended_run_has_no_time_left_and_no_limit(self):
        status = {
            "state": "abandoned",
            "done_samples": 3,
            "total_samples": 9,
            "samples_per_second": 1,
            "gpu_utilization": 0.5,
            "limiting_stage": "compute",
        }
        self.assertEqual("3/9 images", progress.describe(status, "images"))
        self.assertNotIn("seconds_left", progress.as_json(status, "images"))

    def test_for_json_logs_every_line_is_json(self):
        out = io.StringIO()
        display = progress.make_display("images", "json")
        with contextlib.redirect_stdout(out):
            display.note('a "word"\nmore')
            display.show({"state": "running", "done_samples": 1})
        note, shown = [json.loads(line) for line in out.getvalue().splitlines()]
        self.assertEqual(("info", "launcher", 'a "word"\nmore'), (note["level"], note["program"], note["message"]))
        self.assertEqual(1, shown["progress"]["done"])


class RunCommandTest(unittest.TestCase):
    def test_items_have_their_own_unit(self):
        for unit, config in (
            ("chunks", {"source": "jsonl-text", "chunk-tokens": 64}),
            ("texts", {"source": "jsonl-text", "chunk-tokens": 0}),
            ("chunks", {"source": "text", "chunk-tokens": 64}),
            ("tiles", {"source": "images", "tile": 64}),
            ("images", {"source": "images", "tile": 0}),
            ("samples", {"source": "npy"}),
            ("samples", {"source": "images", "model": "copy"}),
        ):
            self.assertEqual(unit, settings.unit_of(config), config)

    def test_settings_become_a_config_file(self):
        text = settings.to_toml(
            {
                "run-id": "r",
                "run-dir": "/r",
                "output": "",
                "batch": 4,
                "visibility-timeout": 30.0,
                "write-copy": False,
                "input": 'a "b" \\ é',
            }
        )
        self.assertEqual(
            ["batch = 4", "visibility-timeout = 30.0", "write-copy = false", 'input = "a \\"b\\" \\\\ é"'],
            text.splitlines()[1:],
        )

    def test_a_runs_own_settings_are_comments_of_that_file(self):
        with tempfile.TemporaryDirectory() as folder:
            requested = {"output": "", "batch": 4, "consumers": "1..3", "input": "x"}
            settled = {**requested, "output": "/r/output", "consumers": 2, "run-id": "r"}
            pathlib.Path(folder, run_dir.SETTINGS).write_text(settings.to_toml(requested, settled))
            self.assertEqual(settled, run_dir.read_settings(pathlib.Path(folder)))
        self.assertEqual({}, run_dir.read_settings(pathlib.Path("/nowhere")))

    def test_settings_detected_by_the_producer_become_flags(self):
        without = {"processor": "auto", "batch": 0, "delay": 0.0, "normalize": False, "weights": "w", "model": "copy"}
        config = {**without, "processor": "none", "batch": 4, "delay": 0.5, "normalize": True, "weights": ""}
        self.assertEqual(
            ["--processor", "none", "--batch=4", "--delay=0.5", "--normalize=true", "--weights", ""],
            settings.detected_flags(config, without),
        )

    def test_the_demo_runs_without_input_flags(self):
        deeplab = {"model": "deeplabv3-resnet50"}
        self.assertTrue(demo.wants_demo([], deeplab, {}))
        self.assertTrue(demo.wants_demo(["--batch", "4"], deeplab, {}))
        for model in ("copy", "encoder"):
            self.assertFalse(demo.wants_demo([], {"model": model}, {}))
        self.assertFalse(demo.wants_demo([], deeplab, {"OFFRAMP_INPUT": "/images"}))
        for flag in ("--input=/images", "--source", "--batches", "--profile", "--config"):
            self.assertFalse(demo.wants_demo([flag, "x"], deeplab, {}), flag)

    def test_user_pictures_get_the_shipped_model_by_default(self):
        pictures = {"source": "images", "model": "deeplabv3-resnet50"}
        taken = ["--model", "cutout", "--processor", "mask-png,cut-out"]
        self.assertEqual(taken, demo.shipped_model_flags(["--input", "/photos"], pictures, {}))
        self.assertEqual(
            taken, demo.shipped_model_flags([], {**pictures, "source": "jsonl"}, {"OFFRAMP_INPUT": "/photos.jsonl"})
        )
        self.assertEqual(
            taken[:2], demo.shipped_model_flags(["--input=/photos", "--processor", "checksum"], pictures, {})
        )
        self.assertEqual(
            taken[:2], demo.shipped_model_flags(["--input=/photos", "--transform", "class-map"], pictures, {})
        )
        for flag in tuple("--model=deeplabv3-resnet50 --weights=w --profile=article --random-weights".split()):
            self.assertEqual([], demo.shipped_model_flags(["--input", "/photos", flag], pictures, {}), flag)
        self.assertEqual(
            [], demo.shipped_model_flags(["--input", "/photos"], pictures, {"OFFRAMP_RANDOM_WEIGHTS": "1"})
        )
        self.assertEqual([], demo.shipped_model_flags(["--input", "/lines"], {**pictures, "source": "text"}, {}))
        self.assertEqual([], demo.shipped_model_flags(["--batches", "3"], pictures, {}))

    def test_a_settings_file_counts_like_flags(self):
        pictures = {"source": "images", "model": "deeplabv3-resnet50"}
        with tempfile.NamedTemporaryFile("w+", suffix=".toml") as file:
            for text, added in (
                ('input = "/photos"', ["--model", "cutout", "--processor", "mask-png,cut-out"]),
                ('input = "/photos"\nprocessor = "npy"', ["--model", "cutout"]),
                ('input = "/photos"\ngroup = """\na=npy\nb=checksum\n"""', ["--model", "cutout"]),
                ('input = "/photos"\nmodel = "copy"', []),
                ('input = "/photos"\nweights = "w.safetensors"', []),
                ("batch = 3", []),
            ):
                with self.subTest(text):
                    file.seek(0)
                    file.truncate()
                    file.write(text)
                    file.flush()
                    self.assertEqual(added, demo.shipped_model_flags(["--config", file.name], pictures, {}))
                    self.assertEqual(added, demo.shipped_model_flags([], pictures, {"OFFRAMP_CONFIG": file.name}))

    def test_the_demo_keeps_a_requested_model_and_processor(self):
        places = Places(root="/offramp")
        images = ["--input", "/offramp/launch/demo/images"]
        everything = [*images, "--model", "cutout", "--processor", "mask-png,cut-out,overlay"]
        self.assertEqual(everything, demo.demo_flags(places, ["--batch", "4"], {}))
        self.assertEqual([*images, "--model", "cutout"], demo.demo_flags(places, ["--processor", "checksum"], {}))
        for flags, environment in (
            (["--model=deeplabv3-resnet50"], {}),
            (["--weights", "w"], {}),
            ([], {"OFFRAMP_MODEL": "x"}),
        ):
            self.assertEqual(images, demo.demo_flags(places, flags, environment))


class BuildTest(unittest.TestCase):
    def test_the_number_of_jobs_fits_cores_and_memory(self):
        gigabyte = 1 << 30
        for cores, memory, jobs in ((2, 64, 2), (16, 8, 4), (16, 1, 1), (1, 64, 1)):
            self.assertEqual(jobs, build.parallel_jobs(cores, memory * gigabyte))

    def test_two_tests_run_per_core(self):
        self.assertEqual([2, 4, 16], [testing.parallel_tests(cores) for cores in (1, 2, 64)])
        command = testing.ctest_command(Places(root="/r", build="/b"), "release", [], False)
        self.assertEqual(str(testing.parallel_tests()), command[command.index("-j") + 1])

    def test_slow_tests_run_with_all_or_if_arguments_select_them(self):
        def left_out(preset, arguments, everything):
            command = testing.ctest_command(Places(root="/r", build="/b"), preset, arguments, everything)
            self.assertEqual(["ctest", "--test-dir", f"/b/{preset}"], command[:3])
            self.assertEqual(arguments, command[len(command) - len(arguments) :])
            return command[command.index("-LE") + 1] if "-LE" in command else None

        self.assertEqual("^(slow)$", left_out("release", [], False))
        self.assertIsNone(left_out("release", [], True))
        self.assertEqual("^(slow)$", left_out("release", ["-j", "8"], False))
        for given, selects in (
            (["-R", "x"], True),
            (["-Lunit"], True),
            (["-LE", "x"], False),
            (["-j", "8"], False),
        ):
            self.assertEqual(selects, testing.selects_tests(given), given)
        self.assertEqual("^(models|torch|crash|slow)$", left_out("asan", [], False))
        self.assertEqual("^(models|torch|crash)$", left_out("asan", ["-R", "x"], True))

    def test_thread_sanitizer_runs_tests_with_threads(self):
        command = testing.ctest_command(Places(root="/r", build="/b"), "tsan", [], False)
        self.assertEqual("threads", command[command.index("-L") + 1])

    def test_the_ends_of_failed_tests_are_printed(self):
        places = Places(root="/r", build=self.enterContext(tempfile.TemporaryDirectory()))
        report = testing.report_of(places, "release")
        report.parent.mkdir()
        self.assertEqual("", testing.failures_in(report))
        report.write_text("<testsuite><testcase")
        self.assertEqual("", testing.failures_in(report))
        report.with_name("CTestTestfile.cmake").write_text(
            """
            add_test(fine echo fine)
            add_test(bad sh -c "seq -f 'line %.0f' 0 39; false")
            add_test(gone no-such-program)
            add_test(skipped sh -c "echo no GPU here; exit 77")
            add_test(quiet echo no GPU here)
            set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)
            set_tests_properties(quiet PROPERTIES SKIP_REGULAR_EXPRESSION "no GPU")
            """
        )
        command = testing.ctest_command(places, "release", [], True)
        self.assertNotEqual(0, subprocess.run(command, capture_output=True, check=False).returncode)
        printed = testing.failures_in(report)
        self.assertRegex(printed, r"\[test\] bad failed. Its last lines:\nline 28\n(line \d+\n){10}line 39\b")
        self.assertRegex(printed, r"\[test\] gone failed. Its last lines:\n.*no-such-program$")
        for other in ("fine", "skipped", "quiet", "GPU", "line 27"):
            self.assertNotIn(other, printed)

    def test_every_preset_of_the_commands_exists(self):
        presets = {
            preset["name"] for preset in json.loads((REPOSITORY / "CMakePresets.json").read_text())["configurePresets"]
        }
        self.assertLessEqual({"release", *testing.SANITIZED}, presets)


class ExitCodeTest(unittest.TestCase):
    def test_a_signal_becomes_the_code_of_a_shell(self):
        self.assertEqual([0, 84, 137], [shell_code(status) for status in (0, 84, -9)])

    def test_a_shell_code_is_a_death_only_for_fatal_signals(self):
        deaths = {
            132: signal.SIGILL,
            134: signal.SIGABRT,
            135: signal.SIGBUS,
            136: signal.SIGFPE,
            137: signal.SIGKILL,
            139: signal.SIGSEGV,
        }
        self.assertEqual(
            {code: -number for code, number in deaths.items()}, {code: status_behind_a_shell(code) for code in deaths}
        )
        others = [-9, -15, 0, 1, 84, 126, 127, 128, 129, 130, 141, 143, 255]
        self.assertEqual(others, [status_behind_a_shell(status) for status in others])


class DoctorTest(unittest.TestCase):
    def test_too_little_shared_memory_is_reported_with_remedies(self):
        finding = doctor.shared_memory(64 << 20, 64 << 20)
        self.assertEqual(ExitCode.SHARED_MEMORY_FULL, finding.code)
        for remedy in ("--shm-size", "emptyDir", "medium: Memory"):
            self.assertIn(remedy, finding.line())
        self.assertEqual(ExitCode.OK, doctor.shared_memory(2 << 30, 1 << 30).code)

    def test_huge_pages_depend_on_kernel_and_mount(self):
        mounts = "tmpfs / tmpfs rw,huge=always 0 0\ntmpfs /dev/shm tmpfs rw,nosuid{} 0 0\n"
        never = "always within_size advise [never] deny force\n"
        self.assertIn("mount -o remount,huge=advise /dev/shm", doctor.huge_pages(mounts.format(""), never).fix)
        self.assertEqual(ExitCode.OK, doctor.huge_pages("", never).code, "a tip, not a problem")
        self.assertIn("tip: mount", doctor.huge_pages("", never).line())
        advised = mounts.format("") + mounts.format(",size=64g,huge=advise")
        for kernel, words in (
            (never, "huge=advise"),
            (never.replace("[never] deny", "never [deny]"), "forbidden"),
            ("", "has none"),
            (never.replace("[never] deny force", "never deny [force]"), "all shared memory"),
        ):
            found = doctor.huge_pages(advised, kernel)
            self.assertEqual(("", True), (found.fix, words in found.text), kernel)

    def test_a_driver_older_than_the_programs_cuda_is_reported(self):
        old = doctor.driver({"driver_version": 12040, "runtime_version": 13000})
        self.assertIn("for CUDA 12.4; the programs use 13.0", old.text)
        self.assertEqual(ExitCode.DEVICE_UNSUPPORTED, old.code)
        self.assertEqual(ExitCode.OK, doctor.driver({"driver_version": 13010, "runtime_version": 13000}).code)

    def test_a_slab_must_be_page_locked_only_on_a_gpu(self):
        refused = {"registered": False, "error": "operation not supported"}
        self.assertEqual(ExitCode.DEVICE_UNSUPPORTED, doctor.pinning(refused, True).code)
        self.assertIn("operation not supported", doctor.pinning(refused, True).text)
        self.assertEqual(ExitCode.OK, doctor.pinning(refused, False).code)
        self.assertIn("55.3 GB/s", doctor.pinning({"registered": True, "gigabytes_per_second": 55.3}, True).text)

    def test_libtorch_is_detected_from_the_configuration(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
            os.environ.pop("OFFRAMP_BIN_DIR", None)
            places = Places(root=folder, build=folder)
            self.assertEqual(ExitCode.SYSTEM, doctor.libtorch(places).code)
            (places.build / "torch").mkdir()
            (places.build / "torch" / "version.py").write_text("__all__ = []\n__version__ = '2.9.1+cu130'\n")
            (places.build / "release" / "bin").mkdir(parents=True)
            (places.build / "release" / "CMakeCache.txt").write_text(f"offramp_torch_root:PATH={places.build}/torch\n")
            self.assertIn("2.9.1+cu130", doctor.libtorch(places).text)
            places.producer().write_text("#!/bin/sh\necho 'models: copy'\necho 'libc10.so is missing' >&2\n")
            places.producer().chmod(0o755)
            self.assertEqual(ExitCode.DEVICE_UNSUPPORTED, doctor.libtorch(places).code)
            self.assertIn("libc10.so is missing", doctor.libtorch(places).text)
            places.producer().write_text("#!/bin/sh\necho 'models: copy deeplabv3-resnet50'\n")
            self.assertEqual(ExitCode.OK, doctor.libtorch(places).code)

    def test_reports_missing_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            found, obstacle = doctor.probe_machine(pathlib.Path(folder) / "offramp-producer")
        self.assertIsNone(found)
        self.assertIn("not built yet", obstacle)

    def test_an_odd_producer_is_reported_without_a_crash(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "offramp-producer"
            program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
            program.chmod(0o755)
            self.assertIn("ended with 3: broken", doctor.probe_machine(program)[1])

    def test_the_exit_code_is_that_of_the_first_problem(self):
        fine, problem = doctor.Finding("a", ""), doctor.Finding("b", "", "fix", ExitCode.SHARED_MEMORY_FULL)
        self.assertEqual([0, 80], [doctor.exit_code([fine]), doctor.exit_code([fine, problem])])
