"""Runs the examples with third-party libraries: loops that submit to an Egress, and processors of consumers."""

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import unittest

from tests.support.compiled import build_folder
from tests.support.launched_run import ROOT
from tests.support.waiting import WATCHDOG_SECONDS, put_away

HERE = pathlib.Path(__file__).resolve().parent
PROCESSORS = HERE / "processors"
BUILD = pathlib.Path(os.environ["OFFRAMP_BUILD"])
MOST_LINES = 40
RUST = shutil.which("rustc")
BATCHES, ROWS = 6, 4
KEYS = [f"{batch}-{row}" for batch in range(BATCHES) for row in range(ROWS)]
# Outputs of `shape` and `dtype` with known values: each sample is filled with its number.
LOOP = f"""
    import sys, numpy, offramp

    shape, dtype = tuple(map(int, sys.argv[2].split("x"))), sys.argv[3]
    with offramp.Egress(sys.argv[1]) as egress:
        for batch in range({BATCHES}):
            outputs = numpy.stack([numpy.full(shape, {ROWS} * batch + row, dtype) for row in range({ROWS})])
            outputs[..., 0] = 0
            egress.submit(outputs, [f"{{batch}}-{{row}}" for row in range({ROWS})])
"""
# Features of two classes, which differ in one number.
FEATURES = """
    import sys, numpy, offramp

    random = numpy.random.default_rng(0)
    with offramp.Egress(sys.argv[1]) as egress:
        for batch in range(40):
            features = random.normal(size=(16, 16)).astype("float32")
            labels = (features[:, 3] > 0).astype(int)
            features[:, 3] += 4 * labels - 2
            egress.submit({"features": features}, [f"{batch}-{row}" for row in range(16)],
                          metadata=[{"label": int(label)} for label in labels])
"""


# Precedes the page's code: defines the reader's model and loader, on a machine without a GPU.
ON_THE_CPU = f"""
import sys, torch
torch.Tensor.cuda = lambda tensor, **_: tensor
torch.manual_seed(0)
model = torch.nn.Conv2d(3, 5, 3)
loader = [([f"{{batch}}-{{row}}" for row in range({ROWS})], torch.rand({ROWS}, 3, 16, 16)) for batch in range({BATCHES})]
"""

# A model of the reader's with two outputs. Keeps the vectors of each key for the test.
TWO_OUTPUTS = """
import atexit, numpy
network, vectors = model, {}
def model(images):
    found = network(images)
    for vector in found.mean((2, 3)):
        vectors[f"{len(vectors) // 4}-{len(vectors) % 4}"] = vector.numpy()
    return found.argmax(1).byte(), found.mean((2, 3))
atexit.register(lambda: numpy.savez("vectors.npz", **vectors))
"""
SHOW = """
def show(slab):
    for sample, values in slab:
        yield sample, {"classes": int(values["classes"].max()), "length": len(values["vectors"])}
"""


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name.partition(".")[0]) is None]
    return unittest.skipIf(missing, f"skipped: no {', '.join(missing)} (launch/requirements-examples.txt)")


def programs_of(page):
    """{name: text} of a page's Python programs, which each begin with their name in a comment."""
    programs = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
        parts = re.split(r"^# (\w+\.py)\b.*\n", block, flags=re.MULTILINE)
        programs |= dict(zip(parts[1::2], parts[2::2]))
    return programs


class Delivered(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="offramp-libraries-")))
        self.output = self.folder / "results"
        # a pool's start would take longer than its work
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OFFRAMP_")},
            "OFFRAMP_BIN_DIR": str(BUILD / "bin"),
            "OFFRAMP_BUILD_DIR": build_folder(self.folder),
            "OFFRAMP_SKIP_PACKAGES": "1",
            "OFFRAMP_LIBRARY": str(BUILD / "lib" / "libofframp.so"),
            "PYTHONPATH": str(ROOT / "launch" / "python"),
            "HF_HUB_OFFLINE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "compiled"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def delivered(self, loop, processor, *options, consumers=2):
        """Runs the loop and consumers with this processor to their end, and returns the results' folder."""
        run_dir = self.folder / "run"
        producing = subprocess.Popen(
            [sys.executable, *loop[:2], str(run_dir), *loop[2:]],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(put_away, producing)
        options = ["--processor-option", ",".join(options)] if options else []
        done = subprocess.run(
            [
                str(ROOT / "launch" / "offramp"),
                "consume",
                "--run-dir",
                str(run_dir),
                "--processor",
                processor,
                *options,
                "--consumers",
                str(consumers),
                "--consumer-python",
                sys.executable,
                "--output",
                str(self.output),
            ],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * WATCHDOG_SECONDS,
        )
        _, problems = producing.communicate(timeout=WATCHDOG_SECONDS)
        self.assertEqual((0, 0), (done.returncode, producing.returncode), done.stdout + done.stderr + problems)
        return self.output

    def results_of_processor(self, processor, shape, dtype, *options, **how):
        return self.delivered(("-c", textwrap.dedent(LOOP), shape, dtype), processor, *options, **how)

    def results_of_loop(self, name, processor="npy"):
        return self.delivered((str(HERE / "loops" / name),), processor)


class Libraries(Delivered):
    @needs("numpy", "PIL")
    def test_pictures_as_webp_by_pillow(self):
        from PIL import Image

        made = self.results_of_processor(f"{PROCESSORS}/webp.py:save", "3x16x16", "uint8", "quality=100")
        self.assertEqual({f"{key}.webp" for key in KEYS}, {path.name for path in made.glob("*.webp")})
        for number, key in enumerate(KEYS):
            with Image.open(made / f"{key}.webp") as picture:
                self.assertEqual(("WEBP", (16, 16)), (picture.format, picture.size))
                self.assertLess(abs(picture.getpixel((12, 8))[0] - number), 6)

    @needs("numpy", "webdataset")
    def test_shards_of_webdataset(self):
        import webdataset

        made = self.results_of_processor(f"{PROCESSORS}/shards.py:save", "3x5", "float32")
        samples = {
            sample["__key__"]: sample
            for sample in webdataset.WebDataset([str(path) for path in made.glob("*.tar")], shardshuffle=False).decode()
        }
        self.assertEqual(set(KEYS), set(samples))
        for number, key in enumerate(KEYS):
            self.assertEqual((number, (3, 5)), (samples[key]["json"]["item"], samples[key]["npy"].shape))
            self.assertEqual(number, samples[key]["npy"][1, 1])

    @needs("numpy", "qdrant_client")
    def test_vectors_in_qdrant(self):
        from qdrant_client import QdrantClient

        self.results_of_processor(
            f"{PROCESSORS}/to_qdrant.py:Collector",
            "8",
            "float32",
            "collection=outputs",
            f"path={self.folder / 'vectors'}",
            consumers=1,
        )
        with contextlib.closing(QdrantClient(path=str(self.folder / "vectors"))) as client:
            points, _ = client.scroll("outputs", limit=100)
            self.assertEqual(sorted(KEYS), sorted(point.payload["key"] for point in points))

    @needs("numpy")
    @unittest.skipUnless(RUST, "skipped: no rustc (apt-get install rustc)")
    def test_sums_in_rust(self):
        library = self.folder / "libsums.so"
        subprocess.run(
            [RUST, "--crate-type", "cdylib", "-O", str(PROCESSORS / "sums.rs"), "-o", str(library)],
            check=True,
            timeout=WATCHDOG_SECONDS,
        )
        made = self.results_of_processor(f"so:{library}", "3x5", "float32")
        self.assertEqual(
            {f"{key}.sum": f"{3 * 4 * number}\n" for number, key in enumerate(KEYS)},
            {path.name: path.read_text() for path in made.glob("*.sum")},
        )

    @needs("numpy", "torch", "transformers", "tokenizers")
    def test_a_pipeline_of_hugging_face(self):
        import numpy

        made = self.results_of_loop("pipeline.py")
        vectors = {path.name: numpy.load(path) for path in made.glob("*.npy")}
        self.assertEqual({f"text-{number}.vectors.npy" for number in range(48)}, set(vectors))
        self.assertEqual({((32,), "float32")}, {(vector.shape, str(vector.dtype)) for vector in vectors.values()})
        same, other = vectors["text-3.vectors.npy"], vectors["text-1.vectors.npy"]
        numpy.testing.assert_allclose(vectors["text-0.vectors.npy"], same, rtol=1e-4, err_msg="the same words")
        self.assertGreater(float(abs(same - other).max()), 1e-3, "other words")

    @needs("numpy", "torch", "torchvision", "transformers", "PIL")
    def test_hidden_states_of_a_loop_of_hugging_face(self):
        import numpy

        made = self.results_of_loop("features.py")
        states = {path.name: numpy.load(path) for path in made.glob("*.npy")}
        self.assertEqual({f"grey-{grey}.output.npy" for grey in range(0, 240, 20)}, set(states))
        # one for each of the 4 x 4 patches, and one of the class
        self.assertEqual({((17, 32), "float32")}, {(state.shape, str(state.dtype)) for state in states.values()})
        difference = states["grey-0.output.npy"] - states["grey-220.output.npy"]
        self.assertGreater(float(abs(difference).max()), 1e-3, "the pictures differ")

    @needs("numpy", "torch", "transformers", "accelerate")
    def test_logits_of_the_trainer_of_hugging_face(self):
        import numpy

        done = subprocess.run(
            [sys.executable, str(HERE / "loops" / "trainer.py"), str(self.output)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * WATCHDOG_SECONDS,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        arrays = {path.name: numpy.load(path) for path in self.output.glob("*.npy")}
        logits, labels = [
            numpy.stack([arrays.pop(f"{number}.{name}.npy") for number in range(20)]) for name in ("logits", "labels")
        ]
        self.assertEqual(({}, (20, 4)), (arrays, logits.shape))
        accuracy = float(re.search(r"'eval_accuracy': '?(?:np.float64\()?([\d.]+)", done.stdout)[1])
        self.assertAlmostEqual((logits.argmax(1) == labels).mean(), accuracy, places=3)

    @needs("numpy", "torch")
    def test_a_trainer_reads_a_run(self):
        run_dir = str(self.folder / "run")
        commands = (
            [sys.executable, "-c", textwrap.dedent(FEATURES)],
            [sys.executable, str(HERE / "loops" / "train.py")],
        )
        both = [
            subprocess.Popen([*command, run_dir], env=self.environment, stdout=subprocess.PIPE, text=True)
            for command in commands
        ]
        for process in both:
            self.addCleanup(put_away, process)
        _, printed = [process.communicate(timeout=2 * WATCHDOG_SECONDS)[0] for process in both]
        self.assertEqual([0, 0], [process.returncode for process in both])
        rows, losses = zip(*(line.split() for line in printed.splitlines()))
        self.assertEqual(["32"] * 20, list(rows))
        self.assertLess(float(losses[-1]), float(losses[0]) / 4)

    @needs("numpy", "torch", "PIL")
    def test_a_loop_like_those_of_diffusers_saves_pictures(self):
        from PIL import Image

        made = self.results_of_loop("pictures.py", f"{PROCESSORS}/webp.py:save")
        self.assertEqual(
            {f"prompt-{prompt}-{variant}.webp" for prompt in range(5) for variant in range(4)},
            {path.name for path in made.glob("*.webp")},
        )
        colours = set()
        for path in made.glob("*.webp"):
            with Image.open(path) as picture:
                self.assertEqual((64, 64), picture.size)
                colours.add(picture.resize((1, 1)).getpixel((0, 0)))
        self.assertGreater(len(colours), 10, "all pictures differ")

    @needs("numpy", "torch")
    def test_the_guide_shows_the_same_with_queues_and_with_offramp(self):
        programs = programs_of("launch/guide/python.md")
        before, loop, post = programs["before.py"], programs["loop.py"], programs["post.py"]
        made = []
        for name, text in (("before.py", before), ("loop.py", loop)):
            results = self.folder / "RESULTS"
            results.mkdir()
            self.run_program(name, ON_THE_CPU + text, post)
            made.append({path.name: path.read_bytes() for path in results.glob("*.npy")})
            shutil.rmtree(results)
        self.assertEqual({f"{key}.npy" for key in KEYS}, set(made[0]))
        self.assertEqual(made[0], made[1])
        (self.folder / "apart.py").write_text(ON_THE_CPU + re.sub(r"Egress\(.*?\)", "Egress(sys.argv[1])", loop))
        self.delivered((str(self.folder / "apart.py"),), f"{self.folder / 'post.py'}:save")
        self.assertEqual(made[0], {path.name: path.read_bytes() for path in self.output.glob("*.npy")})

    @needs("numpy", "torch")
    def test_the_guide_shows_groups_in_a_loop(self):
        import numpy

        (self.folder / "mine.py").write_text(ON_THE_CPU + TWO_OUTPUTS)
        self.run_program("loop.py", programs_of("launch/guide/groups.md")["loop.py"], SHOW)
        results = self.folder / "RESULTS"
        self.assertEqual({f"{key}.png" for key in KEYS}, {path.name for path in (results / "masks").glob("*.png")})
        with contextlib.closing(sqlite3.connect(results / "vectors" / "embeddings.sqlite")) as database:
            rows = dict(database.execute("SELECT key, vector FROM embeddings"))
        self.assertEqual(set(KEYS), set(rows))
        wanted = dict(numpy.load(self.folder / "vectors.npz"))
        for key in KEYS:
            numpy.testing.assert_array_equal(wanted[key], numpy.frombuffer(rows[key], "<f4"))

    @needs("numpy", "torch")
    def test_the_readme_shows_a_loop_that_leaves_its_results(self):
        programs = programs_of("README.md")
        self.run_program("loop.py", ON_THE_CPU + programs["loop.py"], programs["post.py"])
        self.assertEqual({f"{key}.npy" for key in KEYS}, {path.name for path in self.output.glob("*.npy")})

    @needs("numpy")
    def test_the_guide_shows_a_test_of_a_processor(self):
        programs = programs_of("launch/guide/python.md")
        self.run_program("test_post.py", programs["test_post.py"], programs["post.py"])

    def run_program(self, name, text, post):
        (self.folder / name).write_text(text)
        (self.folder / "post.py").write_text(post)
        done = subprocess.run(
            [sys.executable, name],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * WATCHDOG_SECONDS,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_the_examples_are_short(self):
        programs = [path for folder in ("processors", "loops", "programs") for path in (HERE / folder).glob("*.*")]
        self.assertEqual(15, len(programs))
        self.assertEqual([], [path.name for path in programs if len(path.read_text().splitlines()) > MOST_LINES])


class Compiled(Delivered):
    @needs("numpy", "torch")
    def test_a_compiled_network(self):
        import numpy
        import torch

        made = self.results_of_loop("compiled.py")
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
        for number in range(8):
            with torch.inference_mode():
                expected = network(torch.full((16,), float(number))).numpy()
            for row in range(4):
                numpy.testing.assert_allclose(
                    numpy.load(made / f"{number}-{row}.outputs.npy"), expected, rtol=1e-4, atol=1e-5
                )
