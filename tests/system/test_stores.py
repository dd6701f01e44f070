"""
--output s3://BUCKET/PREFIX: objects equal an undisturbed run's files, whatever dies, and objects of other work stay as
they are. The server is moto's, behind a front that holds and refuses requests. gs:// and az:// were tried with servers
of our own only, which follow the documents of Google and Azure: tests/support/other_stores.py.
"""

import collections
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tests.support.launched_resume import WATCHDOG_SECONDS, World
from tests.support.launched_run import ROOT, find_packages_of_launch
from tests.support.real_run import BIN, require_nothing_left
from tests.support.waiting import put_away, wait_for

try:
    import obstore  # noqa: F401

    from tests.support.object_store import ObjectStore
    from tests.support.other_stores import AzureStore, GoogleStore
except ImportError:
    ObjectStore = AzureStore = GoogleStore = None

COPY = (
    *"--device cpu --model copy --consumers 2 --slabs 4 --copy-bytes 64KiB --batch 4 --batches 8".split(),
    *"--samples-per-slab 4 --processor npy,checksum --status-seconds 0.05".split(),
)
TOOL = """
import json, pathlib, sys
folder = pathlib.Path(json.loads(sys.stdin.readline())["output"], "own")
print(json.dumps({"offramp": 1}), flush=True)
for line in sys.stdin:
    slab = json.loads(line)["slab"]
    for each in slab["samples"]:
        folder.mkdir(exist_ok=True)
        (folder / each["key"]).write_text("written by the tool")
        file = {"sample": each["sample"], "ending": ".txt", "text": each["key"]}
        print(json.dumps({"slab": slab["number"], "file": file}))
        print(json.dumps({"slab": slab["number"], "record": {"sample": each["sample"], "fields": {"a": 1}}}))
    print(json.dumps({"slab": slab["number"], "done": True}), flush=True)
"""
LAUNCHER = (sys.executable, "-E", "-s", "-B", str(ROOT / "launch/offramp_launch"))
LOOP = """
import sys
import numpy, offramp
batches = [([f"{b}/{row}" for row in range(3)], numpy.full((3, 4), b, "float32")) for b in range(int(sys.argv[2]))]
with offramp.Egress(output=sys.argv[1], processor="npy", consumers=2, resume="resume" in sys.argv) as egress:
    for keys, values in egress.pending(batches):
        egress.submit({"values": values}, keys)
        print("submitted", flush=True)
"""


def environment_of_loops(world):
    return {
        **world.environment,
        "OFFRAMP_LIBRARY": str(BIN.parent / "lib/libofframp.so"),
        "PYTHONPATH": str(ROOT / "launch/python"),
    }


class StoredWorld(World):
    """Runs into one prefix, by the launcher in this Python, which has obstore."""

    def __init__(self, store, *flags, prefix="results"):
        super().__init__(*flags, output=f"{store.scheme}://bucket/{prefix}")
        self.environment |= store.environment

    run_dir = property(lambda self: self.folder / "run")

    def start(self, *flags):
        """The first run chooses its run directory; later ones find it by the prefix."""
        self.runs += 1
        where = [] if "--resume" in flags else ["--run-dir", str(self.run_dir)]
        own = ["--run-id", self.run_id(), "--output", self.output, *where]
        with open(self.folder / "launcher.log", "wb") as log:
            self.launcher = subprocess.Popen(
                [*LAUNCHER, "run", *self.flags, *flags, *own],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
            )
        return self

    def call(self, *words):
        """(exit code, output)"""
        done = subprocess.run(
            [*LAUNCHER, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    @contextlib.contextmanager
    def failpoint(self, order):
        """Yields the file that exists once the failpoint has acted."""
        before, once = self.environment, self.folder / "once"
        once.mkdir(exist_ok=True)
        self.environment = {
            **before,
            "LD_PRELOAD": str(BIN / "tests" / "libofframp_failpoints.so"),
            "OFFRAMP_FAILPOINT": order,
            "OFFRAMP_FAILPOINT_ONCE": str(once),
        }
        yield once / order.partition("#")[0]
        self.environment = before


@unittest.skipUnless(ObjectStore, "no object store: obstore or moto is missing")
class WithAStore(unittest.TestCase):
    Store = ObjectStore

    def setUp(self):
        self.store = self.Store()
        self.store.__enter__()
        self.addCleanup(self.store.__exit__, None, None, None)

    def world(self, *flags, **more):
        world = StoredWorld(self.store, *flags, **more)
        world.__enter__()
        self.addCleanup(require_nothing_left, self, world.shared_memory)
        self.addCleanup(world.__exit__, None, None, None)
        return world

    @staticmethod
    @functools.lru_cache()
    def local_files(*flags):
        with World(*flags) as world:
            assert world.start().wait() == 0, world.logs()
            return {
                str(path.relative_to(world.output)): path.read_bytes()
                for path in world.output.rglob("*")
                if path.is_file() and not path.name.startswith(".")
            }

    def require_whole(self, prefix="results", flags=COPY):
        """The objects are those of an undisturbed local run, and each was stored once."""
        self.assertEqual(self.local_files(*flags), self.store.objects(prefix))
        times = collections.Counter(key for key in self.store.stored if not key.endswith("/.offramp-output"))
        self.assertEqual({1}, set(times.values()), times)

    def refused(self, code, text, *flags, output="", **environment):
        world = self.world(*flags)
        world.output = output or world.output
        given = world.environment | environment
        world.environment = {name: value for name, value in given.items() if value is not None}
        self.assertEqual(code, world.start().wait(), world.logs())
        self.assertIn(text, (world.folder / "launcher.log").read_text())


class Objects(WithAStore):
    def test_objects_are_the_files_of_a_local_run(self):
        world = self.world(*COPY)
        self.assertEqual(0, world.start().wait(), world.logs())
        self.require_whole()
        self.assertEqual([], list((world.run_dir / "output").rglob("*.npy")))
        self.assertFalse((world.run_dir / "live/uploads").exists())
        self.assertEqual("s3://bucket/results", world.summary()["output"])
        self.assertEqual(0, world.start("--resume").wait(), world.logs())
        self.assertEqual(0, world.summary()["samples"]["released"])
        self.require_whole()

    def test_files_and_records_of_a_users_program(self):
        world = self.world(*COPY)
        (world.folder / "tool.py").write_text(TOOL)
        tool = f"exec:{sys.executable} {world.folder / 'tool.py'}"
        self.assertEqual(0, world.start("--processor", tool).wait(), world.logs())
        objects = self.store.objects("results")
        records = objects.pop("records.jsonl").decode().splitlines()
        self.assertEqual(list(range(32)), [json.loads(line)["item"] for line in records])
        wanted = {f"{item}.txt": str(item).encode() for item in range(32)}
        wanted |= {f"own/{item}": b"written by the tool" for item in range(32)}
        self.assertEqual(wanted, objects)

    def test_credentials_of_a_file(self):
        """As boto3 finds them."""
        world = self.world(*COPY)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del world.environment[name]
        file = world.folder / "credentials"
        file.write_text("[default]\naws_access_key_id = anybody\naws_secret_access_key = nothing\n")
        world.environment["AWS_SHARED_CREDENTIALS_FILE"] = str(file)
        self.assertEqual(0, world.start().wait(), world.logs())
        self.require_whole()

    def test_a_run_without_results_gives_the_prefix_up(self):
        world = self.world("--input", "/nowhere", *COPY)
        self.assertNotEqual(0, world.start().wait(), world.logs())
        self.assertEqual({}, self.store.objects("results", own=True))
        self.assertEqual(0, self.world(*COPY).start().wait())

    def test_a_copy_of_the_run_directory_continues_elsewhere(self):
        world = self.world(*COPY)
        with world.failpoint("consumer.committed#2:stop") as acted:
            world.start()
            world.until(acted.exists, "the failpoint")
            world.kill_everything()
        moved = world.folder / "elsewhere"
        os.rename(world.run_dir, moved)
        self.assertEqual(64, world.start("--resume").wait())
        self.assertIn(f"whose checkpoint is not in {world.run_dir} on this host", world.logs())
        self.assertEqual(0, world.start("--resume", "--run-dir", str(moved)).wait(), world.logs())
        self.require_whole()
        self.assertEqual(64, world.start("--run-dir", str(moved)).wait())
        self.assertEqual(0, world.start("--resume").wait(), world.logs())


class Refusals(WithAStore):
    def test_other_work_is_refused_and_stays(self):
        self.assertEqual(0, self.world(*COPY).start().wait())
        before = self.store.objects("results", own=True)
        self.refused(64, "holds the work of run test-", *COPY)
        self.refused(64, "--overwrite does not go with", *COPY, "--overwrite")
        self.refused(64, "is not empty: it holds", *COPY, output="s3://bucket/results/npy")
        self.store.put("others/a.txt", b"mine")
        self.refused(64, "is not empty: it holds a.txt", *COPY, output="s3://bucket/others")
        self.refused(64, "NoSuchBucket", *COPY, output="s3://nobucket/results")
        for processor in ("records", "embeddings-sqlite", "npy,records"):
            self.refused(64, "it writes a database", *COPY[:-4], "--processor", processor, output="s3://bucket/db")
        self.refused(64, "it writes to --write-path", *COPY[:-4], "--processor", "npy,write", output="s3://bucket/db")
        self.refused(64, "--gpus cannot be combined with", *COPY, "--gpus", "2", output="s3://bucket/gpus")
        self.refused(64, "https:// is not supported", *COPY, output="https://host/results")
        self.assertEqual(before, self.store.objects("results", own=True))
        self.assertEqual({"a.txt"}, set(self.store.objects("others", own=True)))
        self.store.refuse = lambda method, key: "403 Forbidden" if key.startswith("forbidden/") else None
        self.refused(64, "403 Forbidden: Refused: by the test", *COPY, output="s3://bucket/forbidden")
        self.store.refuse, self.store.ignores_conditions = lambda method, key: None, True
        self.refused(64, "ignores conditional writes", *COPY, output="s3://bucket/unconditional")
        self.assertEqual({}, self.store.objects("unconditional", own=True))


class Faults(WithAStore):
    def test_requests_that_fail_for_a_while_are_repeated(self):
        left = collections.Counter({"503 Slow Down": 9, "500 Internal Server Error": 9, "429 Too Many Requests": 9})

        def refuse(method, key):
            if method != "PUT" or not key.endswith(".npy") or not +left:
                return None
            status = next(iter(+left))
            left[status] -= 1
            return status

        self.store.refuse = refuse
        world = self.world(*COPY)
        self.assertEqual(0, world.start().wait(), world.logs())
        self.assertFalse(+left)
        self.require_whole()

    def test_a_lost_permission_ends_the_run_and_resume_continues(self):
        def refuse(method, key):
            return "403 Forbidden" if method == "PUT" and len(self.store.stored) > 10 else None

        self.store.refuse = refuse
        world = self.world(*COPY)
        self.assertEqual(64, world.start().wait(), world.logs())
        self.assertIn("403 Forbidden", world.summary()["failure"])
        self.store.refuse = lambda method, key: None
        self.assertEqual(0, world.start("--resume").wait(), world.logs())
        self.require_whole()

    def test_another_works_object_stays_and_its_sample_becomes_a_dead_letter(self):
        world = self.world(*COPY)
        self.store.hold = lambda method, key: method == "PUT" and key.endswith(".npy")
        world.start()
        self.store.wait_for_held()
        self.store.put("results/npy/17.payload.npy", b"of another program")
        self.store.release()
        self.assertEqual(84, world.wait(), world.logs())
        self.assertEqual(b"of another program", self.store.objects("results")["npy/17.payload.npy"])
        (left,) = world.summary()["dead_letters"]
        self.assertEqual(1, left["samples"])
        self.assertIn("npy/17.payload.npy exists and is not of this work", left["reason"])
        self.store.remove("results/npy/17.payload.npy")
        code, output = world.call("dead-letters", "retry", "--all", "--run-dir", str(world.run_dir))
        self.assertEqual(0, code, output)
        self.require_whole()

    def test_names_that_no_object_can_have_become_dead_letters(self):
        world = self.world(*COPY)
        tool = world.folder / "tool.py"
        tool.write_text(TOOL.replace('folder / each["key"])', 'folder / each["key"].replace("17", "1\\t7"))'))
        self.assertEqual(84, world.start("--processor", f"exec:{sys.executable} {tool}").wait(), world.logs())
        (left,) = world.summary()["dead_letters"]
        self.assertEqual(1, left["samples"])
        self.assertIn('Path "own/1\t7"', left["reason"])

    def test_the_death_of_a_program_that_stores_objects_counts_as_a_failure(self):
        world = self.world(*COPY)
        self.store.hold = lambda method, key: method == "PUT" and key.endswith("/9.payload.npy")
        world.start()
        self.store.wait_for_held()
        for pid in world.processes():
            with contextlib.suppress(OSError):
                if b"uploader-of-a-consumer" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        self.store.release()
        self.assertEqual(0, world.wait(), world.logs())
        self.assertIn("ended by SIGKILL", world.logs())
        self.assertNotIn("exit code 75", (world.folder / "launcher.log").read_text())
        self.require_whole()

    def test_a_silent_store_is_given_up_earlier_for_small_requests(self):
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, self.store.environment),
            mock.patch.multiple(store, REQUEST_SECONDS=1, SLOWEST=64 << 10),
            concurrent.futures.ThreadPoolExecutor() as pool,
        ):
            small, large = pathlib.Path(folder, "small"), pathlib.Path(folder, "large")
            small.write_bytes(b"few bytes")
            large.write_bytes(bytes(8 << 20))
            opened = store.Store("s3://bucket/results", patience=0)
            self.store.hold = lambda method, key: True
            put = pool.submit(opened.store_file, "large", large, "mine")
            self.store.wait_for_held()
            for call in (
                lambda: opened.read("small"),
                lambda: opened.names(1),
                lambda: opened.store_file("small", small, "mine"),
            ):
                with self.assertRaises(store.Unavailable):
                    call()
            self.store.release()
            put.result()
            self.assertEqual(large.read_bytes(), self.store.objects("results")["large"])


class Requests(WithAStore):
    """One process's, to each vendor's server."""

    def test_a_conflict_of_two_writers_is_repeated(self):
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, self.store.environment):
            file = pathlib.Path(folder, "file")
            opened = store.Store(f"{self.store.scheme}://bucket/results")
            file.write_bytes(b"earlier")
            opened.store_file("file", file, "mine")
            file.write_bytes(b"later")
            left = ["409 Conflict"] * 6  # both writes, with the library's own repetitions
            self.store.refuse = lambda method, key: left.pop() if method == "PUT" and left else None
            opened.store_file("file", file, "mine")
            self.assertEqual([], left)
            self.assertEqual({"file": b"later"}, self.store.objects("results"))

    def test_the_same_bytes_are_stored_once(self):
        """A store that forbids replacing an object takes a second delivery."""
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, self.store.environment):
            file = pathlib.Path(folder, "file")
            opened = store.Store(f"{self.store.scheme}://bucket/results")
            for data, stored in ((b"same", 1), (b"same", 1), (b"size", 2), (b"", 3), (b"", 3)):
                file.write_bytes(data)
                opened.store_file("file", file, "mine")
                self.assertEqual((data, stored), (self.store.objects("results")["file"], len(self.store.stored)))

    def test_large_files_are_stored_in_parts(self):
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, self.store.environment),
            mock.patch.multiple(store, LARGE=1 << 20, PART=5 << 20),
        ):
            file = pathlib.Path(folder, "large")
            file.write_bytes(os.urandom(12 << 20))
            opened = store.Store(f"{self.store.scheme}://bucket/results")
            for _ in range(2):  # a second delivery
                opened.store_file("large", file, "mine")
                self.assertEqual({"large": file.read_bytes()}, self.store.objects("results"))
            with self.assertRaisesRegex(store.Failed, "is not of this work"):
                opened.store_file("large", file, "another")

    def test_refused_credentials_are_refused_by_each_status(self):
        """Not counted as a failure of one object."""
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        with mock.patch.dict(os.environ, self.store.environment):
            opened = store.Store(f"{self.store.scheme}://bucket/results")
            for status, code, error in (
                ("400 Bad Request", b"ExpiredToken", store.Refused),
                ("401 Unauthorized", b"Refused", store.Refused),
                ("403 Forbidden", b"Refused", store.Refused),
                ("400 Bad Request", b"InvalidRequest", store.Failed),
            ):
                self.store.refusal = self.store.refusal.replace(b"Refused", code)
                self.store.refuse = lambda method, key, status=status: status
                with self.subTest(status=status, code=code), self.assertRaises(error) as refused:
                    opened.create("object", b"data", "mine")
                self.assertRegex(str(refused.exception), f"{status}: {code.decode()}: by the test$")
                self.store.refusal = self.store.refusal.replace(code, b"Refused")


class Vendors:
    """Runs into another vendor's store."""

    def test_faults_pass_others_are_refused_and_resume_continues(self):
        left = collections.Counter({"503 Slow Down": 6, "500 Internal Server Error": 6, "429 Too Many Requests": 6})

        def refuse(method, key):
            if method != "PUT" or not key.endswith(".npy") and +left:
                return None
            if not +left:
                return "403 Forbidden" if len(self.store.stored) > 10 else None
            status = next(iter(+left))
            left[status] -= 1
            return status

        self.store.refuse = refuse
        world = self.world(*COPY)
        self.assertEqual(64, world.start().wait(), world.logs())
        self.assertIn("403 Forbidden: Refused: by the test", world.summary()["failure"])
        self.assertFalse(+left)
        before = self.store.objects("results", own=True)
        self.store.refuse = lambda method, key: None
        self.refused(64, "holds the work of run test-", *COPY)
        self.assertEqual(before, self.store.objects("results", own=True))
        with world.failpoint("consumer.committed#2:stop") as acted:
            world.start("--resume")
            world.until(acted.exists, "the failpoint")
            world.kill_everything()
        self.assertEqual(0, world.start("--resume").wait(), world.logs())
        self.require_whole()

    def test_a_store_that_cannot_be_written_is_refused(self):
        name = self.store.scheme + "://"
        self.refused(64, self.no_bucket, *COPY, output=f"{name}nobucket/results")
        self.store.put("others/a.txt", b"mine")
        self.refused(64, "is not empty: it holds a.txt", *COPY, output=f"{name}bucket/others")
        self.refused(64, self.flawed[1], *COPY, **self.flawed[0])
        self.refused(64, self.variables, *COPY, **self.flawed[0])
        self.store.refuse = lambda method, key: "403 Forbidden"
        self.refused(64, "403 Forbidden: Refused: by the test", *COPY)
        self.refused(64, self.checked, *COPY)
        self.store.refuse, self.store.ignores_conditions = lambda method, key: None, True
        self.refused(64, "ignores conditional writes", *COPY)
        self.assertEqual({}, self.store.objects("results", own=True))
        self.assertEqual({"a.txt": b"mine"}, self.store.objects("others", own=True))

    def test_a_loop(self):
        world = self.world()
        command = [sys.executable, "-c", LOOP, world.output, "2"]
        loop = subprocess.run(command, env=environment_of_loops(world), capture_output=True, text=True, check=False)
        self.assertEqual(0, loop.returncode, loop.stderr)
        wanted = {f"{batch}/{row}.values.npy" for batch in range(2) for row in range(3)}
        self.assertEqual(wanted, set(self.store.objects("results")))


class Google(Vendors, Requests):
    Store = GoogleStore
    no_bucket = "404 Not Found: NoSuchBucket: The specified bucket does not exist."
    flawed = ({"GOOGLE_SERVICE_ACCOUNT_KEY": "{}"}, "Unable to decode service account file")
    variables = "Give gs://BUCKET/PREFIX, and credentials: GOOGLE_APPLICATION_CREDENTIALS"
    checked = "Check the bucket's name, and the credentials: GOOGLE_APPLICATION_CREDENTIALS"


class Azure(Vendors, Requests):
    Store = AzureStore
    no_bucket = "404 Not Found: ContainerNotFound: The specified container does not exist."
    flawed = ({"AZURE_STORAGE_ACCOUNT_NAME": None}, "Account must be specified")
    variables = (
        "Give az://CONTAINER/PREFIX, and credentials: AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or"
    )
    checked = (
        "Check the container's name, and the credentials: AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY"
    )

    def test_a_refused_secret_is_refused(self):
        """The server of tokens answers, not that of objects."""
        find_packages_of_launch(self)
        from offramp_launch.stores import store

        del self.store.environment["AZURE_STORAGE_ACCOUNT_KEY"]
        names = ("CLIENT_ID", "CLIENT_SECRET", "TENANT_ID")
        client = {f"AZURE_STORAGE_{name}": "nothing" for name in names} | {"AZURE_AUTHORITY_HOST": self.store.endpoint}
        with mock.patch.dict(os.environ, self.store.environment | client):
            opened = store.Store("az://bucket/results", patience=0)
            for status, error in (("400 Bad Request", store.Refused), ("503 Slow Down", store.Unavailable)):
                self.store.refuse = lambda method, key, status=status: status if "oauth2" in key else None
                with self.assertRaisesRegex(error, "token request"):
                    opened.create("object", b"data", "mine")


class Outages(WithAStore):
    def test_consumers_wait_for_a_store_that_gives_no_answer(self):
        self.store.refuse = lambda method, key: "503 Slow Down" if method == "PUT" and key.endswith(".npy") else None
        world = self.world(*COPY)
        world.start()
        world.until(lambda: "exit code 75" in (world.folder / "launcher.log").read_text(), "a consumer that gave up")
        self.assertEqual(0, world.status()["dead_lettered_samples"])
        self.store.refuse = lambda method, key: None
        self.assertEqual(0, world.wait(), world.logs())
        self.require_whole()

    def test_a_loop_says_that_it_waits_for_a_store(self):
        self.store.refuse = lambda method, key: "503 Slow Down" if method == "PUT" and key.endswith(".npy") else None
        world = self.world()
        log = world.folder / "loop.log"
        with open(log, "w") as output:
            command = [sys.executable, "-c", LOOP, world.output, "6"]
            loop = subprocess.Popen(command, stdout=output, stderr=output, env=environment_of_loops(world))
        self.addCleanup(put_away, loop)
        said = r"RuntimeWarning: consumers cannot write \d+ samples: storing objects: .*503.*The loop waits"
        wait_for(lambda: re.search(said, log.read_text()), "a warning")
        self.assertIsNone(loop.poll(), log.read_text())
        self.store.refuse = lambda method, key: None
        self.assertEqual(0, loop.wait(WATCHDOG_SECONDS), log.read_text())
        wanted = {f"{batch}/{row}.values.npy" for batch in range(6) for row in range(3)}
        self.assertEqual(wanted, set(self.store.objects("results")))

    def test_resume_stores_what_a_run_could_not(self):
        """The results of the whole run."""
        self.store.refuse = lambda method, key: "503 Slow Down" if key.endswith("checksums.tsv") else None
        world = self.world(*COPY)
        self.assertEqual(75, world.start().wait(), world.logs())
        self.assertIn("storing the outputs ended with exit code 75", world.summary()["failure"])
        self.store.refuse = lambda method, key: None
        self.assertEqual(0, world.start("--resume").wait(), world.logs())
        self.require_whole()


class Deaths(WithAStore):
    def test_another_consumer_stores_the_same_objects(self):
        # before a request; all requests answered, and the slab not accepted
        for number, failpoint in enumerate(("sink.commit#3", "consumer.committed#2")):
            with self.subTest(failpoint=failpoint):
                world = self.world(*COPY, prefix=f"results-{number}")
                with world.failpoint(f"{failpoint}:kill") as acted:
                    self.assertEqual(0, world.start().wait(), world.logs())
                    self.assertTrue(acted.exists(), "a consumer died")
                self.require_whole(f"results-{number}")

    def test_a_consumer_dies_during_a_request(self):
        world = self.world(*COPY)
        self.store.hold = lambda method, key: method == "PUT" and key.endswith("/9.payload.npy")
        world.start()
        self.store.wait_for_held()
        for pid in world.processes():
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/exe").resolve().name == "offramp-consumer":
                    os.kill(pid, signal.SIGKILL)
        self.store.release()
        self.assertEqual(0, world.wait(), world.logs())
        self.require_whole()

    def test_the_run_dies_during_requests_and_resumes(self):
        # the owner of the prefix, a sample, the results of the whole run
        for number, name in enumerate((".offramp-output", "npy/9.payload.npy", "checksum/checksums.tsv")):
            with self.subTest(name=name):
                world = self.world(*COPY, prefix=f"results-{number}")
                self.store.hold = lambda method, key, name=name: method == "PUT" and key.endswith(name)
                world.start()
                self.store.wait_for_held()
                world.kill_everything()
                self.store.release()
                self.assertEqual(0, world.start("--resume", "--run-dir", str(world.run_dir)).wait(), world.logs())
                self.require_whole(f"results-{number}")


class Resumes(WithAStore):
    def test_the_run_dies_and_resumes(self):
        for number, failpoint in enumerate(("sink.commit#3", "consumer.committed#2", "merge.write#1")):
            with self.subTest(failpoint=failpoint):
                world = self.world(*COPY, prefix=f"results-{number}")
                with world.failpoint(f"{failpoint}:stop") as acted:
                    world.start()
                    world.until(acted.exists, failpoint)
                    world.kill_everything()
                self.assertEqual(0, world.start("--resume").wait(), world.logs())
                self.require_whole(f"results-{number}")

    def test_a_loop_dies_and_resumes(self):
        world = self.world()
        environment = environment_of_loops(world)

        def loop(*words, stderr=None):
            command = [sys.executable, "-c", LOOP, world.output, *words]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment, text=True)

        self.store.hold = lambda method, key: method == "PUT" and key.endswith("1/1.values.npy")
        first = loop("6")
        self.store.wait_for_held()
        world.kill_everything()
        self.assertIn("submitted", first.communicate()[0])
        self.store.release()
        other = loop("6", stderr=subprocess.PIPE)
        self.assertIn("resume=True to continue that work", other.communicate()[1])
        self.assertNotEqual(0, other.returncode)
        second = loop("6", "resume")
        self.assertIn("submitted", second.communicate()[0])
        self.assertEqual(0, second.returncode)
        find_packages_of_launch(self)
        from offramp_launch.stores.store import SCHEMES

        stores = "from offramp._validate import STORES; print(*STORES)"
        known = subprocess.run([sys.executable, "-c", stores], env=environment, stdout=subprocess.PIPE, check=True)
        self.assertEqual(SCHEMES, tuple(known.stdout.decode().split()))
        wanted = {f"{batch}/{row}.values.npy" for batch in range(6) for row in range(3)}
        self.assertEqual(wanted, set(self.store.objects("results")))
