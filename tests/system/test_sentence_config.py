"""For every key that sentence-transformers reads, an export gives the same vectors or refuses the key by name."""

import contextlib
import functools
import importlib.util
import inspect
import json
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

import numpy

from tests.support.launched_run import ROOT, find_packages_of_launch
from tests.support.sentence_folders import made_encoder, made_tokenizer, made_transformer, update, write

NEEDED = ("torch", "transformers", "tokenizers", "sentence_transformers")
TEXTS = (
    "the fox",
    "HELLO Hello FOX",
    "hello hello fox",
    " ".join(f"w{number}" for number in range(30)),
    "",
    "[MASK] query: the end",
    "unknown w1",
    "  the fox ",
)
MODEL, TRANSFORMER, POOLING, NORMALIZE, MODULES = (
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "2_Normalize/config.json",
    "modules.json",
)
SAME = None  # the vectors equal those of sentence-transformers
FLAGS = ("max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")

# (file, its added content, SAME or a text of the refusal). For modules.json: keys that are added to the first module.
CASES = (
    (MODEL, {}, SAME),
    (MODEL, {"__version__": {"sentence_transformers": "2.2.2", "pytorch": "1.0"}}, SAME),
    (MODEL, {"model_type": "SentenceTransformer"}, SAME),
    (MODEL, {"model_type": "SparseEncoder"}, "model_type"),
    (MODEL, {"similarity_fn_name": "dot"}, SAME),
    (MODEL, {"truncate_dim": 7}, SAME),
    (MODEL, {"truncate_dim": None}, SAME),
    (MODEL, {"prompts": {"query": "query: "}}, SAME),
    (MODEL, {"prompts": {"q": "query : "}, "default_prompt_name": "q"}, SAME),
    (MODEL, {"default_prompt_name": "query"}, SAME),
    (MODEL, {"prompts": {"q": None}, "default_prompt_name": "q"}, SAME),
    (MODEL, {"default_prompt_name": "missing"}, "default_prompt_name"),
    (MODEL, {"requirements": {"torch": ">=2", "python": ">=3.8"}}, SAME),
    (MODEL, {"requirements": {"no-such-package": ">=1"}}, "requirements"),
    (MODEL, {"requirements": {"pytorch": {"specifier": ">=99", "reason": "none"}}}, "requirements"),
    (MODEL, {"something_new": 1}, "something_new"),
    (TRANSFORMER, {"max_seq_length": 9}, SAME),
    (TRANSFORMER, {"max_seq_length": None}, SAME),
    (TRANSFORMER, {"do_lower_case": True}, SAME),
    (TRANSFORMER, {"transformer_task": "feature-extraction"}, SAME),
    (TRANSFORMER, {"transformer_task": "fill-mask"}, "transformer_task"),
    (
        TRANSFORMER,
        {
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
            "module_output_name": "token_embeddings",
        },
        SAME,
    ),
    (
        TRANSFORMER,
        {
            "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
            "module_output_name": "sentence_embedding",
        },
        "modality_config",
    ),
    (TRANSFORMER, {"module_output_name": "sentence_embedding"}, "module_output_name"),
    (TRANSFORMER, {"processing_kwargs": {}}, SAME),
    (TRANSFORMER, {"processing_kwargs": {"text": {"max_length": 5}}}, "processing_kwargs"),
    (TRANSFORMER, {"unpad_inputs": False}, SAME),
    (TRANSFORMER, {"query_length": 8}, "query_length"),
    (TRANSFORMER, {"document_length": 8}, "document_length"),
    (TRANSFORMER, {"query_expansion": {"length": 8}}, "query_expansion"),
    (TRANSFORMER, {"query_length": None, "document_length": None, "query_expansion": None}, SAME),
    (TRANSFORMER, {"tokenizer_name_or_path": "other"}, "tokenizer_name_or_path"),
    (TRANSFORMER, {"backend": "onnx"}, "backend"),
    (TRANSFORMER, {"model_kwargs": {"attn_implementation": "eager"}}, SAME),
    (TRANSFORMER, {"model_args": {"add_pooling_layer": False}}, SAME),
    (TRANSFORMER, {"model_kwargs": {"dtype": "float32", "trust_remote_code": True}}, SAME),
    (TRANSFORMER, {"model_args": {"dtype": "bfloat16"}}, "model_kwargs.dtype"),
    (TRANSFORMER, {"model_kwargs": {"quantization_config": {}}}, "model_kwargs.quantization_config"),
    (TRANSFORMER, {"processor_kwargs": {"model_max_length": 11}}, SAME),
    (TRANSFORMER, {"tokenizer_args": {"truncation_side": "left"}}, SAME),
    (TRANSFORMER, {"config_kwargs": {"hidden_act": "relu"}}, SAME),
    (TRANSFORMER, {"config_args": {"layer_norm_eps": 0.1}}, SAME),
    (TRANSFORMER, {"something_new": True}, "something_new"),
    (POOLING, {"embedding_dimension": 32}, SAME),
    (POOLING, {"pooling_mode": "cls", "pooling_mode_mean_tokens": False}, SAME),
    (POOLING, {"pooling_mode": ["mean"]}, SAME),
    (POOLING, {"pooling_mode": ["cls", "mean"]}, "cls, mean"),
    (POOLING, {"pooling_mode": "max"}, "max"),
    (POOLING, {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, SAME),
    (POOLING, {"pooling_mode_mean_tokens": False}, SAME),
    *(
        (POOLING, {"pooling_mode_mean_tokens": False, f"pooling_mode_{flag}": True}, flag.removesuffix("_tokens"))
        for flag in FLAGS[:1]
    ),
    *((POOLING, {"pooling_mode_mean_tokens": False, f"pooling_mode_{flag}": True}, "pools by") for flag in FLAGS[1:]),
    (POOLING, {"include_prompt": True}, SAME),
    (POOLING, {"include_prompt": False}, SAME),
    (POOLING, {"something_new": 1}, "something_new"),
    (NORMALIZE, {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}, SAME),
    (NORMALIZE, {"module_input_name": "token_embeddings"}, "module_input_name"),
    (NORMALIZE, {"module_output_name": "other"}, "module_output_name"),
    (MODULES, {"kwargs": []}, SAME),
    (MODULES, {"kwargs": ["task"]}, "kwargs"),
    (MODULES, {"type": "own.Transformer"}, "own.Transformer"),
    (MODULES, {"type": "sentence_transformers.models.WordEmbeddings"}, "WordEmbeddings"),
    (MODULES, {"name": "first", "idx": 5}, SAME),
)


class Noted(dict):
    """A JSON object that records the requested keys."""

    def __init__(self, content, keys):
        super().__init__(content)
        self._keys = keys

    def __getitem__(self, key):
        self._keys.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self._keys.add(key)
        return super().__contains__(key)

    def get(self, key, *default):
        self._keys.add(key)
        return super().get(key, *default)

    def pop(self, key, *default):
        self._keys.add(key)
        return super().pop(key, *default)

    def setdefault(self, key, *default):
        self._keys.add(key)
        return super().setdefault(key, *default)


@contextlib.contextmanager
def noted(folder):
    """{file: keys that sentence-transformers requests} while the context loads a folder."""
    read, keys = json.load, {}

    def load(stream, **how):
        content = read(stream, **how)
        name = str(pathlib.Path(stream.name).relative_to(folder))
        known = keys.setdefault(name, set())
        return (
            [Noted(one, known) for one in content]
            if isinstance(content, list)
            else Noted(content, known)
            if isinstance(content, dict)
            else content
        )

    with mock.patch("json.load", load):
        yield keys


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in NEEDED), f"needs the packages {', '.join(NEEDED)}")
class SentenceConfig(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="offramp-sentences-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        find_packages_of_launch(self)
        self.made = 0

    @functools.cached_property
    def plain(self):
        return made_encoder(self.folder / "plain")

    def encoder(self, **more):
        self.made += 1
        folder = self.folder / str(self.made)
        return made_encoder(folder, **more) if more else pathlib.Path(shutil.copytree(self.plain, folder))

    def librarys(self, folder):
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder), device="cpu")
        return numpy.stack([model.encode(text) for text in TEXTS])

    def ours(self, folder):
        """
        The vectors of a run: of the exported network before compilation, from the tokens of the producer's tokenizer.
        """
        import torch
        from exporter import sentences

        spec = importlib.util.spec_from_file_location(
            "tokenizer_server", ROOT / "producer/runner/sources/text/tokenizer_server.py"
        )
        server = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(server)
        made = sentences.read(folder, None)
        (folder / "made.tokenizer.json").write_text(made.tokenizer)
        rows = numpy.frombuffer(
            server.RowTokenizer(str(folder / "made.tokenizer.json"), made.tokens, made.prompt).rows(TEXTS), "<i4"
        )
        with torch.no_grad():
            return made.network(torch.from_numpy(rows.reshape(-1, 2, made.tokens).copy()))["embedding"].numpy()

    def check(self, folder, refusal=SAME):
        from offramp_launch.exit_code import LaunchError

        if refusal is SAME:
            numpy.testing.assert_allclose(self.ours(folder), self.librarys(folder), rtol=0, atol=1e-5)
            return
        with self.assertRaises(LaunchError) as refused:
            self.ours(folder)
        self.assertIn(refusal, str(refused.exception))

    def test_each_key_is_followed_or_refused(self):
        for file, changes, refusal in CASES:
            with self.subTest(file=file, changes=changes):
                folder = self.encoder()
                if file == MODULES:
                    modules = json.loads((folder / MODULES).read_text())
                    write(folder, MODULES, [{**modules[0], **changes}, *modules[1:]])
                else:
                    update(folder, file, changes)
                self.check(folder, refusal)

    def test_no_key_of_the_installed_library_is_missing_here(self):
        from sentence_transformers import SentenceTransformer

        folder = self.encoder()
        write(folder / "2_Normalize", "config.json", {})
        with noted(folder) as keys:
            model = SentenceTransformer(str(folder), device="cpu")
        of_hub = {
            "subfolder",
            "token",
            "cache_folder",
            "cache_dir",
            "revision",
            "local_files_only",
            "trust_remote_code",
            "model_name_or_path",
            "self",
            "args",
        }
        for file, module in zip((TRANSFORMER, POOLING, NORMALIZE), model):
            known = keys.setdefault(file, set())
            known |= {*inspect.signature(type(module).__init__).parameters} - of_hub
            known |= {*getattr(type(module), "config_keys", ()), *getattr(type(module), "config_key_renames", ())}
        read = {(file, key) for file in (MODEL, TRANSFORMER, POOLING, NORMALIZE, MODULES) for key in keys[file]}
        tried = {(file, key) for file, changes, _ in CASES for key in changes}
        plain = {(MODULES, "path"), (MODULES, "type"), (POOLING, "word_embedding_dimension")}  # in every folder
        self.assertEqual(set(), read - tried - plain, "sentence-transformers reads keys that no case here tries")
        self.assertIn((TRANSFORMER, "do_lower_case"), read)
        self.assertIn((MODEL, "default_prompt_name"), read)

    def test_a_prompt_that_pooling_leaves_out(self):
        folder = self.encoder()
        update(folder, MODEL, {"prompts": {"q": "query : "}, "default_prompt_name": "q"})
        update(folder, POOLING, {"include_prompt": False})
        self.check(folder, "include_prompt")

    def test_the_tokenizers_own_configuration(self):
        for changes in (
            {"model_max_length": 8},
            {"model_max_length": 400},
            {"truncation_side": "left", "model_max_length": 6},
            {"padding_side": "left"},
            {"do_lower_case": True},
            {"add_prefix_space": True},
            {"pad_token": "[MASK]"},
        ):
            for length in (24, None):
                with self.subTest(changes=changes, length=length):
                    folder = self.encoder()
                    update(folder, "tokenizer_config.json", changes)
                    update(folder, TRANSFORMER, {"max_seq_length": length})
                    self.check(folder)

    def test_older_layouts_and_plain_folders(self):
        older = self.encoder(transformer="0_Transformer")
        (older / MODEL).unlink()
        self.check(older)
        (older / "0_Transformer" / TRANSFORMER).rename(older / "0_Transformer" / "sentence_roberta_config.json")
        self.check(older)
        for kind in ("bert", "roberta", "xlm-roberta", "mpnet", "distilbert"):
            with self.subTest(kind=kind):
                self.check(made_transformer(self.folder / kind, kind))
        words = self.folder / "words"
        made_transformer(words)
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            (words / name).unlink(missing_ok=True)
        (words / "vocab.txt").write_text(
            "\n".join(sorted(made_tokenizer().get_vocab(), key=made_tokenizer().get_vocab().get))
        )
        self.check(words)
        self.check(self.encoder(normalised=False))

    def test_folders_of_other_kinds_are_refused(self):
        (self.folder / "empty").mkdir()
        self.check(self.folder / "empty", "is not a sentence encoder that transformers reads")
        self.check(self.folder / "nowhere", "is not a folder")
        broken = self.encoder()
        (broken / MODULES).write_text("{")
        self.check(broken, "is not JSON")
        adapter = self.encoder()
        write(adapter, "adapter_config.json", {"base_model_name_or_path": "other"})
        self.check(adapter, "adapter")
        decoder = made_transformer(self.folder / "decoder")
        update(decoder, "config.json", {"architectures": ["BertForCausalLM"]})
        self.check(decoder, "last token")
        template = made_transformer(self.folder / "template")
        update(template, "tokenizer_config.json", {"chat_template": "{{ messages }}"})
        self.check(template, "chat_template")
        order = self.encoder()
        modules = json.loads((order / MODULES).read_text())
        write(order, MODULES, [modules[0], modules[2], modules[1]])
        self.check(order, "Transformer, Normalize, Pooling")

    def test_weights_of_half_precision(self):
        import torch
        import transformers
        from exporter import sentences

        folder = self.encoder()
        transformers.AutoModel.from_pretrained(folder).to(torch.bfloat16).save_pretrained(folder)
        self.check(folder, "dtype bfloat16")
        self.assertEqual(sentences.read(folder, None, "fp32").network.transformer.dtype, torch.float32)
