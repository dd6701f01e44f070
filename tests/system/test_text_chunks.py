"""Long texts in overlapping chunks: rows name their text and part, and are the same despite failures."""

import contextlib
import importlib.util
import json
import os
import pathlib
import random
import sqlite3
import string
import struct
import unittest

from tests.support.exported_model import folder_of_class
from tests.support.launched_job import JobWorld
from tests.support.launched_run import ROOT
from tests.support.text_runs import TextRuns
from tests.system.test_several_inputs import NETWORKS, WORDS

TEXTS = 40
NEEDED = ("torch", "tokenizers")
LENGTH, CHUNK, OVERLAP = 256, 8, 3
TOKENS = tuple(
    word
    for name, tokens in (("input_ids", "ids"), ("attention_mask", "mask"), ("token_type_ids", "types"))
    for word in ("--input", f"{name}={tokens}:{LENGTH}")
)
CHUNKS = ("--chunk-tokens", str(CHUNK), "--chunk-overlap", str(OVERLAP))
ROWS = ("item", "key", "id", "columns", "chunk", "start_char", "end_char")
HAS_PARQUET = (
    pathlib.Path(os.environ["OFFRAMP_TEST_BIN"]).parent / "lib/libofframp_parquet.so"
).exists() and importlib.util.find_spec("pyarrow")


def texts_of_any_length():
    chance = random.Random(11)
    words = ("slab", "lease", "ticket", "credit", "Größe", "日本語", "x.y", "\n", "\U0001f600")
    return [
        "",
        "slab",
        " ",
        *(" ".join(chance.choices(words, k=chance.randrange(90))) for _ in range(TEXTS - 4)),
        "slab " * 2000 + "ticket",
    ]


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in NEEDED), f"skipped: needs {', '.join(NEEDED)}")
class TextChunks(TextRuns, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.begin("text-chunks", NETWORKS, WORDS, TOKENS)
        cls.texts = texts_of_any_length()
        cls.jsonl = cls.write(
            "rows.jsonl",
            "".join(
                json.dumps({"id": f"doc/../{number}", "text": text, "n": number}) + "\n"
                for number, text in enumerate(cls.texts)
            ),
        )
        cls.lines = cls.write("lines.txt", "\n".join(text.replace("\n", " ") for text in cls.texts) + "\n")

    def rows(self, world, names="id, columns, "):
        with contextlib.closing(sqlite3.connect(next(world.output.rglob("embeddings.sqlite")))) as database:
            return database.execute(
                f"SELECT item, key, {names}chunk, start_char, end_char, vector FROM embeddings ORDER BY item"
            ).fetchall()

    def undisturbed(self, source, path, *flags):
        return self.rows(self.ended(source, path, *flags))

    def check_places(self, places, texts):
        """[(text, chunk, start, end)]"""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "words.json"))
        for number, text in enumerate(texts):
            chunks = [place[1:] for place in places if place[0] == number]
            self.assertEqual([chunk for chunk, *_ in chunks], list(range(len(chunks))))
            self.assertEqual((chunks[0][1], chunks[-1][2]), (0, len(text)))
            for (_, _, end), (_, begin, _) in zip(chunks, chunks[1:]):
                self.assertEqual(text[end:begin].strip(), "", "there is text between two chunks")
                self.assertLessEqual(len(tokenizer.encode(text[begin:end], add_special_tokens=False).ids), OVERLAP)
            if len(chunks) > 1:
                self.assertLessEqual(max(len(tokenizer.encode(text[begin:end]).ids) for _, begin, end in chunks), CHUNK)
        self.assertGreater(len(places), 3 * len(texts))

    def test_chunks_are_parts_of_texts_and_a_killed_run_continues(self):
        wanted = self.undisturbed("jsonl-text", self.jsonl, *CHUNKS)
        self.assertEqual([item for item, *_ in wanted], list(range(len(wanted))))
        numbers = [int(name.rpartition("/")[2]) for _, _, name, *_ in wanted]
        self.assertEqual([columns for _, _, _, columns, *_ in wanted], [f'{{"n":{number}}}' for number in numbers])
        self.check_places([(number, *row[4:7]) for number, row in zip(numbers, wanted)], self.texts)
        # A chunk has the vector of a text that consists of the chunk alone.
        parts = self.write(
            "parts.jsonl",
            "".join(
                json.dumps({"id": number, "text": self.texts[text][row[5] : row[6]]}) + "\n"
                for number, (text, row) in enumerate(zip(numbers, wanted))
            ),
        )
        whole = self.ended("jsonl-text", parts)
        with contextlib.closing(sqlite3.connect(whole.output / "embeddings.sqlite")) as database:
            self.assertEqual(
                [vector for (vector,) in database.execute("SELECT vector FROM embeddings ORDER BY item")],
                [row[-1] for row in wanted],
            )

        killed = self.resumed("jsonl-text", self.jsonl, *CHUNKS)
        self.assertEqual(self.rows(killed), wanted)
        self.assertNotEqual(killed.start("--resume", "--chunk-overlap", "2").wait(), 0)

        shards = [self.undisturbed("jsonl-text", self.jsonl, *CHUNKS, "--shard", f"{number}/3") for number in (1, 2, 3)]
        self.assertEqual(sum(shards, []), wanted)
        self.assertEqual(self.undisturbed("jsonl-text", self.jsonl, *CHUNKS, "--gpus", "2"), wanted)

    def test_lines_are_cut_and_a_query_shows_the_passage(self):
        world = self.ended("text", self.lines, *CHUNKS)
        texts = self.lines.read_text(encoding="utf-8").split("\n")[:-1]
        self.check_places([(int(key), *place) for _, key, *place, _ in self.rows(world, "")], texts)
        for line in self.query(world, "ticket", "--top", "3", "--input", str(self.lines)).splitlines():
            _, _, key, place, *_ = line.split()
            begin, end = (int(number) for number in place.strip("[]").split(":"))
            self.assertIn(" ".join(texts[int(key)][begin:end].split()), " ".join(line.split()))

    def results(self, output):
        """{kind: rows} of embeddings-parquet and of records."""
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(next(output.rglob("embeddings.parquet")), columns=[*ROWS, "vector"])
        with contextlib.closing(sqlite3.connect(next(output.rglob("records.sqlite")))) as database:
            records = database.execute("SELECT item, key, id, columns, status FROM records ORDER BY item").fetchall()
        return {"parquet": [tuple(row.values()) for row in table.to_pylist()], "records": records}

    @unittest.skipUnless(HAS_PARQUET, "skipped: needs pyarrow and Offramp's module for Parquet")
    def test_parquet_and_records_have_equal_chunks_after_kills_and_in_shards(self):
        processors = ("--processor", "embeddings-sqlite,embeddings-parquet,records")
        whole = self.ended("jsonl-text", self.jsonl, *CHUNKS, processors=processors)
        rows, wanted = self.rows(whole), self.results(whole.output)
        self.assertGreater(len(rows), 3 * len(self.texts))
        self.assertEqual([row[:-1] for row in wanted["parquet"]], [row[:-1] for row in rows])
        self.assertEqual(
            [struct.pack(f"<{len(row[-1])}f", *row[-1]) for row in wanted["parquet"]], [row[-1] for row in rows]
        )
        self.assertEqual(
            wanted["records"],
            [
                (item, f"{key}#{chunk}@{begin}-{end}", name, columns, "done")
                for item, key, name, columns, chunk, begin, end, _ in rows
            ],
        )

        killed = self.resumed("jsonl-text", self.jsonl, *CHUNKS, processors=processors)
        self.assertEqual((self.rows(killed), self.results(killed.output)), (rows, wanted))

        job = self.in_shards(2, "jsonl-text", self.jsonl, *CHUNKS, processors=processors)
        self.assertNotEqual(len(rows) // 2 % 8, 0, "the shards cut a batch")
        self.assertEqual(
            [(record["done"], record["dead_letters"]) for record in map(job.record, range(2))],
            [(len(rows) // 2, 0), (len(rows) - len(rows) // 2, 0)],
        )
        self.assertEqual((self.rows(job), self.results(job.output)), (rows, wanted))

    def test_a_text_of_ten_megabytes_is_cut(self):
        text = "slab lease ticket credit " * 400_000
        rows = self.undisturbed(
            "jsonl-text",
            self.write("long.jsonl", json.dumps({"id": "long", "text": text}) + "\n"),
            "--chunk-tokens",
            str(LENGTH),
            "--limit",
            "1",
        )
        self.assertEqual((rows[0][5], rows[-1][6]), (0, len(text)))

    def test_incompatible_flags_are_refused_by_name(self):
        for flags, words in (
            (("--chunk-overlap", "3"), ("needs --chunk-tokens",)),
            (("--chunk-tokens", "8", "--chunk-overlap", "8"), ("is not less than",)),
            (("--chunk-tokens", "4096"), ("--chunk-tokens 4096", "the model takes")),
            (("--chunk-tokens", "3"), ("--chunk-tokens", "4 to")),
            (("--source", "synthetic", "--chunk-tokens", "8"), ("gives no texts",)),
        ):
            with self.subTest(flags):
                world = self.world("jsonl-text", self.jsonl)
                self.assertNotEqual(world.start(*flags).wait(), 0)
                for word in words:
                    self.assertIn(word, world.logs())
        code, printed = self.world("jsonl-text", self.jsonl, kind=JobWorld).init(2, "--chunk-tokens", "4096")
        self.assertNotEqual(code, 0)
        self.assertIn("--chunk-tokens 4096: the model takes", printed)


@unittest.skipUnless(importlib.util.find_spec("tokenizers"), "skipped: needs tokenizers")
class Cutting(unittest.TestCase):
    """
    The chunker of tokenizer_server.py with tokenizers that add tokens around a text, split words, or take single bytes.
    """

    @classmethod
    def setUpClass(cls):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

        spec = importlib.util.spec_from_file_location(
            "tokenizer_server", ROOT / "producer/runner/sources/text/tokenizer_server.py"
        )
        cls.server = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.server)
        cls.folder = folder_of_class(cls, "cutting")
        letters = string.ascii_lowercase + string.digits
        words = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            *letters,
            *string.punctuation,
            *(f"##{letter}" for letter in letters),
            "slab",
            "lease",
            "##ing",
        ]
        pieces = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
        pieces.pre_tokenizer, pieces.normalizer = pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()
        pieces.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        single = Tokenizer(
            models.BPE(
                vocab={letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))},
                merges=[],
            )
        )
        single.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        cls.tokenizers = {"pieces": pieces, "single": single}
        for name, tokenizer in cls.tokenizers.items():
            tokenizer.save(str(cls.folder / f"{name}.json"))

    def chunker(self, name, tokens, overlap, prompt=""):
        return self.server.Chunker(str(self.folder / f"{name}.json"), tokens, overlap, prompt)

    def test_chunks_cover_a_text_and_keep_to_their_sizes(self):
        chance = random.Random(5)
        words = ("slab", "lease", "slabbing", "Größe", "日本語", "a" * 40, "\n", "\U0001f600", "x.y,z", "  ")
        for name, tokenizer in self.tokenizers.items():
            for tokens, overlap in ((16, 0), (16, 4), (64, 16)):
                chunker = self.chunker(name, tokens, overlap)
                for _ in range(100):
                    text = chance.choice((" ", "")).join(chance.choices(words, k=chance.randrange(60)))
                    spans = chunker.spans(text)
                    self.assertEqual((spans[0][0], spans[-1][1]), (0, len(text)))
                    if len(spans) > 1:
                        self.assertLessEqual(
                            max(len(tokenizer.encode(text[begin:end]).ids) for begin, end in spans),
                            tokens,
                            (name, text),
                        )
                    for (first, end), (begin, last) in zip(spans, spans[1:]):
                        self.assertLessEqual(first, begin)
                        self.assertLessEqual(end, last)
                        self.assertEqual(text[end:begin].strip(), "")

    def test_a_prompt_has_its_place_in_each_chunk(self):
        text, prompt = "slab lease slabbing " * 20, "lease slab: "
        for name, tokenizer in self.tokenizers.items():
            spans = self.chunker(name, 40, 4, prompt).spans(text)
            self.assertGreater(len(spans), len(self.chunker(name, 40, 4).spans(text)))
            self.assertLessEqual(
                max(len(tokenizer.encode(prompt + text[begin:end]).ids) for begin, end in spans), 40, name
            )
        with self.assertRaisesRegex(
            ValueError,
            "--chunk-overlap 0 is not less than what --chunk-tokens 5 leaves to a text: 0 tokens, as the model's tokenizer and",
        ):
            self.chunker("pieces", 5, 0, prompt)

    def test_words_stay_whole_where_there_is_white_space(self):
        text = "slab lease slabbing lease slab slab slab slab lease lease lease slab slab slab lease slab"
        for begin, end in self.chunker("pieces", 10, 3).spans(text):
            self.assertTrue(begin == 0 or text[begin - 1] == " ", text[begin:end])
            self.assertTrue(end == len(text) or text[end] == " ", text[begin:end])

    def test_an_overlap_that_leaves_no_way_on_is_refused_with_the_numbers(self):
        with self.assertRaisesRegex(
            ValueError, "--chunk-overlap 6 is not less than what --chunk-tokens 8 leaves to a text: 6 tokens"
        ):
            self.chunker("pieces", 8, 6)
