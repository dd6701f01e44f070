"""Checks of any installed package: its command, a custom loop, and all kinds of consumers."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

from tests.support.real_run import require_nothing_left
from tests.support.waiting import WATCHDOG_SECONDS, put_away, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OFFRAMP_BUILD"])
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "launch" / "python" / "offramp" / "_version.py").read_text())[1]
SERIES = VERSION.rpartition(".")[0]
SONAME = f"libofframp.so.{SERIES}"
LOOP = """
    import sys, numpy, offramp

    with offramp.Egress(run_dir=sys.argv[1]) as egress:
        for batch in range(3):
            values = numpy.arange(4 * 5, dtype=numpy.float32).reshape(4, 5) + 100 * batch
            egress.submit({"values": values}, keys=[f"{batch}-{row}" for row in range(4)])
    print(egress is not None)
"""
POST = """
    import sys

    def save(slab):
        for sample, values in slab:
            yield sample, ".txt", f"{sample.key} {values.sum():.0f} {sys.version_info[1]}".encode()
"""
TOOL = """#!{python}
import json, sys
sys.stdin.readline()
print(json.dumps({{"offramp": 1}}), flush=True)
for line in sys.stdin:
    slab = json.loads(line)["slab"]
    for sample in slab["samples"]:
        print(json.dumps({{"slab": slab["number"], "file": {{"sample": sample["sample"], "ending": ".key", "text": sample["key"]}}}}))
    print(json.dumps({{"slab": slab["number"], "done": True}}), flush=True)
"""
VERSIONS = """
    import pathlib, subprocess, offramp

    program = pathlib.Path(offramp.__file__).parent / "programs" / "bin" / "offramp-consumer"
    print(offramp.__version__, offramp.library_version(), sep="\\n")
    print(subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
    print(offramp._library.library()._name)
"""
WITH_CONSUMERS = LOOP.replace("run_dir=sys.argv[1]", 'output=sys.argv[1], processor="./post.py:save", consumers=2')
STARTED = LOOP.replace("run_dir=sys.argv[1]", "")
REFUSING = """
    import offramp

    def save(slab):
        raise offramp.Reject("not wanted")
"""
CONSUMER = """
    import sys, offramp
    print(sorted((sample.key, float(values.sum())) for slab in offramp.Consumer(sys.argv[1]) for sample, values in slab))
"""
DEMO = """
    import pathlib, sys
    sys.path.insert(0, sys.argv[1])
    import network, pictures, png
    output = pathlib.Path(sys.argv[2])
    for number in range(12):
        picture, _ = pictures.make(number)
        classes = network.logits(picture[None]).argmax(1)[0]
        name = f"picture-{number:02}.png"
        assert (png.decoded((output / "mask-png" / name).read_bytes())[..., 0] == classes).all(), name
        [cut_out] = (path for path in output.glob(f"*/{name}") if path.parent.name != "mask-png")
        pixels = png.decoded(cut_out.read_bytes())
        assert (pixels[..., :3] == picture).all() and ((pixels[..., 3] > 0) == (classes > 0)).all(), name
    print(png.decoded((output / "contact-sheet.png").read_bytes()).shape)
"""


def clean_environment():
    """
    The environment, without variables that point to the tree. The tests import NumPy a hundred times and need no BLAS
    threads.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OFFRAMP_", "PYTHON", "LD_", "VIRTUAL_ENV"))
    }
    return {**kept, "OPENBLAS_NUM_THREADS": "1"}


def soname_of(library):
    printed = subprocess.run(
        ["readelf", "--dynamic", str(library)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return re.search(r"\(SONAME\).*\[(.+)\]", printed)[1]


def contract_of_processors(consumer, python, which="*"):
    """The suite of tests/contract/processors over custom processors, run by this consumer."""
    named = {"OFFRAMP_TEST_CONSUMER": str(consumer), "OFFRAMP_TEST_CONSUMER_PYTHON": str(python)}
    return subprocess.run(
        [str(BUILD / "bin" / "tests" / "contract_processors"), f"--gtest_filter=Hosted/ProcessorContract.{which}"],
        capture_output=True,
        text=True,
        env={**clean_environment(), **named},
        timeout=3 * WATCHDOG_SECONDS,
        check=False,
    )


def tests_of_the_package(python, *modules, before=()):
    """Runs tests that import the package by name. `before`: folders first in this Python's path."""
    environment = {
        **clean_environment(),
        "PYTHONPATH": os.pathsep.join(map(str, [*before, ROOT])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [str(python), "-m", "unittest", *modules],
        cwd=ROOT / "tests" / "python",
        capture_output=True,
        text=True,
        env=environment,
        timeout=3 * WATCHDOG_SECONDS,
        check=False,
    )


def sums():
    return {f"{batch}-{row}": 5 * (100 * batch + 5 * row) + 10 for batch in range(3) for row in range(4)}


class Installed:
    """One installation, and a working folder outside the tree. `environment`: additional variables."""

    def __init__(self, case, folder, python, command, environment=()):
        self.case, self.folder, self.python, self.command = (
            case,
            pathlib.Path(folder),
            str(python),
            [str(word) for word in command],
        )
        self.environment = {
            **clean_environment(),
            "HOME": str(self.folder),
            "OFFRAMP_TEST_RUNS": str(self.folder / "r"),
            **dict(environment),
        }
        case.addCleanup(require_nothing_left, case)

    def written(self, name, text):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        path.chmod(0o755)
        return path

    def call(self, *words, code=0):
        """The command's output."""
        done = subprocess.run(
            [*self.command, *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        self.case.assertEqual(code, done.returncode, done.stdout)
        self.case.assertNotIn("Traceback", done.stdout)
        return done.stdout

    def ask(self, program, *arguments, code=0):
        """The output of a program in the installation's Python."""
        done = subprocess.run(
            [self.python, "-c", textwrap.dedent(program), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )
        self.case.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def start(self, program, *arguments):
        process = subprocess.Popen(
            [self.python, "-c", textwrap.dedent(program), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.case.addCleanup(put_away, process)
        return process

    def end(self, process, code=0):
        printed, _ = process.communicate(timeout=WATCHDOG_SECONDS)
        self.case.assertEqual(code, process.returncode, printed)
        return printed

    def require_one_version(self):
        """The versions of package, library, programs, command and SONAME."""
        for words in (["version"], ["--version"]):
            self.case.assertEqual(f"offramp {VERSION}\n", self.call(*words))
        package, library, program, path = self.ask(VERSIONS).splitlines()
        self.case.assertEqual((VERSION, VERSION, f"offramp-consumer {VERSION}"), (package, library, program))
        self.case.assertEqual(SONAME, soname_of(path))

    def require_consumers_of_all_kinds(self, minor, *flags):
        """
        Chains a function, a shared object, a program and a built-in processor. `minor`: the version of the function's
        interpreter.
        """
        run_dir, output = self.folder / "run", self.folder / "results"
        self.written("post.py", POST)
        self.written("tool", TOOL.format(python=sys.executable))
        loop = self.start(LOOP, run_dir)
        own = BUILD / "bin" / "tests" / "own_processor.so"
        self.call(
            "consume",
            "--run-dir",
            run_dir,
            "--processor",
            f"./post.py:save,so:{own},exec:./tool,npy",
            "--output",
            output,
            "--consumers",
            "2",
            *flags,
        )
        self.end(loop)
        folders = {
            folder.name: folder for folder in output.iterdir() if folder.is_dir() and not folder.name.startswith(".")
        }
        self.case.assertEqual(4, len(folders), sorted(folders))
        made = {path.suffix: {} for path in output.rglob("*") if path.is_file()}
        for path in output.rglob("*-*.*"):
            made[path.suffix][path.name] = path
        self.case.assertEqual(
            {f"{key}.txt": f"{key} {total} {minor}" for key, total in sums().items()},
            {name: path.read_text() for name, path in made[".txt"].items()},
        )
        self.case.assertEqual(
            {f"{key}.key": key for key in sums()}, {name: path.read_text() for name, path in made[".key"].items()}
        )
        self.case.assertEqual({f"{key}.sum" for key in sums()}, set(made[".sum"]))
        self.case.assertEqual({f"{key}.values.npy" for key in sums()}, set(made[".npy"]))

    def require_dead_letters_can_be_retried(self):
        run_dir = self.folder / "refused"
        self.written("refusing.py", REFUSING)
        self.written("post.py", POST)
        loop = self.start(LOOP, run_dir)
        self.call(
            "consume",
            "--run-dir",
            run_dir,
            *"--processor ./refusing.py:save --output nothing --consumers 1".split(),
            code=84,
        )
        self.end(loop, code=1)  # offramp.ConsumersFailed
        name = self.call("dead-letters", "list", "--run-dir", run_dir).splitlines()[1].split()[0]
        self.case.assertIn("not wanted", self.call("dead-letters", "show", name, "--run-dir", run_dir))
        self.call(
            "dead-letters", "retry", "--all", "--run-dir", run_dir, "--processor", "./post.py:save", "--output", "tried"
        )
        self.case.assertEqual(
            {f"{key}.txt" for key in sums()}, {path.name for path in (self.folder / "tried").glob("*.txt")}
        )

    def require_a_loop_with_consumers(self, minor):
        """Checks a loop whose Egress starts consumers, and a loop that the command starts."""
        self.written("post.py", POST)
        self.written("started.py", STARTED)
        self.ask(WITH_CONSUMERS, "by-egress")
        self.call(
            "run",
            "--producer",
            f"{self.python} started.py",
            *"--processor ./post.py:save --consumers 2 --output by-command".split(),
        )
        for folder in ("by-egress", "by-command"):
            self.case.assertEqual(
                {f"{key}.txt": f"{key} {total} {minor}" for key, total in sums().items()},
                {path.name: path.read_text() for path in (self.folder / folder).glob("*.txt")},
            )

    def require_processor_templates(self):
        for language, ending in (("python", ".py"), ("c", ".c"), ("c++", ".cpp")):
            name = f"mine_in_{ending[1:]}"
            self.call("new-processor", name, "--lang", language)
            text = (self.folder / (name + ending)).read_text()
            self.case.assertIn(" offramp consume --run-dir RUN --processor ", text)
            self.case.assertNotIn("launch/offramp", text)
            if language == "python" or shutil.which("cc") and shutil.which("c++"):
                done = subprocess.run(
                    [self.python, f"test_{name}.py"],
                    cwd=self.folder,
                    env=self.environment,
                    capture_output=True,
                    text=True,
                    timeout=WATCHDOG_SECONDS,
                    check=False,
                )
                self.case.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def require_a_custom_consumer(self):
        run_dir = self.folder / "own"
        loop = self.start(LOOP, run_dir)
        wait_for(lambda: (run_dir / "live/endpoint").exists() or loop.poll() is not None, "the loop's run")
        self.case.assertEqual(
            f"{sorted((key, float(total)) for key, total in sums().items())}\n", self.ask(CONSUMER, run_dir)
        )
        self.end(loop)

    def require_success(self, tests, least):
        self.case.assertEqual(0, tests.returncode, tests.stderr)
        self.case.assertGreaterEqual(int(re.search(r"Ran (\d+) tests", tests.stderr)[1]), least, tests.stderr)

    def require_the_contract_of_processors(self, suite):
        """Equal results of all three kinds of custom processors."""
        self.case.assertEqual(0, suite.returncode, suite.stdout)
        passed = {
            kind: re.findall(rf"       OK \] Hosted/ProcessorContract\.(\w+)/{kind} ", suite.stdout)
            for kind in ("so", "exec", "python")
        }
        self.case.assertGreaterEqual(len(passed["python"]), 10, suite.stdout)
        self.case.assertEqual([passed["python"]] * 2, [passed["so"], passed["exec"]])

    def require_a_run_can_be_scaled_and_stopped(self, run_dir, loop):
        """`loop` drains its run when its standard input is closed."""
        consuming = subprocess.Popen(
            [
                *self.command,
                "consume",
                "--run-dir",
                str(run_dir),
                *"--processor npy --output steered --consumers 1".split(),
            ],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.case.addCleanup(put_away, consuming)

        def status():
            done = subprocess.run(
                [*self.command, "status", "--json"],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            return json.loads(done.stdout) if done.returncode == 0 else {}

        wait_for(lambda: status().get("consumers_alive") == 1, "the command to find the run")
        self.case.assertIn("1 -> 2 consumers", self.call("scale", "2"))
        wait_for(
            lambda: status().get("consumers_alive") == 2 and len(list((self.folder / "steered").glob("*.npy"))) == 4,
            "another consumer and the results",
        )
        self.case.assertIn("consumers 2 alive, 2 wanted", self.call("status"))
        self.case.assertIn("ended", self.call("stop"))
        printed, _ = consuming.communicate(timeout=WATCHDOG_SECONDS)
        self.case.assertEqual(130, consuming.returncode, printed)
        self.case.assertIn("start them with this command and --resume", printed)
        self.case.assertIn("no dead letters", self.call("dead-letters", "list", "--run-dir", run_dir))
        loop.stdin.close()
        loop.stdin = None
        self.end(loop)

    def require_the_demo(self, scripts):
        printed = self.call("demo", "--output", "shown")
        self.case.assertIn("12 pictures, a mask and a cut-out of each", printed)
        self.case.assertEqual("(1200, 1200, 3)\n", self.ask(DEMO, scripts, self.folder / "shown"))

    def require_a_refused_demo_leaves_nothing(self):
        """Refused before its loop starts, or after; the test's end checks for leftovers in memory."""
        file = self.written("mine", "no folder")
        for flags, code in ((("--processor", "nonsense"), 64), (("--consumers", "99"), 64), (("--output", file), 73)):
            self.call("demo", *flags, code=code)
        self.case.assertEqual("no folder", file.read_text())
