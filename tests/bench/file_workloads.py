"""
Rows from files to files or to a database. Decoding, model and writing limit them; each of these alone is a contestant.
"""

import dataclasses

from specs import (
    CAMERA_IMAGES,
    CUTOUT_RESULTS,
    DEEPLAB_RESULTS,
    DEEPLAB_WEIGHTS,
    ENCODER,
    FIRST_PIXEL,
    FIRST_TOKEN,
    IMAGES,
    LARGE_SIDE,
    LARGE_PICTURES,
    LIGHT_NETWORK,
    LINES,
    MAX_TOKENS,
    OUTPUT,
    PHOTOGRAPHS,
    POSTGRES,
    SENTENCES,
    SHIPPED_WEIGHTS,
    Ours,
    PeerProgram,
    Row,
    alone,
)
from targets import CoresAllow, Cpu, Faults, Ratio, SmallestOf

DECODE, ENCODE, PLAIN = "decode limit", "encode limit", "plain PyTorch"
ON_CPU, ON_TWO_CORES, ENCODED_ON_CPU = "decoded on the CPU", "on two cores", "encoded on the CPU"
VECTOR = 384  # dimensions of the measured model's vectors


def picture_rows(sizes):
    rows = [mask_row(sizes), cut_out_row(sizes)]
    if sizes.gpu and not sizes.small:
        rows += [
            on_two_cores(decoded_on_gpu("W14-masks", rows[0], 0.99)),
            on_two_cores(decoded_on_gpu("W14-cut-outs", rows[1], 1.3, consumers=15)),
            decoded_on_gpu("W14-light", light_row(sizes), 2.5, workers=14),
            encoded_on_gpu(sizes),
        ]
    return rows


def decoded_on_gpu(name, row, over_cpu, consumers=None, workers=None):
    """
    The same row with --decode gpu, beside itself with the CPU's decoder. `consumers`: more of them, on the cores that
    no longer decode. `workers`: more for the CPU's decoder.
    """
    ours, model, decode, encode = row.contestants[:4]
    gpu = {"decode": "gpu"}
    consumers = consumers or ours.consumers
    return dataclasses.replace(
        row,
        id=name,
        description=f"{row.description}; the GPU decodes",
        contestants=(
            dataclasses.replace(ours, flags=ours.flags | gpu, consumers=consumers),
            dataclasses.replace(ours, name=ON_CPU, flags=ours.flags | ({"decode-workers": workers} if workers else {})),
            model,
            dataclasses.replace(decode, flags=decode.flags | gpu),
            dataclasses.replace(encode, consumers=consumers),
        ),
        targets=(
            SmallestOf((model.name, DECODE, ENCODE), 0.9),
            Ratio(ON_CPU, over_cpu),
            Cpu(ON_CPU, 0.25),
        ),
    )


def on_two_cores(row):
    """The row with its first contestant once more, on two of the machine's cores."""
    ours, *others = row.contestants
    return dataclasses.replace(
        row,
        contestants=(ours, dataclasses.replace(ours, name=ON_TWO_CORES, cores=2), *others),
        targets=(*row.targets, Ratio("ours", 0.9, of=ON_TWO_CORES)),
    )


def encoded_on_gpu(sizes):
    """A model that costs nothing, whose pictures become JPEG files."""
    flags = {
        "model": LARGE_PICTURES,
        "batch": sizes.batch,
        "image-size": 64,
        **sizes.slabs,
        "synthetic-on": "device",
        "processor": "image",
        "image-format": "jpeg",
        "picture-size": "model",
        "output": OUTPUT,
    }
    ours = Ours("ours", {**flags, "encode": "gpu"}, sizes.readers(15))
    return Row(
        "W14-jpeg",
        "Pictures of 1024×1024 as JPEG files, encoded on the GPU",
        (ours, dataclasses.replace(ours, name=ENCODED_ON_CPU, flags={**flags, "encode": "cpu"})),
        (Ratio(ENCODED_ON_CPU, 5),),
        sizes.batch,
        raw_bytes=sizes.batch * 3 * LARGE_SIDE**2,
    )


def mask_row(sizes):
    read = {"source": "images", "input": IMAGES, "decode-workers": sizes.readers(8), "batches": None}
    network = sizes.deeplab("bf16", weights=DEEPLAB_WEIGHTS)
    flags = {**network, "transform": "class-map"}
    written = {"processor": "mask-png", "mask-size": "model", "output": OUTPUT}  # like the plain program
    model = "model and transform alone"
    plain = plain_pictures(flags, read, "deeplabv3", DEEPLAB_WEIGHTS, sizes.readers(8))
    return Row(
        "W7",
        "JPEG files in, PNG masks out",
        (
            Ours("ours", {**flags, **read, **written}, sizes.readers(8)),
            alone(flags, model, synthetic_on="device"),
            decode_limit(flags, read),
            Ours(ENCODE, {**unfed(network, DEEPLAB_RESULTS), **written}, sizes.readers(8)),
            plain,
        ),
        (SmallestOf((model, DECODE, ENCODE), 0.95), CoresAllow((model, DECODE, ENCODE), 0.9), Faults()),
        sizes.batch,
        raw_bytes=sizes.logits,
    )


def cut_out_row(sizes):
    batch, side = sizes.of(64, 16, 2), sizes.of(256, 256, 64)
    consumers = sizes.readers(12)
    read = {"source": "jsonl", "input": PHOTOGRAPHS, "decode-workers": sizes.of(4, 2, 1), "batches": None}
    flags = {
        "model": "cutout",
        "weights": SHIPPED_WEIGHTS,
        "batch": batch,
        "image-size": side,
        "precision": sizes.precision("tf32"),
        "slabs": sizes.of(64, 16, 4),
        "samples-per-slab": sizes.of(8, 4, 1),
    }
    # A GPU computes classes and alpha itself; on a CPU that would only move the work.
    flags |= sizes.of({"transform": "class-map", "confidence": True}, {}, {})
    written = {"processor": "mask-png,cut-out", "mask-size": "model", "output": OUTPUT}
    model = "model alone"
    plain = plain_pictures(flags, read, "cutout", SHIPPED_WEIGHTS, consumers, cut_outs=True)
    return Row(
        "W10-cut-out",
        "Rendered pictures cut out: JPEG files in, a mask and a cut-out of each as PNG files out",
        (
            Ours("ours", {**flags, **read, **written}, consumers),
            alone(flags, model, synthetic_on="device"),
            decode_limit(flags, read),
            # Synthetic items are named by their number, by which the manifest has the cut-outs' originals.
            Ours(
                ENCODE,
                {**unfed(flags, CUTOUT_RESULTS), **written, "source": "synthetic", "input": PHOTOGRAPHS},
                consumers,
            ),
            plain,
        ),
        (SmallestOf((model, DECODE, ENCODE), 0.9), CoresAllow((model, DECODE, ENCODE), 0.9), Faults()),
        batch,
        raw_bytes=batch * 2 * side * side * 4,
    )


def light_row(sizes):
    """A network so light that decoding alone limits it."""
    read = {"source": "images", "input": CAMERA_IMAGES, "decode-workers": sizes.readers(8), "batches": None}
    flags = {
        "model": LIGHT_NETWORK,
        "batch": sizes.batch,
        "image-size": sizes.side,
        **sizes.slabs,
        "transform": "class-map",
    }
    written = {"processor": "mask-png", "mask-size": "model", "output": OUTPUT}
    return Row(
        "light",
        "JPEG files of 1024×768 in, PNG masks of LRASPP-MobileNetV3-Large out",
        (
            Ours("ours", {**flags, **read, **written}, sizes.readers(8)),
            alone(flags, "model and transform alone", synthetic_on="device"),
            decode_limit(flags, read),
            Ours(ENCODE, {**unfed(sizes.deeplab("bf16"), DEEPLAB_RESULTS), **written}, sizes.readers(8)),
        ),
        (),
        sizes.batch,
        raw_bytes=sizes.logits,
    )


def decode_limit(flags, read):
    """The same reading, into a model that looks at one pixel."""
    return alone({**read, "model": FIRST_PIXEL, **{name: flags[name] for name in ("batch", "image-size")}}, DECODE)


def unfed(flags, results):
    """The flags for a model that returns results it has ready."""
    kept = {name: value for name, value in flags.items() if name not in ("precision", "weights")}
    return {**kept, "model": results, "synthetic-on": "device"}


def plain_pictures(flags, read, network, weights, writers, cut_outs=False):
    """Uses as many decoding and writing processes as ours has threads and consumers."""
    return PeerProgram(
        PLAIN,
        "pictures.py",
        {
            "network": network,
            "weights": weights,
            "input": read["input"],
            "output": OUTPUT,
            **{name: flags[name] for name in ("batch", "image-size", "precision")},
            "loaders": read["decode-workers"],
            "readers": writers,
            "cut-outs": cut_outs,
        },
        writers,
    )


def text_rows(sizes):
    batch = sizes.of(256, 16, 4)
    encoder = {"model": ENCODER, "batch": batch}
    rows = []
    for database, name, consumers, place, needs in (
        ("sqlite", "SQLite", 2, {"output": OUTPUT}, ("sentences",)),
        ("postgres", "PostgreSQL with pgvector", 4, {"output": OUTPUT, "sink": POSTGRES}, ("sentences", "postgres")),
    ):
        table = "executemany from a file" if database == "sqlite" else "COPY from memory"
        text = {"profile": "embeddings", "input": LINES, "batches": None}
        where = {"output": OUTPUT} if database == "sqlite" else {"sink": POSTGRES}
        peer = {"database": database, **where}
        rows.append(
            Row(
                f"W11-{database}",
                f"Lines of text in, vectors of a sentence encoder (MiniLM) in {name}",
                (
                    Ours("ours", {**encoder, **text, **place}, sizes.readers(consumers)),
                    alone({**encoder, "source": "synthetic"}, "model alone", synthetic_on="device"),
                    alone({**text, "model": FIRST_TOKEN, "batch": batch}, "tokenizer alone"),
                    PeerProgram(
                        table, "table_rows.py", {**peer, "numbers": VECTOR, "transaction": sizes.of(10_000, 1_000, 50)}
                    ),
                    PeerProgram(
                        "sentence-transformers",
                        "sentences.py",
                        {
                            **peer,
                            "model": SENTENCES,
                            "input": LINES,
                            "max-tokens": MAX_TOKENS,
                            "batch": batch,
                            "precision": sizes.precision("bf16"),
                        },
                    ),
                ),
                (SmallestOf(("model alone", table), 0.9), CoresAllow(("model alone", "tokenizer alone", table), 0.9)),
                1,
                "lines",
                raw_bytes=4 * VECTOR,
                needs=needs,
            )
        )
    return rows
