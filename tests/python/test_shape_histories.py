"""
Random runs with samples of different shapes. Loops and consumers are killed at random steps, and loops resume until
every batch is done. The results equal those of an undisturbed run, byte for byte.

OFFRAMP_TEST_HISTORIES is the number of runs, OFFRAMP_TEST_SEED the first one's seed.
"""

import json
import os
import pathlib
import random
import signal

from world import World, needs_numpy

HISTORIES = int(os.environ.get("OFFRAMP_TEST_HISTORIES", "6"))
FIRST_SEED = int(os.environ.get("OFFRAMP_TEST_SEED", "0"))
WIDTH = 3

# Dies once, before it commits the sample with the key in its option.
POST = """
import os, signal

def save(slab, dies, once):
    for sample, values in slab:
        if sample.key == dies:
            try:
                os.close(os.open(once, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        for name in ("tokens", "grid"):
            yield sample, f".{name}", repr(values[name].shape).encode() + values[name].tobytes()
        yield sample, {"number": int(values["number"][0]), "said": sample.metadata["key"]}
"""

# Arguments: the seed, the folder, whether it resumes, and after how many batches it kills itself.
LOOP = """
import os, random, signal, sys
import numpy, offramp
from test_shape_histories import History

seed, folder, resume, dies = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "resume", int(sys.argv[4])
history = History(seed, folder)
form = random.Random(os.urandom(8))  # results do not depend on it
with offramp.Egress(**history.options, resume=resume) as egress:
    for submitted, (keys, samples) in enumerate(egress.pending(history.batches())):
        if submitted == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        tokens = [sample["tokens"] for sample in samples]
        if "tensors" in history.options and form.random() < 0.5:
            tokens = offramp.packed(numpy.concatenate(tokens), [len(each) for each in tokens])
        grid = [sample["grid"] for sample in samples]
        number = numpy.array([[sample["number"]] for sample in samples])
        egress.submit(
            {"tokens": tokens, "grid": grid, "number": number},
            keys,
            copy=form.random() < 0.3,
            metadata=[{"key": key} for key in keys],
        )
"""


class History:
    """A run that follows from its seed."""

    def __init__(self, seed, folder):
        self.seed, self.folder = seed, pathlib.Path(folder)
        chosen = random.Random(seed)
        self._sizes = [chosen.randint(1, 6) for _ in range(chosen.randint(2, 12))]
        self._scale = chosen.choice((1, 5, 40))
        keys = [key for number in range(len(self._sizes)) for key in self._keys(number)]
        settings = {"processor-option": f"dies={chosen.choice([*keys, ''])},once={self.folder}/died"}
        self.options = {
            "output": str(self.folder / "output"),
            "processor": f"{self.folder}/post.py:save",
            "consumers": chosen.randint(1, 3),
            "settings": settings,
            "slabs": chosen.randint(1, 5),
            "metadata_bytes": 64,
        }
        if chosen.random() < 0.6:  # else the first batch decides
            self.options["tensors"] = {
                "tokens": ("float32", (4, None, WIDTH)),
                "grid": ("uint8", (4, None, 2, None)),
                "number": ("int64", (4, 1)),
            }
            self.options["device"] = "cpu"
            self.options["slab_bytes"] = chosen.choice((4096, 20_000, 1 << 20))
        self.deaths = [chosen.randint(0, len(self._sizes)) for _ in range(chosen.randint(0, 3))]

    def _keys(self, number):
        return [f"{number}/{row}" for row in range(self._sizes[number])]

    def batches(self):
        import numpy

        for number in range(len(self._sizes)):
            made = numpy.random.default_rng([self.seed, number])
            keys = self._keys(number)
            yield (
                keys,
                [
                    {
                        "tokens": made.random((made.integers(0, 4 * self._scale), WIDTH), dtype="float32"),
                        "grid": made.integers(
                            0, 255, (made.integers(0, 3), 2, made.integers(0, 9 * self._scale)), dtype="uint8"
                        ),
                        "number": 100 * number + row,
                    }
                    for row in range(len(keys))
                ],
            )

    def expected(self):
        """The files of an undisturbed run."""
        return {
            f"{key}.{name}": repr(sample[name].shape).encode() + sample[name].tobytes()
            for keys, samples in self.batches()
            for key, sample in zip(keys, samples)
            for name in ("tokens", "grid")
        }

    def records(self):
        return {(key, sample["number"]) for keys, samples in self.batches() for key, sample in zip(keys, samples)}


@needs_numpy
class Histories(World):
    def test_results_equal_those_of_an_undisturbed_run(self):
        for seed in range(FIRST_SEED, FIRST_SEED + HISTORIES):
            with self.subTest(seed=seed):
                self.live(seed)

    def live(self, seed):
        folder = self.folder / str(seed)
        folder.mkdir()
        (folder / "post.py").write_text(POST)
        history = History(seed, folder)
        path = os.pathsep.join(
            [str(pathlib.Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        )
        for attempt, dies in enumerate([*history.deaths, -1]):
            word = "resume" if attempt else "begin"
            loop = self.python(LOOP, seed, folder, word, dies, env={**os.environ, "PYTHONPATH": path})
            errors = loop.communicate(timeout=120)[1].decode()
            self.assertIn(loop.returncode, (0,) if dies < 0 else (0, -signal.SIGKILL), errors)
        output = folder / "output"
        found = {str(path.relative_to(output)): path.read_bytes() for path in output.glob("*/*.[gt]*")}
        expected = history.expected()
        self.assertEqual(expected.keys(), found.keys())
        for name, text in expected.items():
            self.assertEqual(text, found[name], name)
        records = [json.loads(line) for line in (output / "records.jsonl").read_text().splitlines()]
        self.assertEqual(len(records), len(history.records()))
        self.assertEqual(history.records(), {(record["key"], record["number"]) for record in records})
        self.assertEqual([record["key"] for record in records], [record["said"] for record in records])
