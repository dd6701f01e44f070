"""
The benchmark's rows as data: workload, contestants, limit and targets.

The first contestant of each row is ours. Full sizes are for a GPU; small ones show on any machine that every row works,
and measure nothing.
"""

import dataclasses
import fnmatch

from file_workloads import picture_rows, text_rows
from specs import (
    AS_OBJECT,
    AS_PROGRAM,
    COPY_IN_PYTHON,
    FEATURE_MAPS,
    IMAGES,
    IN_PYTHON,
    LENGTHS,
    OUTPUT,
    PEER_ALONE,
    PYTHON,
    TEXTS,
    TMPFS,
    Loop,
    Messages,
    Ours,
    PeerProgram,
    Row,
    Sizes,
    alone,
    article,
    ceiling,
)
from targets import Bytes, Cpu, Faults, Figure, Latency, NothingLost, OnCurve, PerSlab, Rate, Ratio, contestants_of


def article_rows(sizes):
    reached = (Ratio("compute alone", 0.995, lower_bound=0.99),)
    rows = []
    for way, spelled in (("host", "fp32 input from the host"), ("device", "input resident")):
        for reader, reading in (
            ("write", "consumers write their own copy to /dev/null"),
            ("read", "every byte read in place"),
        ):
            flags = sizes.deeplab(
                "tf32",
                synthetic_on=way,
                **({"processor": "write", "write_copy": True} if reader == "write" else {"processor": "checksum"}),
            )
            peer_reader = "write-copy" if reader == "write" else "read-all"
            peers = [sizes.deeplab_peer("article 4-pinned", "4-pinned", "tf32", way, peer_reader)]
            if (way, reader) == ("host", "write"):
                peers.append(sizes.deeplab_peer("article 4", "4", "tf32", way, peer_reader))
            if reader == "read":
                peers.append(sizes.deeplab_peer(PEER_ALONE, "compute-alone", "tf32", way))
            rows.append(
                Row(
                    f"W1-{way}-{reader}",
                    f"The article's workload, DeepLabV3 TF32: {spelled}, {reading}",
                    (Ours("ours", flags, sizes.readers(8)), alone(flags), *peers),
                    reached,
                    sizes.batch,
                    raw_bytes=sizes.logits,
                    beside=(("article 4-pinned", PEER_ALONE),) if reader == "read" else (),
                    settle_seconds=sizes.peer_settles,
                )
            )
    flags = sizes.deeplab("tf32", synthetic_on="host", processor="write", write_copy=True)
    for first, second in (("0", "1"), ("2", "3")):
        peers = [sizes.deeplab_peer(f"article {rung}", rung, "tf32", "host", "write-copy") for rung in (first, second)]
        rows.append(
            Row(
                f"W1-rungs-{first}-{second}",
                f"The article's rungs {first} and {second} as written, fp32 input from the host",
                (Ours("ours", flags, sizes.readers(8)), *peers),
                (),
                sizes.batch,
                raw_bytes=sizes.logits,
                settle_seconds=sizes.peer_settles,
            )
        )
    return rows


def fast_model_rows(sizes):
    rows = []
    for way, spelled in (("device", "input resident"), ("host", "fp32 input from the host")):
        flags = sizes.deeplab("bf16", synthetic_on=way, processor="checksum")
        peers = (
            sizes.deeplab_peer("article 4-pinned", "4-pinned", "bf16", way, readers=12),
            sizes.deeplab_peer(PEER_ALONE, "compute-alone", "bf16", way),
        )
        rows.append(
            Row(
                f"W2-{way}",
                f"A model whose outputs keep the link busy, DeepLabV3 bf16: {spelled}, every byte read",
                (Ours("ours", flags, sizes.readers(12)), alone(flags), *peers),
                (Ratio("compute alone", 0.99), Cpu("article 4-pinned", 0.1), Faults()),
                sizes.batch,
                raw_bytes=sizes.logits,
                beside=(("article 4-pinned", PEER_ALONE),),
                settle_seconds=sizes.peer_settles,
            )
        )
    return rows


def transform_rows(sizes):
    flags = sizes.deeplab("bf16", synthetic_on="device", processor="checksum")
    w2_alone = alone(flags, "W2's compute alone")
    rows = [
        Row(
            "W3-class-map",
            "Results made small on the GPU: each pixel's class in 8 bits",
            (
                Ours("ours", {**flags, "transform": "class-map"}, sizes.readers(4)),
                alone(flags, "model and transform alone", transform="class-map"),
                w2_alone,
            ),
            (Ratio("model and transform alone", 0.99), Bytes(0.012)),
            sizes.batch,
            raw_bytes=sizes.logits,
        )
    ]
    for dtype, share in (("fp32", 0.016), ("fp16", 0.008)):
        transform = {"transform": "low-res", "output-dtype": dtype}
        rows.append(
            Row(
                f"W3-low-res-{dtype}",
                f"Logits before the model's last enlargement, in {dtype}",
                (
                    Ours("ours", {**flags, **transform}, sizes.readers(4)),
                    alone({**flags, **transform}, "model and transform alone"),
                    w2_alone,
                ),
                (Ratio("model and transform alone", 0.99), Ratio("W2's compute alone", 1.0), Bytes(share)),
                sizes.batch,
                raw_bytes=sizes.logits,
            )
        )
    return rows


def small_batch_rows(sizes):
    rows = []
    for readers in (4, 1):
        # Ours with default settings: 16 slabs of 64 batches. The peer's slab is a batch whose descriptor it passes to
        # its readers; multiprocessing passes at most 256.
        flags = {"model": "copy", "batch": 64, "copy-bytes": 262144, "processor": "checksum"}
        peer = article(
            "article 4-pinned",
            readers,
            {
                "rung": "4-pinned",
                "model": "copy",
                "batch": 64,
                "copy-bytes": 262144,
                "slabs": 128,
                "reader": "read-all",
            },
        )
        targets = (Rate(50_000), Ratio("article 4-pinned", 5), Cpu("article 4-pinned", 0.25)) if readers == 4 else ()
        rows.append(
            Row(
                f"W4a-{readers}-reader{'s' * (readers > 1)}",
                "Embeddings, 256 KiB a batch: what a batch costs, whatever its size",
                (
                    Ours("ours", flags, sizes.readers(readers)),
                    peer
                    if not sizes.small
                    else dataclasses.replace(
                        peer,
                        readers=sizes.readers(readers),
                        flags={**peer.flags, "readers": sizes.readers(readers), "slabs": 4},
                    ),
                ),
                targets,
                64,
                raw_bytes=262144,
            )
        )
    batch = 4 if sizes.small else 64
    flags = {
        "model": "encoder",
        "random-weights": True,
        "batch": batch,
        "precision": sizes.precision("bf16"),
        "memory-format": "contiguous",
        "synthetic-on": "device",
        "processor": "checksum",
    }
    peers = [
        article(
            name,
            sizes.readers(4),
            {
                "rung": rung,
                "model": "encoder",
                "batch": batch,
                "slabs": 4 if sizes.small else 128,
                "precision": sizes.precision("bf16"),
                "input": "device",
                "reader": "read-all",
            },
        )
        for name, rung in (("article 4-pinned", "4-pinned"), (PEER_ALONE, "compute-alone"))
    ]
    rows.append(
        Row(
            "W4b",
            "A small encoder, replayed as a CUDA graph: the model is short, so the loop around it shows",
            (Ours("ours", flags, sizes.readers(4)), alone(flags), *peers),
            (Ratio("compute alone", 0.98),),
            batch,
            raw_bytes=batch * 4096,
            beside=(("article 4-pinned", PEER_ALONE),),
        )
    )
    return rows


def copy_rows(sizes):
    batch, shapes = (4, "8x16x16,16x8x8") if sizes.small else (16, FEATURE_MAPS)
    tensors = [2 * batch * product(shape) for shape in shapes.split(",")]
    slabs = {"slabs": 4, "samples-per-slab": 2} if sizes.small else {"slabs": 48, "samples-per-slab": 8}
    flags = {"model": "copy", "copy-outputs": shapes, "batch": batch, **slabs, "processor": "checksum"}
    rows = [
        Row(
            "W5",
            "Four feature maps a batch, as a detector's or a video model's backbone gives them",
            (Ours("ours", flags, sizes.readers(12)), ceiling(sizes, tensors, batch)),
            (Ratio("copy ceiling", 0.98),),
            batch,
            raw_bytes=sum(tensors),
        )
    ]
    batch = 4 if sizes.small else 64
    flags = {"model": "copy", "copy-bytes": sizes.copy_bytes, "batch": batch, **sizes.slabs, "processor": "checksum"}
    peer = article(
        "article 4-pinned",
        sizes.readers(12),
        {
            "rung": "4-pinned",
            "model": "copy",
            "copy-bytes": sizes.copy_bytes,
            "batch": batch,
            "slabs": sizes.peer_slabs,
            "reader": "read-all",
        },
    )
    rows.append(
        Row(
            "W6",
            "No model: the link itself, every byte read by consumers",
            (Ours("ours", flags, sizes.readers(12)), ceiling(sizes, [sizes.copy_bytes], batch), peer),
            (Ratio("copy ceiling", 0.99), Cpu("article 4-pinned", 1.0), Faults()),
            batch,
            raw_bytes=sizes.copy_bytes,
        )
    )
    return rows


def product(shape):
    number = 1
    for side in shape.split("x"):
        number *= int(side)
    return number


def ingress_rows(sizes):
    flags = sizes.deeplab("bf16")
    images = {**flags, "source": "images", "input": IMAGES, "batches": None}
    input_bytes = sizes.batch * 3 * sizes.side * sizes.side * 4
    ways = ("pageable-blocking", "pageable-async")
    pageable = [sizes.deeplab_peer(f"article, {way.replace('-', ', ')}", "compute-alone", "bf16", way) for way in ways]
    resident = sizes.deeplab_peer("article, resident", "compute-alone", "bf16", "device")
    eight_bits = "page-locked, prefetched, 8 bits"
    model = Row(
        "W9-model",
        "Ways in: the same model, its outputs dropped, by five ways for its input",
        (
            alone(flags, "page-locked, prefetched", synthetic_on="host"),
            alone(images, eight_bits),
            alone(flags, "resident", synthetic_on="device"),
            *pageable,
            resident,
        ),
        (Ratio("resident", 0.97), Ratio("resident", 0.97, of=eight_bits)),
        sizes.batch,
        raw_bytes=input_bytes,
        beside=tuple((peer.name, resident.name) for peer in pageable),
        settle_seconds=sizes.peer_settles,
    )
    link = Row(
        "W9-link",
        "Ways in: nothing but the upload of such a batch, the other direction idle",
        tuple(
            ceiling(sizes, [input_bytes], sizes.batch, name, direction="h2d", memory=memory)
            for name, memory in (
                ("page-locked", "page-locked"),
                ("pageable, async", ways[1]),
                ("pageable, blocking", ways[0]),
            )
        ),
        (),
        sizes.batch,
        raw_bytes=input_bytes,
    )
    return [model, link]


def message_rows(sizes):
    rows = []
    for readers in (1, 4):
        count = sizes.readers(readers)
        slabs = 256  # more than one consumer may hold
        rows.append(
            Row(
                f"W8-{readers}-reader{'s' * (readers > 1)}",
                "Messages alone: slabs a second through both channels, no memory touched",
                (
                    Messages("ours", count, slabs),
                    PeerProgram(
                        "multiprocessing.Queue", "queue_messages.py", {"readers": count, "slabs": slabs}, count
                    ),
                ),
                (Ratio("multiprocessing.Queue", 5),),
                1,
                "slabs",
            )
        )
    rows.append(
        Row(
            "latency",
            "Hand-over through an idle channel: from the sending of a slab's number to the consumer that has it",
            (
                Messages("ours", 1, 2),
                Messages("libzmq alone", 1, 2, bare=True),
                PeerProgram("multiprocessing.Queue", "queue_messages.py", {"samples": 300 if sizes.small else 10_000}),
            ),
            (Latency("p50_us", "libzmq alone", 1.15), Latency("p99_us", "libzmq alone", 1.1)),
            1,
            "slabs",
            "latency",
        )
    )
    return rows


def hosted_rows(sizes):
    slabs = 256
    built_in, as_object, as_program = {"processor": "none"}, {"processor": AS_OBJECT}, {"processor": AS_PROGRAM}
    in_python = {"processor": IN_PYTHON, "consumer-python": PYTHON}
    large = {"slabs": 4 if sizes.small else 64, "payload_bytes": 4 << 20}
    copy = {"model": "copy", "copy-bytes": sizes.copy_bytes, "batch": sizes.of(64, 4, 4), **sizes.slabs}
    return [
        Row(
            "W12-nothing",
            "A user processor that does nothing: the cost per slab of one consumer",
            (
                Messages("in Python", 1, slabs, consumer_flags=in_python),
                Messages("shared object", 1, slabs, consumer_flags=as_object),
                Messages("program", 1, slabs, consumer_flags=as_program),
                Messages("built in", 1, slabs, consumer_flags=built_in),
            ),
            (PerSlab("in Python", 30, over="built in"), PerSlab("program", 150)),
            1,
            "slabs",
            needs=("numpy",),
        ),
        Row(
            "W12-readers",
            "The same in Python, several consumers",
            (
                Messages("in Python", sizes.readers(4), slabs, consumer_flags=in_python),
                Messages("built in", sizes.readers(4), slabs, consumer_flags=built_in),
            ),
            (Rate(60_000),),
            1,
            "slabs",
            needs=("numpy",),
        ),
        Row(
            "W12-hash",
            "A shared object that reads every byte of 4 MiB a slab, and the same compiled in; one consumer",
            (
                Messages("shared object", 1, consumer_flags={**as_object, "processor-option": "work=hash"}, **large),
                Messages("compiled in", 1, consumer_flags={"processor": "checksum"}, **large),
            ),
            (Ratio("compiled in", 0.99),),
            1,
            "slabs",
        ),
        Row(
            "W12-copy",
            "W6 with processors in Python that copy every byte, and the same in C++",
            (
                Ours("in Python", {**copy, "processor": COPY_IN_PYTHON, "consumer-python": PYTHON}, sizes.readers(12)),
                Ours(
                    "shared object",
                    {**copy, "processor": AS_OBJECT, "processor-option": "work=copy"},
                    sizes.readers(12),
                ),
            ),
            (Ratio("shared object", 0.98),),
            copy["batch"],
            raw_bytes=sizes.copy_bytes,
            needs=("numpy",),
        ),
    ]


def varying_rows(sizes):
    """Hidden states of texts: per token four layers of 4,096 numbers in bfloat16."""
    layers, readers = 4, sizes.readers(12)
    width, slabs, slab_bytes, kill_seconds = (64, 4, 1 << 20, 0.1) if sizes.small else (4096, 16, 256 << 20, 1)
    kills, lists, files = "ours, consumers killed", "ours, lists", "files in tmpfs"
    rows = []
    for tokens, batch in ((100, 64), (1000, 8)):
        mean = tokens // 10 if sizes.small else tokens
        text_bytes = mean * layers * 2 * width
        texts_in_pool = slabs * slab_bytes // text_bytes
        states = {"lengths": LENGTHS[mean], "batch": batch, "width": width}
        ours = Loop(
            "ours",
            "hidden_states.py",
            {"way": "packed", **states, "slabs": slabs, "slab-bytes": slab_bytes},
            readers,
            {"processor": "checksum"},
        )
        peer = {
            "way": "files",
            **states,
            "folder": TMPFS,
            "texts": texts_in_pool,
            "readers": readers,
            "reader": "read-all",
        }
        rows.append(
            Row(
                f"W13-{tokens}-tokens",
                f"Samples of different shapes: hidden states of texts of {mean} tokens on average, every byte read",
                (
                    ours,
                    dataclasses.replace(ours, name=lists, flags={**ours.flags, "way": "lists"}),
                    dataclasses.replace(ours, name=kills, kill_seconds=kill_seconds),
                    ceiling(
                        sizes,
                        [2 * width] * layers,
                        TEXTS,
                        lengths=LENGTHS[mean],
                        buffers=max(2, texts_in_pool // TEXTS),
                    ),
                    PeerProgram(files, "hidden_states.py", peer, readers),
                ),
                (
                    Ratio("copy ceiling", 0.98),
                    Ratio("copy ceiling", 0.98, of=lists),
                    Ratio(files, 3),
                    Ratio("ours", 0.97, of=kills),
                    NothingLost(kills),
                ),
                batch,
                raw_bytes=batch * text_bytes,
            )
        )
    return rows


def python_rows(sizes):
    """Loops in Python, whose consumers read every byte, beside the same loops without Offramp."""
    flags = {"batch": sizes.batch, "image-size": sizes.side, "precision": sizes.precision("bf16")}
    dropped = "outputs dropped"
    return [
        Row(
            f"W15-{way}",
            f"A loop in Python, DeepLabV3 as torchvision has it: {what}, every byte read",
            (
                Loop(
                    "ours",
                    "python_loops.py",
                    {"way": way, **flags, "consumers": sizes.readers(12), "output": OUTPUT},
                    0,
                    {},
                ),
                PeerProgram(dropped, "python_loops.py", {"way": without_offramp, **flags}),
            ),
            (Ratio(dropped, 0.99),),
            sizes.batch,
            raw_bytes=sizes.logits,
            settle_seconds=0 if sizes.small else 1,  # a stopped loop leaves up to 7 batches of 80 ms
            needs=needs,
        )
        for way, what, without_offramp, needs in (
            ("map", "offramp.map()", "loop", ()),
            ("lightning", "Lightning with a PredictionWriter", "trainer", ("lightning",)),
        )
    ]


def start_rows(sizes):
    flags = {**sizes.deeplab("bf16", synthetic_on="device", processor="checksum"), "samples-per-slab": sizes.batch}
    whole, least = {**flags, "slabs": sizes.peer_slabs}, {**flags, "slabs": 2}
    return [
        Row(
            "start",
            "From the start of the program to the first batch delivered; and the pool's own readiness",
            (
                Ours("ours", whole, sizes.readers(8)),
                Ours("smallest pool", least, sizes.readers(8)),
                PeerProgram("one object", "one_object.py", {"bytes": sizes.peer_slabs * sizes.logits}),
            ),
            (
                Figure("first_batch_seconds", 1.1, over="smallest pool"),
                Figure("all_slabs_seconds", 0.25, over="one object"),
                Figure("first_slab_seconds", 0.3),
            ),
            sizes.batch,
            kind="start",
            raw_bytes=sizes.logits,
            start_batches=4 if sizes.small else 24,
        )
    ]


def curve_rows(sizes):
    flags = sizes.deeplab("bf16", synthetic_on="device", processor="checksum")
    return [
        Row(
            "E",
            "W2 as consumers are added: how many it takes",
            (Ours("ours", flags, 1), alone(flags)),
            (OnCurve(2 if sizes.small else 4, 0.98),),
            sizes.batch,
            kind="curve",
            raw_bytes=sizes.logits,
            curve=(1, 2) if sizes.small else (1, 2, 3, 4, 6, 8, 12, 15),
        )
    ]


def make_rows(small, gpu=True):
    """All rows; in full size without a GPU, only those from files to files."""
    sizes = Sizes(small, gpu)
    from_files = [*picture_rows(sizes), *text_rows(sizes)]
    if not gpu and not small:
        return from_files
    return [
        *article_rows(sizes),
        *fast_model_rows(sizes),
        *transform_rows(sizes),
        *small_batch_rows(sizes),
        *copy_rows(sizes),
        *message_rows(sizes),
        *hosted_rows(sizes),
        *varying_rows(sizes),
        *python_rows(sizes),
        *ingress_rows(sizes),
        *from_files,
        *start_rows(sizes),
        *curve_rows(sizes),
    ]


def choose(rows, wanted):
    """The rows by id (W1-host-write) or workload (W1; W4 includes W4a and W4b); all if none is named."""
    chosen = [
        row
        for row in rows
        if not wanted
        or any(row.id == name or row.workload.rstrip("ab") == name or row.workload == name for name in wanted)
    ]
    for name in wanted:
        if not any(row.id == name or row.workload == name or row.workload.rstrip("ab") == name for row in rows):
            raise ValueError(f"unknown row or workload '{name}'. Known: {', '.join(row.id for row in rows)}")
    return chosen


def without(rows, patterns):
    """
    The rows less the contestants that these patterns name ("article*"), and without the targets and ratios that name
    them. Contestants that this machine does not measure may be named.
    """
    known = dict.fromkeys(spec.name for row in make_rows(False) for spec in row.contestants)
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise ValueError(f"unknown contestant '{pattern}'. Known: {'; '.join(known)}")
    return [
        thinned(
            row,
            {
                spec.name
                for spec in row.contestants
                if any(fnmatch.fnmatchcase(spec.name, pattern) for pattern in patterns)
            },
        )
        for row in rows
    ]


def thinned(row, gone):
    if row.contestants[0].name in gone:
        raise ValueError(f"cannot leave '{row.contestants[0].name}' out of {row.id}: it is the row's subject")
    if row.curve and gone:
        raise ValueError(f"cannot leave anything out of {row.id}: a curve needs its limit")
    left = tuple(spec for spec in row.contestants if spec.name not in gone)
    # Only a peer's queued GPU work takes longer than the pace allows for.
    return dataclasses.replace(
        row,
        contestants=left,
        settle_seconds=row.settle_seconds if any(isinstance(spec, PeerProgram) for spec in left) else 0,
        targets=tuple(target for target in row.targets if not gone & contestants_of(target)),
        beside=tuple(pair for pair in row.beside if not gone & set(pair)),
    )
