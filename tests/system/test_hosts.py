"""Custom processors in C, in Python and as programs: results, failures, and errors before a run."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import unittest

from tests.support.launched_run import ROOT, LaunchedRun
from tests.support.real_run import BIN
from tests.support.waiting import put_away, wait_for

COPY = tuple("--device cpu --model copy --copy-bytes 64KiB --batch 4 --batches 12 --slabs 4 --consumers 2".split())
SAMPLES = 48
OBJECT = BIN / "tests" / "own_processor.so"
# The results of own_processor.c, in Python and as a program.
IN_PYTHON = """
    import os, pathlib, signal

    def save(slab, die="-1", once=""):
        for sample, values in slab:
            if sample.item == int(die):
                try:
                    os.close(os.open(once, os.O_CREAT | os.O_EXCL))
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
            total = int(values.sum())
            slab.progress()
            yield sample, ".sum", f"{total}\\n".encode()
            yield sample, {"sum": total}

    class Saver:
        def __init__(self, **options):
            self.options = options

        def __call__(self, slab):
            return save(slab, **self.options)
"""
AS_A_PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys

hello = json.loads(sys.stdin.readline())
print(json.dumps({{"offramp": 1}}), flush=True)
options = hello["options"]
for line in sys.stdin:
    slab = json.loads(line)["slab"]
    [tensor] = slab["tensors"]
    with open(tensor["path"], "rb") as memory:
        memory.seek(tensor["offset"])
        data = memory.read(tensor["bytes"])
    row = tensor["bytes"] // tensor["shape"][0]
    for sample in slab["samples"]:
        if sample["item"] == int(options.get("die", -1)):
            try:
                os.close(os.open(options["once"], os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        total = sum(data[sample["row"] * row:(sample["row"] + 1) * row])
        print(json.dumps({{"progress": True}}))
        print(json.dumps({{"slab": slab["number"], "file": {{"sample": sample["sample"], "ending": ".sum", "text": f"{{total}}\\n"}}}}))
        print(json.dumps({{"slab": slab["number"], "record": {{"sample": sample["sample"], "fields": {{"sum": total}}}}}}))
    print(json.dumps({{"slab": slab["number"], "done": True}}), flush=True)
"""


def is_dead(pid):
    """True also for a zombie."""
    try:
        return pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def has_numpy():
    return importlib.util.find_spec("numpy") is not None


in_python = unittest.skipIf(not has_numpy(), "skipped: needs NumPy")


class Hosted(unittest.TestCase):
    maxDiff = 3000

    def run_of(self, *flags):
        run = self.enterContext(LaunchedRun(*COPY, "--consumer-python", sys.executable, *flags))
        run.environment.pop("PYTHONPATH", None)  # the run must find the package without it
        return run

    def written(self, run, name, text):
        path = run.folder / name
        path.write_text(textwrap.dedent(text))
        path.chmod(0o755)
        return path

    def run_with(self, function, *flags):
        """(a run, the file with this function)"""
        run = self.run_of(*flags)
        return run, self.written(run, "post.py", function)

    def start_loop(self, run, loop, *flags):
        """Starts a loop of the user, and `offramp consume` for it. Returns the loop."""
        library = {
            "OFFRAMP_LIBRARY": str(BIN.parent / "lib" / "libofframp.so"),
            "PYTHONPATH": str(ROOT / "launch" / "python"),
        }
        started = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(loop), str(run.run_dir)], env={**os.environ, **library}
        )
        self.addCleanup(put_away, started)
        consume = [ROOT / "launch" / "offramp", "consume", "--run-dir", run.run_dir, "--output", run.output]
        with open(run.folder / "launcher.log", "wb") as log:
            run.launcher = subprocess.Popen(
                [*consume, "--consumers", "2", *flags], stdout=log, stderr=log, env=run.environment
            )
        return started

    def kinds(self, run):
        kinds = [f"so:{OBJECT}", f"exec:{self.written(run, 'tool.py', AS_A_PROGRAM)}"]
        if has_numpy():
            post = self.written(run, "post.py", IN_PYTHON)
            kinds += [f"{post}:save", f"python:{post}:Saver"]
        return kinds


class Results(Hosted):
    @classmethod
    def setUpClass(cls):
        with LaunchedRun(*COPY, "--processor", f"so:{OBJECT}") as run:
            assert run.start().wait() == 0, run.logs()
            cls.expected = run.files()
        assert len(cls.expected) == SAMPLES + 1

    def test_each_kind_gives_the_same_results_also_after_a_consumers_kill(self):
        for number in range(len(self.kinds(self.run_of()))):
            for killed in (False, True):
                run = self.run_of()
                kind = self.kinds(run)[number]
                flags = ("--processor-option", f"die=22,once={run.folder / 'once'}") if killed else ()
                with self.subTest(kind=kind, killed=killed):
                    self.assertEqual(run.start("--processor", kind, *flags).wait(), 0, run.logs())
                    self.assertEqual(run.files(), self.expected)
                    self.assertEqual((run.folder / "once").exists(), killed)

    def test_each_of_several_processors_has_its_own_folder(self):
        run = self.run_of()
        kinds = self.kinds(run)
        self.assertEqual(run.start("--processor", ",".join(["checksum", *kinds[:3]])).wait(), 0, run.logs())
        files = run.files()
        self.assertIn("checksum/checksums.tsv", files)
        for folder in ("own_processor.so", "tool.py", *(["post.py-save"] if len(kinds) > 2 else [])):
            self.assertEqual(
                {name.split("/", 1)[1]: data for name, data in files.items() if name.startswith(folder + "/")},
                self.expected,
            )

    def test_a_resumed_run_adds_the_missing_results(self):
        run = self.run_of("--processor", f"so:{OBJECT}", "--batches", "400")
        with run.gate() as gate:
            run.start()
            run.interrupt_behind(gate, 3, 12)
            self.assertEqual(run.wait(), 130, run.logs())
        self.assertEqual(run.start("--resume").wait(), 0, run.logs())
        self.assertGreater(run.summary()["samples"]["done_before"], 0)
        files = run.files()
        records = files.pop("records.jsonl").decode().splitlines()
        self.assertEqual([json.loads(record)["item"] for record in records], list(range(1600)))
        self.assertEqual(len(files), 1600)
        self.assertEqual(
            {name: data for name, data in self.expected.items() if name != "records.jsonl"}.items() - files.items(),
            set(),
        )

    @in_python
    def test_a_function_that_is_too_late_replaces_no_results(self):
        run = self.run_of("--visibility-timeout", "1")
        once = run.folder / "once"
        post = self.written(
            run,
            "post.py",
            IN_PYTHON
            + """
    def late(slab, once):
        if slab.samples[0].item != 20 or pathlib.Path(once).exists():
            yield from save(slab)
            return
        pathlib.Path(once).touch()
        import time
        while slab.still_current():
            time.sleep(0.01)
        for sample in slab.samples:
            yield sample, ".sum", b"late"
            yield sample, {"sum": -1}
        pathlib.Path(once).write_text("it continued")
""",
        )
        self.assertEqual(
            run.start("--processor", f"{post}:late", "--processor-option", f"once={once}").wait(), 0, run.logs()
        )
        self.assertEqual(run.files(), self.expected)
        self.assertEqual(once.read_text(), "it continued")

    def test_files_of_another_user_in_the_output_are_not_replaced(self):
        run = self.run_of("--processor", f"so:{OBJECT}")
        run.output.mkdir()
        (run.output / "7.sum").write_text("mine")
        for more in ((), ("--overwrite",), ("--resume",)):
            self.assertEqual(run.start(*more).wait(), 64, run.logs())
            self.assertIn("holds 7.sum, which is of no Offramp run", run.logs())
        self.assertEqual(run.files(), {"7.sum": b"mine"})


class Failures(Hosted):
    def given_up(self, run, reason, samples=1):
        self.assertEqual(run.wait(), 84, run.logs())
        summary = run.summary()
        self.assertEqual(
            (summary["samples"]["dead_letters"], summary["samples"]["released"], summary["conserved"]),
            (samples, SAMPLES - samples, True),
        )
        self.assertEqual({consumer["exit"] for consumer in summary["consumers"]}, {0}, "no consumer died")
        [incident] = [json.loads(path.read_text()) for path in (run.run_dir / "dead-letters").glob("*.json")]
        self.assertIn(reason, incident["reason"])
        return incident

    @in_python
    def test_a_functions_error_affects_only_its_slab(self):
        cases = {
            "raises": ("raise ValueError('no pixel')", "it failed 3 times: ValueError: no pixel"),
            "rejects": ("raise offramp.Reject('not a picture')", "a consumer rejected it: not a picture"),
            "ends": ("sys.exit(3)", "SystemExit: the processor called sys.exit(3)"),
            "returns": ("return 5", "TypeError: {name} returned int"),
            "writes": ("slab[slab.tensors[0].name][0] = 1", "ValueError: assignment destination is read-only"),
            "keeps": ("kept.append(slab[slab.tensors[0].name][1:2])", "kept a view of its slab's tensor"),
            "yields": ("return iter([(slab.samples[0], 'text')])", "TypeError: {name} yielded a str"),
            "escapes": ("return iter([(slab.samples[0], '/../x', b'')])", "ends with '/../x'"),
            "takes": ("return iter([(slab.samples[0], {'item': 1})])", "has a field 'item'"),
            "exhausts": ("bytearray(1 << 62)", "MemoryError: this process has no memory left"),
            "infinite": ("return iter([(slab.samples[0], {'x': float('inf')})])", "ValueError"),
        }
        for name, (body, reason) in cases.items():
            with self.subTest(name):
                run = self.run_of()
                post = self.written(
                    run,
                    "post.py",
                    f"""
                    import sys, offramp
                    kept = []
                    def {name}(slab):
                        print("seen", slab.samples[0].key)
                        if slab.samples[0].item == 20:
                            {body}
                """,
                )
                run.start("--processor", f"{post}:{name}")
                incident = self.given_up(run, reason.format(name=f"{post}:{name}"))
                self.assertEqual([sample["item"] for sample in incident["samples"]], [20, 21, 22, 23])
                self.assertNotIn("_host.py", json.dumps(incident["deliveries"]))

    @in_python
    def test_a_function_that_fills_its_processs_memory_fails_only_its_slab(self):
        """It writes to arrays up to the process's limit; the process survives."""
        run, post = self.run_with("""
            import os, resource
            import numpy

            ROOM, PART = 256 << 20, 16 << 20

            def fill(slab):
                if slab.samples[0].item != 20:
                    return
                with open("/proc/self/statm") as file:
                    has = int(file.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (has + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1]))
                held = []
                try:
                    while True:
                        held.append(numpy.ones(PART, "uint8"))
                finally:
                    with open(f"{os.path.dirname(__file__)}/filled", "a") as file:
                        print(len(held) * PART, file=file)
        """)
        run.start("--processor", f"{post}:fill")
        incident = self.given_up(run, "it failed 3 times: MemoryError: this process has no memory left")
        self.assertEqual([sample["item"] for sample in incident["samples"]], [20, 21, 22, 23])
        filled = [int(line) for line in (run.folder / "filled").read_text().split()]
        self.assertEqual(len(filled), 6, "three deliveries; then, at the run's end, the slab, its half and the sample")
        self.assertGreaterEqual(min(filled), 128 << 20)

    @in_python
    def test_the_fixed_function_processes_a_dead_letter_again(self):
        run, post = self.run_with("""
            def save(slab):
                for sample, values in slab:
                    yield sample, ".n", str(values.size).encode()
                    if sample.item == 21:
                        raise ValueError("not yet")
        """)
        run.start("--processor", f"{post}:save")
        self.given_up(run, "ValueError: not yet")
        again = run.command("dead-letters", "retry", "--all")
        self.assertNotEqual(again.returncode, 0, again.stdout)
        self.assertIn("not yet", again.stderr + again.stdout)
        post.write_text(post.read_text().replace("raise ValueError", "print"))
        mended = run.command("dead-letters", "retry", "--all", "--output", str(run.folder / "mended"))
        self.assertEqual(mended.returncode, 0, mended.stdout + mended.stderr)
        self.assertEqual(
            sorted(path.name for path in (run.folder / "mended").glob("*.n")), ["20.n", "21.n", "22.n", "23.n"]
        )

    @in_python
    def test_retry_opens_a_dead_letter_in_the_debugger(self):
        run, post = self.run_with("""
            def save(slab):
                for sample, values in slab:
                    double = sample.item * 2
                    if sample.item == 21:
                        raise ValueError("not yet")
        """)
        run.start("--processor", f"{post}:save")
        self.given_up(run, "ValueError: not yet")
        looked = run.command("dead-letters", "retry", "--all", "--pdb", stdin="where\np double + 1000\nq\n")
        self.assertNotEqual(looked.returncode, 0, "the debugger does not change the exit code")
        self.assertEqual(run.command("dead-letters", "retry", "--all").returncode, 84)
        self.assertIn(f"{post}(6)save()", looked.stdout, looked.stderr)
        self.assertIn("1042", looked.stdout)
        self.assertIn("ValueError: not yet", looked.stderr)
        without = run.command("dead-letters", "retry", "--all", "--pdb", "--processor", "mask-png,exec:./post.py:save")
        self.assertEqual(
            (64, True), (without.returncode, "--pdb debugs processors in Python" in without.stderr), without.stderr
        )

    @in_python
    def test_retry_returns_the_slab_until_the_sink_is_available(self):
        run = self.run_of()
        post = self.written(
            run,
            "post.py",
            f"""
            import pathlib, offramp
            def save(slab):
                tries = pathlib.Path({str(run.folder)!r}, "tries")
                if slab.samples[0].item == 20 and (not tries.exists() or len(tries.read_text()) < 2):
                    with tries.open("a") as file:
                        file.write("x")
                    raise offramp.Retry("the server is away")
        """,
        )
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 0, run.logs())
        self.assertIn("the server is away", run.logs())
        self.assertEqual((run.folder / "tries").read_text(), "xx")

    @in_python
    def test_a_function_that_fails_at_every_slab_ends_the_run(self):
        run, post = self.run_with(
            """
            def save(slab):
                raise KeyError("nothing works")
        """,
            "--batches",
            "1000",
        )
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 84, run.logs())
        self.assertRegex(
            run.logs(),
            r"slabs failed 20 times in a row and nothing was completed in between; the last: KeyError: 'nothing works' "
            r"\(\w+\.py:\d+\); the first dead letter: samples? '",
        )

    def test_a_program_that_dies_or_answers_wrongly_fails_only_its_slab(self):
        for body, reason in (
            ("os.kill(os.getpid(), signal.SIGSEGV)", "the program ended by SIGSEGV"),
            ("print('hm', flush=True)", "wrote 'hm'"),
            (
                "print(json.dumps({'slab': slab['number'], 'failed': 'no pixel'}), flush=True); continue",
                "it failed 3 times: no pixel",
            ),
            (
                "print(json.dumps({'slab': slab['number'], 'rejected': 'no picture'}), flush=True); continue",
                "a consumer rejected it: no picture",
            ),
            (
                "print(json.dumps({'slab': slab['number'], 'file': {'sample': 99, 'ending': '.x', 'text': ''}}), flush=True)",
                "no sample 99",
            ),
            (
                "print(json.dumps({'slab': slab['number'], 'file': {'sample': 0, 'ending': '.x', 'path': '/no/file'}}))",
                "the file /no/file of the program cannot be opened",
            ),
            ("print(json.dumps({'slab': slab['number'] - 1, 'done': True}))", "which is not an answer"),
            (
                "print(json.dumps({'slab': slab['number'], 'file': {'sample': 4294967296, 'ending': '.x', 'text': ''}}))",
                "which is not an answer",
            ),
        ):
            with self.subTest(reason):
                run = self.run_of()
                tool = self.written(
                    run,
                    "tool.py",
                    AS_A_PROGRAM.replace(
                        "    [tensor] =", f"    if slab['samples'][0]['item'] == 20:\n        {body}\n    [tensor] ="
                    ),
                )
                run.start("--processor", f"exec:{tool}")
                self.given_up(run, reason)

    def test_answers_after_the_last_one_do_not_count_for_the_next_slab(self):
        run = self.run_of()
        tool = self.written(
            run,
            "tool.py",
            AS_A_PROGRAM.replace(
                '    print(json.dumps({{"slab": slab["number"], "done": True}}), flush=True)'.replace(
                    "{{", "{"
                ).replace("}}", "}"),
                "    print(json.dumps({'slab': slab['number'], 'done': True}))\n"
                "    if slab['samples'][0]['item'] == 20:\n"
                "        print(json.dumps({'slab': slab['number'], 'done': True}))\n"
                "    sys.stdout.flush()",
            ),
        )
        self.assertEqual(run.start("--processor", f"exec:{tool}").wait(), 0, run.logs())
        self.assertEqual(
            len([name for name in run.files() if name.endswith(".sum")]),
            SAMPLES,
            "the next slab failed once, and was done again",
        )

    def test_a_program_dies_with_its_consumer(self):
        run = self.run_of("--consumers", "1")
        pids = run.folder / "pid"
        tool = self.written(
            run,
            "tool.py",
            AS_A_PROGRAM.replace(
                "    [tensor] =",
                f"""    if not os.path.exists({str(pids)!r}):     # only in the first program
        with open({str(pids)!r}, "w") as file:
            file.write(f"{{os.getpid()}} {{os.getppid()}} ")
        import time; time.sleep(600)
    [tensor] =""",
            ),
        )
        run.start("--processor", f"exec:{tool}")
        program, consumer = map(
            int,
            run.until(
                lambda: pids.exists() and pids.read_text().endswith(" ") and pids.read_text().split(),
                "the program at work",
            ),
        )
        os.kill(consumer, signal.SIGKILL)
        wait_for(lambda: is_dead(program), "the program's death")
        self.assertEqual(run.wait(), 0, run.logs())

    @in_python
    def test_a_function_may_start_processes(self):
        run, post = self.run_with("""
            import multiprocessing
            def double(number):
                return 2 * number
            def save(slab):
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    doubled = pool.map(double, [sample.item for sample, values in slab])
                for (sample, values), number in zip(slab, doubled):
                    yield sample, ".n", str(number).encode()
        """)
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 0, run.logs())
        self.assertEqual(run.files()["20.n"], b"40")

    @in_python
    def test_a_function_may_print_and_leave_threads_behind(self):
        run, post = self.run_with("""
            import threading, time, offramp
            late = []
            def look(slab, over):
                over.wait()
                try:
                    slab.samples
                except offramp.TurnOver:
                    late.append("too late")
                time.sleep(1e6)
            def save(slab):
                over = threading.Event()
                threading.Thread(target=look, args=(slab, over), daemon=False).start()
                print("printed of", slab.samples[0].key)
                for sample, values in slab:
                    yield sample, ".n", str(len(late)).encode()
                threading.Timer(0.01, over.set).start()
        """)
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 0, run.logs())
        self.assertEqual(len(run.files()), SAMPLES)
        logs = "".join(path.read_text() for path in (run.run_dir / "logs").glob("consumer-*.log"))
        self.assertEqual(
            sorted(f"printed of {item}" for item in range(0, SAMPLES, 4)),
            sorted(line for line in logs.splitlines() if "printed" in line),
        )

    @in_python
    def test_a_forked_child_that_returns_is_not_a_second_consumer(self):
        run, post = self.run_with("""
            import os
            def save(slab):
                if os.fork() == 0 and slab.samples[0].item % 8 == 0:
                    raise ValueError("in the child")
                for sample, values in slab:
                    yield sample, ".n", str(os.getpid()).encode()
                    yield sample, {"pid": os.getpid()}
        """)
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 0, run.logs())
        files = run.files()
        pids = {json.loads(line)["pid"] for line in files.pop("records.jsonl").splitlines()}
        self.assertEqual((SAMPLES, pids), (len(files), {int(data) for data in files.values()}))
        summary = run.summary()
        self.assertLessEqual(
            pids, {consumer["pid"] for consumer in summary["consumers"]}, "only consumers that the run admitted"
        )
        self.assertEqual(
            (SAMPLES, 2, True), (summary["samples"]["released"], len(summary["consumers"]), summary["conserved"])
        )
        self.assertIn("a forked child returned from the processor", run.logs())

    @in_python
    def test_a_function_that_never_returns_loses_its_slab_and_its_process(self):
        run, post = self.run_with(
            """
            def save(slab):
                while slab.samples[0].item == 20:
                    pass
                for sample, values in slab:
                    yield sample, ".n", b"done"
        """,
            "--visibility-timeout",
            "1",
            "--kill-stalled",
        )
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 84, run.logs())
        self.assertEqual((4, SAMPLES - 4), (run.summary()["samples"]["dead_letters"], len(run.files())))

    @in_python
    def test_files_in_the_working_folder_are_not_used(self):
        run = self.run_of()
        post = self.written(run, "post.py", IN_PYTHON)
        elsewhere = run.folder / "elsewhere"
        elsewhere.mkdir()
        for name in ("offramp.py", "json.py"):
            (elsewhere / name).write_text("raise SystemExit('not yours')")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(elsewhere)
        self.assertEqual(run.start("--processor", f"{post}:save").wait(), 0, run.logs())


class Refused(Hosted):
    """Errors before the run: no batch is computed, and one line reports the cause."""

    def refusal(self, *flags):
        run = self.run_of(*flags)
        self.assertEqual(run.start().wait(), 64, run.logs())
        self.assertFalse((run.run_dir / "logs" / "consumer-1.log").exists(), "no consumer was started")
        return (run.folder / "launcher.log").read_text().strip().splitlines()[-1]

    def test_a_file_that_is_not_a_processor_object(self):
        folder = pathlib.Path(self.enterContext(LaunchedRun()).folder)
        (folder / "text.so").write_text("text")
        for name, words in (
            (folder / "absent.so", "there is no such file"),
            (folder / "text.so", "cannot be loaded"),
            (BIN / "tests" / "libofframp_failpoints.so", "exports no offramp_processor_v1()"),
        ):
            self.assertIn(words, self.refusal("--processor", f"so:{name}"))
        self.assertIn(
            "there is no such option", self.refusal("--processor", f"so:{OBJECT}", "--processor-option", "color=red")
        )
        self.assertIn("Give KEY=VALUE", self.refusal("--processor", f"so:{OBJECT}", "--processor-option", "red"))

    def test_a_program_that_does_not_answer(self):
        self.assertIn("ended with exit code 127", self.refusal("--processor", "exec:/nowhere/tool"))
        self.assertIn("it answered 'hello'", self.refusal("--processor", "exec:echo hello"))

    def test_the_programs_name_all_kinds_in_their_help(self):
        for program in ("offramp-producer", "offramp-consumer"):
            printed = subprocess.run([str(BIN / program), "--help"], capture_output=True, text=True, check=True).stdout
            words = " ".join(printed.partition("--processor ")[2].partition("--output ")[0].split())
            for kind in ("FILE.py:FUNCTION", "python:PACKAGE.MODULE:FUNCTION", "so:FILE.so", "exec:COMMAND"):
                self.assertIn(kind, words)

    @in_python
    def test_a_file_or_function_that_cannot_be_used(self):
        run, post = self.run_with("""
            import asyncio
            def two(slab, other): pass
            async def later(slab): pass
            class NoCall: pass
            class Needs:
                def __init__(self, path): pass
                def __call__(self, slab): pass
            number = 5
        """)
        broken = self.written(run, "broken.py", "import nothing_of_this_name\n")
        for name, words in (
            (f"{post}:three", "has no 'three'. It has two, later, NoCall, Needs"),
            (f"{post}:two", "missing a required argument: 'other'"),
            (f"{post}:later", "is asynchronous"),
            (f"{post}:NoCall", "nor a class with __call__"),
            (f"{post}:number", "is not a function"),
            (f"{post}:Needs", "missing a required argument: 'path'"),
            (f"{broken}:save", "No module named 'nothing_of_this_name'"),
            (f"{post}x.py:save", "x.py does not exist"),
            ("python:no.such.module:save", "No module named 'no'"),
            (f"{post}", "names no function"),
        ):
            with self.subTest(name):
                self.assertIn(words, self.refusal("--processor", name))
        self.assertIn(
            "cannot be started", self.refusal("--processor", f"{post}:Needs", "--consumer-python", "/nowhere/python")
        )

    @in_python
    def test_an_interpreter_without_numpy(self):
        run = self.run_of()
        post = self.written(run, "post.py", IN_PYTHON)
        bare = self.written(
            run,
            "bare-python",
            f"""\
            #!/bin/sh
            exec {sys.executable} -S "$@"
        """,
        )
        printed = self.refusal("--processor", f"{post}:save", "--consumer-python", str(bare))
        self.assertRegex(
            printed,
            rf"{post}:save would run in \S+, which has no NumPy .*Install it there, or give another interpreter with --consumer-python",
        )

    @in_python
    def test_an_interpreter_that_is_too_old(self):
        run = self.run_of()
        post = self.written(run, "post.py", IN_PYTHON)
        old = self.written(
            run,
            "old-python",
            f"""\
            #!/bin/sh
            exec {sys.executable} -c 'import sys, runpy; sys.version_info = (3, 8, 1); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
        """,
        )
        self.assertIn(
            "is Python 3.8. Give one of 3.9 or later with --consumer-python",
            self.refusal("--processor", f"{post}:save", "--consumer-python", str(old)),
        )
