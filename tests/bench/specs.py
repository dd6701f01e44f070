"""The parts of a row: contestants, sizes, and placeholders for files that are made when the row runs."""

import dataclasses
import pathlib

ARTICLE_BYTES = 64 * 21 * 512 * 512 * 4  # one batch's logits in float32
FEATURE_MAPS = "96x256x256,192x128x128,384x64x64,768x32x32"
PEER_ALONE = "article, compute alone"  # separates the peer's model from its egress

# Placeholders in flags that materials.py replaces by files.
IMAGES = "{images}"  # a list of JPEG files
CAMERA_IMAGES = "{camera images}"  # the same, as large as a camera's small ones
PHOTOGRAPHS = "{photographs}"  # a JSONL manifest of photographs; ids are the items' numbers
OUTPUT = "{output}"  # a separate folder per contestant
SHIPPED_WEIGHTS = "{weights of cutout}"
DEEPLAB_WEIGHTS = "{weights of deeplabv3}"  # random weights, the same for all
FIRST_PIXEL, FIRST_TOKEN = "{first pixel}", "{first token}"  # models that ignore their input
# models that return stored results of one batch at no cost
CUTOUT_RESULTS, DEEPLAB_RESULTS = (
    "{results of cutout}",
    "{results of deeplabv3}",
)
LIGHT_NETWORK = "{lraspp}"  # a light segmentation network in bf16, with random weights
LARGE_PICTURES, LARGE_SIDE = "{large pictures}", 1024  # a model that returns a stored batch of pictures
LINES = "{lines}"  # a text file
SENTENCES = "{sentences}"  # a sentence-transformers model
ENCODER = "{encoder}"  # the same for a producer
MAX_TOKENS = "{max tokens}"  # limit of the encoder
POSTGRES = "{postgres}"  # a server's URI
LENGTHS = {mean: f"{{lengths of {mean} tokens on average}}" for mean in (10, 100, 1000)}  # of TEXTS texts
TEXTS = 64
TMPFS = "{folder in tmpfs}"
PYTHON = "{python}"  # the benchmark's Python
IN_PYTHON, COPY_IN_PYTHON = "{processors.py:nothing}", "{processors.py:Copy}"  # processors of hosted/
AS_OBJECT, AS_PROGRAM = "{so: of hosted/}", "{exec: of hosted/}"


@dataclasses.dataclass(frozen=True)
class Ours:
    """A producer with consumers; compute alone (offramp-ladder) has none."""

    name: str
    flags: dict
    consumers: int = 0
    consumer_flags: dict = dataclasses.field(default_factory=dict)  # flags for consumers only
    program: str = "offramp-producer"
    build: pathlib.Path | None = None  # the folder of another build's programs
    cores: int = 0  # on which all its processes run; 0: all


@dataclasses.dataclass(frozen=True)
class Loop:
    """
    A program of peers/ that submits to an Egress, with our consumers. With `kill_seconds`, a consumer is killed and
    replaced that often.
    """

    name: str
    program: str
    flags: dict
    consumers: int
    consumer_flags: dict
    kill_seconds: float = 0


@dataclasses.dataclass(frozen=True)
class PeerProgram:
    """A program of peers/."""

    name: str
    program: str
    flags: dict
    readers: int = 0


@dataclasses.dataclass(frozen=True)
class Messages:
    """
    offramp-message-bench: the channels alone; `bare`: libzmq alone, in the latency row. With `consumer_flags` its
    consumers are offramp-consumer.
    """

    name: str
    consumers: int
    slabs: int
    bare: bool = False
    consumer_flags: dict = dataclasses.field(default_factory=dict)
    payload_bytes: int = 4096
    build: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    id: str
    description: str
    contestants: tuple
    targets: tuple = ()
    batch: int = 64  # samples per counted unit
    unit: str = "batches"
    kind: str = "contest"  # or "latency", "start", "curve"
    raw_bytes: int = 0  # of a batch before any transform
    curve: tuple = ()  # numbers of consumers
    start_batches: int = 0  # enough that the whole pool is ready before a run ends
    beside: tuple = ()  # pairs of other contestants: also shows the first one's rate over the second's
    settle_seconds: float = 0  # for rows in which a stopped contestant leaves more GPU work than the pace allows for
    needs: tuple = ()  # requirements, without which the row is left out

    @property
    def workload(self):
        return self.id.partition("-")[0]


class Sizes:
    """The sizes of full and small rows, and of full rows without a GPU."""

    def __init__(self, small, gpu=True):
        self.small = small
        self.gpu = gpu and not small
        self.batch = self.of(64, 4, 2)
        self.side = self.of(512, 224, 32)
        self.slabs = {"slabs": self.of(64, 16, 4), "samples-per-slab": self.of(8, 2, 1)}
        self.logits = self.batch * 21 * self.side * self.side * 4
        self.copy_bytes = 1 << 20 if small else ARTICLE_BYTES
        self.peer_slabs = 4 if small else 8
        # A peer submits GPU work while it has free slabs: 8 batches of 0.1 s each, and their copies.
        self.peer_settles = 0 if small else 2

    def of(self, full, without_gpu, small):
        return small if self.small else full if self.gpu else without_gpu

    def readers(self, full):
        return self.of(full, min(full, 2), min(full, 2))

    def precision(self, full):
        return self.of(full, "fp32", "fp32")

    def deeplab(self, precision, **more):
        return {
            "model": "deeplabv3-resnet50",
            "random-weights": True,
            "batch": self.batch,
            "image-size": self.side,
            **self.slabs,
            "precision": self.precision(precision),
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    def deeplab_peer(self, name, rung, precision, way, reader="read-all", readers=8):
        return article(
            name,
            self.readers(readers),
            {
                "rung": rung,
                "model": "deeplabv3",
                "precision": self.precision(precision),
                "batch": self.batch,
                "image-size": self.side,
                "input": way,
                "reader": reader,
                "slabs": self.peer_slabs,
            },
        )


def article(name, readers, flags):
    if flags["rung"] in ("0", "compute-alone"):
        return PeerProgram(name, "article.py", flags)
    return PeerProgram(name, "article.py", {**flags, "readers": readers}, readers)


def alone(flags, name="compute alone", **more):
    """The contestant that drops its outputs on the device."""
    return Ours(
        name,
        {**flags, "strategy": "compute-alone", **{key.replace("_", "-"): value for key, value in more.items()}},
        program="offramp-ladder",
    )


def ceiling(sizes, tensors, batch, name="copy ceiling", **more):
    flags = {"bytes": ",".join(map(str, tensors)), "batch": batch, "buffers": sizes.peer_slabs, **more}
    return PeerProgram(name, "bare_copies.py", flags)
