"""Other programs read the processors' results, and the numbers equal those of the samples."""

import io
import json
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import unittest
import urllib.parse

import numpy
import PIL.Image
import pycocotools.mask
import safetensors

from tests.support.http_receiver import Receiver, make_certificate

PARQUET = (pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so").exists()
if PARQUET:
    import pyarrow.parquet

PROGRAM = pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).absolute() / "tests" / "offramp-processed-samples"
KEYS = {0: "sample 0", 1: 'a folder/é "quoted".jpg', 3: "sample 3", 4: "sample 4", 5: "sample 5"}  # item 2 is missing


def scratch_folder(case):
    """A folder that is removed at the end of the test."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="offramp-test-"))
    case.addCleanup(shutil.rmtree, folder)
    return folder


class Processed:
    """A folder with a processor's results of the samples of processed_samples.cpp, and their numbers."""

    def __init__(self, case, processor, *flags):
        self.folder = scratch_folder(case)
        printed = self.process(processor, *flags)
        assert printed.returncode == 0, printed.stderr
        self.outputs = [json.loads(line) for line in printed.stdout.splitlines() if line.startswith("{")]

    def process(self, processor, *flags, **more):
        return subprocess.run(
            [PROGRAM, "--processor", processor, "--output", self.folder, *flags],
            capture_output=True,
            text=True,
            timeout=60,
            **more,
        )

    def samples(self):
        """(item, key, output, array) of every expected result."""
        for item, key in KEYS.items():
            for place, output in enumerate(self.outputs):
                i = numpy.arange(int(numpy.prod(output["shape"])))
                numbers = (item * 131 + place * 7 + i * 37 + i // 11) % 101
                if output["dtype"] == "bool":
                    numbers %= 2
                yield item, key, output, numbers.reshape(output["shape"])

    def files(self):
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


class Npy(unittest.TestCase):
    def test_numpy_maps_every_array(self):
        processed = Processed(self, "npy")
        wanted = set()
        for _, key, output, numbers in processed.samples():
            name = f"{key}.{output['name']}.npy"
            wanted.add(name)
            array = numpy.load(processed.folder / name, mmap_mode="r", allow_pickle=False)
            # Some versions map a single number with one dimension too many.
            dtype = "float32" if output["dtype"] == "bfloat16" else output["dtype"]
            self.assertEqual(
                (array.dtype.name, list(array.shape) if output["shape"] else []), (dtype, output["shape"]), name
            )
            self.assertTrue(array.flags.c_contiguous and array.flags.aligned and array.offset % 64 == 0, name)
            numpy.testing.assert_array_equal(array.reshape(output["shape"]), numbers, name)
        self.assertEqual(processed.files(), wanted)


class Write(unittest.TestCase):
    def test_raw_files_are_arrays_in_row_major_order(self):
        folder = scratch_folder(self)
        processed = Processed(self, "write", "--write-path", str(folder))
        for _, key, output, numbers in processed.samples():
            numpy.testing.assert_array_equal(
                self.array((folder / f"{key}.{output['name']}.bin").read_bytes(), output), numbers, output["name"]
            )

    def test_a_pipe_gets_one_sample_after_another(self):
        folder = scratch_folder(self)
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        # Both ends are open before the program starts, so it finds a reader, and the reader sees no early end.
        source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        held = os.open(pipe, os.O_WRONLY)
        os.set_blocking(source, True)
        with open(folder / "read", "wb") as read, subprocess.Popen(["cat"], stdin=source, stdout=read) as reader:
            os.close(source)
            try:
                processed = Processed(self, "write", "--write-path", str(pipe))
            finally:
                os.close(held)
                reader.wait(60)
        text = io.BytesIO((folder / "read").read_bytes())
        wanted = list(processed.samples())
        for slab in ((0, 1), (3, 4, 5)):
            for output in processed.outputs:
                for item, _, of, numbers in wanted:
                    if item in slab and of is output:
                        numpy.testing.assert_array_equal(
                            self.array(text.read(numbers.size * self.bytes_of(output)), output), numbers, output["name"]
                        )
        self.assertEqual(text.read(), b"")

    def bytes_of(self, output):
        return 2 if output["dtype"] == "bfloat16" else numpy.dtype(output["dtype"]).itemsize

    def array(self, text, output):
        if output["dtype"] == "bfloat16":
            return (numpy.frombuffer(text, "uint16").astype("uint32") << 16).view("float32").reshape(output["shape"])
        return numpy.frombuffer(text, output["dtype"]).reshape(output["shape"])


class Safetensors(unittest.TestCase):
    def test_the_library_opens_every_file(self):
        processed = Processed(self, "safetensors")
        self.assertEqual(processed.files(), {f"{key}.safetensors" for key in KEYS.values()})
        for _, key, output, numbers in processed.samples():
            with safetensors.safe_open(processed.folder / f"{key}.safetensors", framework="pt") as file:
                self.assertEqual(file.metadata(), {"key": key, "model": "made"})
                self.assertEqual(set(file.keys()), {output["name"] for output in processed.outputs})
                tensor = file.get_tensor(output["name"])
            self.assertEqual(
                (str(tensor.dtype).removeprefix("torch."), list(tensor.shape)), (output["dtype"], output["shape"])
            )
            numpy.testing.assert_array_equal(tensor.double().numpy(), numbers, key)


class Http(unittest.TestCase):
    def test_a_server_gets_every_array(self):
        os.environ["NO_PROXY"] = "127.0.0.1"
        for body in ("json", "npy"):
            with self.subTest(body), Receiver() as receiver:
                processed = Processed(self, "http", "--http-url", receiver.url, "--http-body", body)
                self.assertEqual(processed.files(), set())
                arrays = {}
                for key, (text,) in receiver.arrived.items():
                    name = tuple(
                        urllib.parse.unquote(receiver.headers[key][header])
                        for header in ("Offramp-Sample", "Offramp-Output")
                    )
                    arrays[name] = (
                        self.decoded(text, name) if body == "json" else numpy.load(io.BytesIO(text), allow_pickle=False)
                    )
                self.assertEqual(len(arrays), len(receiver.arrived))
                self.assertEqual(arrays.keys(), {(key, output["name"]) for _, key, output, _ in processed.samples()})
                for _, key, output, numbers in processed.samples():
                    array = arrays[key, output["name"]]
                    dtype = "float32" if output["dtype"] == "bfloat16" else output["dtype"]
                    self.assertEqual((array.dtype.name, list(array.shape)), (dtype, output["shape"]), output)
                    numpy.testing.assert_array_equal(array, numbers)

    def test_an_untrusted_certificate_is_refused(self):
        os.environ["NO_PROXY"] = "127.0.0.1"
        folder = scratch_folder(self)
        identity = make_certificate(folder)
        pathlib.Path(folder, "other").mkdir()
        another = make_certificate(f"{folder}/other")
        pathlib.Path(folder, "cut.pem").write_text(pathlib.Path(identity[0]).read_text()[:300])
        pathlib.Path(folder, "empty.pem").touch()
        unreadable = "error setting certificate file"
        with Receiver(identity=identity) as receiver:
            for authorities, reason in (
                (None, "self-signed certificate"),
                (another[0], "self-signed certificate"),
                (f"{folder}/absent.pem", unreadable),
                (f"{folder}/cut.pem", unreadable),
                (f"{folder}/empty.pem", unreadable),
                (folder, unreadable),
            ):
                with self.subTest(authorities):
                    flags = ("--http-ca-file", authorities) if authorities else ()
                    refused = subprocess.run(
                        [PROGRAM, "--processor", "http", "--output", folder, "--http-url", receiver.url, *flags],
                        capture_output=True,
                        text=True,
                        timeout=60,
                    )
                    self.assertEqual(refused.returncode, 64, refused.stderr)
                    self.assertIn(reason, refused.stderr)
                    self.assertIn("--http-ca-file", refused.stderr)
            self.assertEqual(receiver.requests, 0)

    def decoded(self, text, name):
        body = json.loads(text)
        self.assertEqual((body["key"], body["output"], body["model"]), (*name, "made"))
        return numpy.array(body["data"], "float32" if body["dtype"] == "bfloat16" else body["dtype"]).reshape(
            body["shape"]
        )


class EmbeddingsSqlite(unittest.TestCase):
    FLAGS = {
        "as they are": (),
        "normalized": ("--normalize",),
        "float16": ("--vector-dtype", "fp16"),
        "combined": ("--normalize", "--vector-dtype", "fp16", "--truncate-dim", "5"),
    }

    def wanted(self, numbers, flags):
        vector = numbers.astype("float64")[: 5 if "--truncate-dim" in flags else None]
        if "--normalize" in flags:
            vector = vector / numpy.linalg.norm(vector)
        return vector.astype("float32").astype("<f2" if "fp16" in flags else "<f4")

    def test_sqlite3_and_numpy_read_every_vector(self):
        for name, flags in self.FLAGS.items():
            with self.subTest(name):
                processed = Processed(self, "embeddings-sqlite", *flags)
                self.assertEqual(processed.files(), {"embeddings.sqlite", ".offramp-made-embeddings"})
                database = sqlite3.connect(processed.folder / "embeddings.sqlite")
                self.addCleanup(database.close)
                vectors = [sample for sample in processed.samples() if len(sample[2]["shape"]) == 1]
                self.assertEqual(database.execute("SELECT count(*) FROM embeddings").fetchone()[0], len(vectors))
                for item, key, output, numbers in vectors:
                    found = database.execute(
                        "SELECT item, vector, dimensions, dtype, normalized, model FROM embeddings JOIN outputs USING (output) "
                        "WHERE key = ? AND output = ?",
                        (key, output["name"]),
                    ).fetchone()
                    wanted = self.wanted(numbers, flags)
                    numpy.testing.assert_array_equal(numpy.frombuffer(found[1], wanted.dtype), wanted)
                    self.assertEqual(
                        (found[0], *found[2:]),
                        (item, len(wanted), wanted.dtype.name, int("--normalize" in flags), "made"),
                    )

    def test_a_second_run_with_other_vectors_is_refused(self):
        processed = Processed(self, "embeddings-sqlite")
        refused = processed.process("embeddings-sqlite", "--truncate-dim", "7")
        self.assertEqual(refused.returncode, 64)
        self.assertIn("vectors of 12 float32 numbers", refused.stderr)


@unittest.skipUnless(PARQUET, "built without pyarrow")
class EmbeddingsParquet(unittest.TestCase):
    def test_pyarrow_reads_every_vector(self):
        for name, flags in EmbeddingsSqlite.FLAGS.items():
            with self.subTest(name):
                processed = Processed(self, "embeddings-parquet", *flags)
                self.assertEqual(processed.files(), {"embeddings.parquet"})
                table = pyarrow.parquet.read_table(processed.folder / "embeddings.parquet")
                vectors = [sample for sample in processed.samples() if len(sample[2]["shape"]) == 1]
                wanted = [EmbeddingsSqlite.wanted(self, numbers, flags) for *_, numbers in vectors]
                dimensions, number = len(wanted[0]), pyarrow.float16() if "fp16" in flags else pyarrow.float32()
                vector = pyarrow.list_(pyarrow.field("element", number, nullable=False), dimensions)
                self.assertEqual(
                    [(field.name, field.type, field.nullable) for field in table.schema],
                    [
                        ("key", pyarrow.string(), False),
                        ("output", pyarrow.string(), False),
                        ("item", pyarrow.int64(), False),
                        ("vector", vector, True),
                    ],
                )
                self.assertEqual(
                    table.schema.metadata,
                    {b"model": b"made", b"normalized": b"true" if "--normalize" in flags else b"false"},
                )
                rows = [table[column].to_pylist() for column in ("item", "key", "output")]
                self.assertEqual(list(zip(*rows)), [(item, key, output["name"]) for item, key, output, _ in vectors])
                found = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, dimensions)
                self.assertEqual(found.dtype, wanted[0].dtype)
                numpy.testing.assert_array_equal(found, numpy.stack(wanted))

    def test_the_file_of_a_previous_run_is_continued_or_replaced(self):
        processed = Processed(self, "embeddings-parquet")
        file = processed.folder / "embeddings.parquet"
        before = file.read_bytes()
        self.assertEqual(processed.process("embeddings-parquet", "--resume").returncode, 0)
        self.assertEqual(file.read_bytes(), before)
        self.assertEqual(processed.process("embeddings-parquet", "--truncate-dim", "7").returncode, 0)
        self.assertEqual(pyarrow.parquet.read_schema(file).field("vector").type.list_size, 7)
        # Rows of items outside this run stay and must be of the same kind.
        rows = pyarrow.parquet.read_table(file)
        other = rows.set_column(
            2, rows.schema.field("item"), pyarrow.array([item + 100 for item in rows["item"].to_pylist()])
        )
        pyarrow.parquet.write_table(other, file)
        self.assertEqual(processed.process("embeddings-parquet", "--truncate-dim", "7", "--resume").returncode, 0)
        joined = pyarrow.parquet.read_table(file)
        self.assertEqual(joined["item"].to_pylist(), rows["item"].to_pylist() + other["item"].to_pylist())
        self.assertEqual(joined["vector"].to_pylist(), 2 * rows["vector"].to_pylist())
        refused = processed.process("embeddings-parquet", "--truncate-dim", "6", "--resume")
        self.assertEqual(refused.returncode, 64)
        self.assertIn("are of two kinds: output 'vector32' has 6 float32 numbers", refused.stderr)
        self.assertEqual(pyarrow.parquet.read_table(file), joined)

    def test_unusable_files_are_reported_and_left_unchanged(self):
        processed = Processed(self, "embeddings-parquet")
        file = processed.folder / "embeddings.parquet"
        whole = file.read_bytes()

        def full_soon():
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - 100,) * 2)

        refused = processed.process("embeddings-parquet", preexec_fn=full_soon, restore_signals=False)
        self.assertEqual((refused.returncode, file.read_bytes()), (73, whole), refused.stderr)
        self.assertIn("embeddings.parquet", refused.stderr)
        file.write_bytes(whole[:-20])
        refused = processed.process("embeddings-parquet", "--resume")
        self.assertEqual((refused.returncode, file.read_bytes()), (71, whole[:-20]), refused.stderr)
        self.assertIn(f"Parquet: opening {file}", refused.stderr)
        # Only its owner removes it; the file to merge with it still exists.
        file.unlink()
        done = processed.process("embeddings-parquet")
        self.assertEqual((done.returncode, file.read_bytes()), (0, whole), done.stderr)

    def test_without_the_module_it_reports_how_to_get_it(self):
        folder = scratch_folder(self)
        (folder / "bin").mkdir()
        program = shutil.copy(PROGRAM, folder / "bin")
        refused = subprocess.run(
            [program, "--processor", "embeddings-parquet", "--output", folder / "output"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(refused.returncode, 64)
        self.assertIn(f"no module for Parquet at '{folder}/lib/libofframp_parquet.so'", refused.stderr)
        self.assertIn("pip install pyarrow", refused.stderr)


class MaskRle(unittest.TestCase):
    def test_pycocotools_decodes_the_masks_of_the_png_files(self):
        processed = Processed(self, "mask-png,mask-rle,records")
        records = sqlite3.connect(processed.folder / "records/records.sqlite")
        self.addCleanup(records.close)
        lines = [json.loads(line) for line in (processed.folder / "mask-rle/masks.jsonl").read_text().splitlines()]
        # Two outputs are class scores; the second is channels-last.
        self.assertEqual(
            [(line["item"], line["key"], line["output"]) for line in lines],
            [(*sample, output) for sample in KEYS.items() for output in ("scores", "turned")],
        )
        shares = {}
        for line in lines:
            png = numpy.asarray(PIL.Image.open(processed.folder / f"mask-png/{line['key']}.{line['output']}.png"))
            self.assertGreaterEqual(len(numpy.unique(png)), 2)
            self.assertEqual(line["size"], list(png.shape))
            self.assert_same_mask(line, png)
            of_item = shares.setdefault(line["item"], {})
            of_item[line["output"]] = {
                str(id): count / png.size for id, count in zip(*numpy.unique(png, return_counts=True))
            }
        for item, key in KEYS.items():
            found = records.execute(
                "SELECT key, files, classes FROM records WHERE status = 'done' AND item = ?", (item,)
            ).fetchone()
            files = {"mask-png": [f"mask-png/{key}.scores.png", f"mask-png/{key}.turned.png"]}
            self.assertEqual((found[0], json.loads(found[1]), json.loads(found[2])), (key, files, shares[item]))
        self.assertEqual(
            records.execute("SELECT item, status FROM records WHERE status != 'done'").fetchall(), [(2, "skipped")]
        )

    def assert_same_mask(self, line, png):
        covered = numpy.zeros(png.shape, bool)
        for annotation in line["annotations"]:
            encoded = annotation["segmentation"]
            mask = pycocotools.mask.decode(encoded).astype(bool)
            numpy.testing.assert_array_equal(mask, png == annotation["category_id"])
            self.assertEqual(
                pycocotools.mask.encode(numpy.asfortranarray(mask, "uint8"))["counts"].decode(), encoded["counts"]
            )
            self.assertEqual(
                (annotation["area"], annotation["bbox"]),
                (int(pycocotools.mask.area(encoded)), pycocotools.mask.toBbox(encoded).astype(int).tolist()),
            )
            covered |= mask
        numpy.testing.assert_array_equal(covered, png != 0)
