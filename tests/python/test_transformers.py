"""offramp.transformers with the real Trainer and tiny models with random weights."""

import importlib.util
import unittest

import offramp
from loops import results
from world import World

MISSING = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]
SAMPLES, CLASSES = 10, 3


@unittest.skipIf(MISSING, f"skipped: no {', '.join(MISSING)}")
class Transformers(World):
    @classmethod
    def setUpClass(cls):
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=20,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            num_labels=CLASSES,
        )
        cls.texts = [torch.randint(1, 20, (3 + number,)) for number in range(SAMPLES)]  # each of its own length
        cls.of_texts = BertForSequenceClassification(config).eval()
        cls.of_tokens = BertForTokenClassification(config).eval()

    def collate(self, rows):
        import torch

        longest = max(len(row["ids"]) for row in rows)
        ids = torch.stack([torch.nn.functional.pad(row["ids"], (0, longest - len(row["ids"]))) for row in rows])
        labels = [row["labels"] for row in rows]
        if isinstance(labels[0], torch.Tensor):
            labels = [torch.nn.functional.pad(each, (0, longest - len(each)), value=-100) for each in labels]
            return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.stack(labels)}
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor(labels)}

    def predicted(self, model, labels, writer):
        from transformers import Trainer, TrainingArguments

        arguments = TrainingArguments(
            str(self.folder / "trainer"), per_device_eval_batch_size=4, use_cpu=True, report_to=[], disable_tqdm=True,
            remove_unused_columns=False,
        )  # fmt: skip
        data = [{"ids": ids, "labels": each} for ids, each in zip(self.texts, labels)]
        trainer = Trainer(model, arguments, data_collator=self.collate, preprocess_logits_for_metrics=writer)
        return trainer.predict(data).predictions

    def writer(self, **options):
        from offramp.transformers import LogitsWriter

        return LogitsWriter(self.folder / "out", "npy", consumers=1, **options)

    def made(self):
        import numpy

        return {name: numpy.load(self.folder / "out" / name) for name in results(self.folder / "out")}

    def test_logits_of_texts_and_what_the_trainer_keeps(self):
        import numpy
        import torch

        with self.writer() as writer:
            kept = self.predicted(self.of_texts, [number % CLASSES for number in range(SAMPLES)], writer)
        made = self.made()
        self.assertEqual(2 * SAMPLES, len(made))
        for number, ids in enumerate(self.texts):
            with torch.inference_mode():
                expected = self.of_texts(input_ids=ids[None]).logits[0].numpy()
            numpy.testing.assert_allclose(made[f"{number}.logits.npy"], expected, rtol=1e-4, atol=1e-5)
            self.assertEqual(number % CLASSES, made[f"{number}.labels.npy"])
            self.assertEqual(made[f"{number}.logits.npy"].argmax(), kept[number])

    def test_logits_of_tokens_differ_in_length(self):
        import torch

        labels = [torch.full((len(ids),), 1) for ids in self.texts]
        with self.writer(
            keep="nothing", keys=lambda logits, labels: [f"t{count}" for count in self.tokens_of(labels)]
        ) as writer:
            kept = self.predicted(self.of_tokens, labels, writer)
        self.assertEqual((SAMPLES, 0), kept.shape)
        made = self.made()
        longest = [6] * 4 + [10] * 4 + [12] * 2  # of each text's batch
        self.assertEqual(
            {f"t{3 + number}.logits.npy": (longest[number], CLASSES) for number in range(SAMPLES)},
            {name: array.shape for name, array in made.items() if ".logits." in name},
        )
        for number in range(SAMPLES):
            self.assertEqual(3 + number, (made[f"t{3 + number}.labels.npy"] == 1).sum())

    def tokens_of(self, labels):
        return (labels != -100).sum(1).tolist()

    def test_several_labels_and_one_value(self):
        import torch

        starts, ends, values = torch.tensor([1, 2]), torch.tensor([3, 4]), torch.tensor([[0.5], [-1.5]])
        with self.writer() as writer:
            kept = writer(values, (starts, ends))
        self.assertEqual(values.tolist(), kept.tolist(), "a regression has no classes")
        made = self.made()
        self.assertEqual(
            {f"{row}.{name}.npy" for row in (0, 1) for name in ("logits", "labels.0", "labels.1")}, set(made)
        )
        self.assertEqual([1, 4], [made["0.labels.0.npy"].item(), made["1.labels.1.npy"].item()])

    def test_an_exception_abandons_and_a_writer_that_is_over_refuses(self):
        import torch

        writer = self.writer(keep=lambda logits, labels: logits.no_such_method())
        with self.assertRaises(AttributeError), writer:
            writer(torch.zeros(2, CLASSES), torch.zeros(2))
        with self.assertRaisesRegex(offramp.BadArgument, "context has ended"):
            writer(torch.zeros(2, CLASSES), torch.zeros(2))
        with self.assertRaisesRegex(offramp.BadArgument, "keep is 'all'. Give 'argmax' or 'nothing'"):
            self.writer(keep="all")

    def test_processes_have_keys_of_their_own(self):
        import os
        import unittest.mock

        import torch

        for rank in (0, 1):
            with unittest.mock.patch.dict(os.environ, RANK=str(rank), WORLD_SIZE="2"), self.writer() as writer:
                self.assertEqual([2, 0], writer((torch.eye(3)[[2, 0]], torch.zeros(2, 4, 4)), None).tolist())
        names = {name for name in results(self.folder / "out") if not name.startswith(".")}
        self.assertEqual(
            {f"{rank}/{number}.logits.{part}.npy" for rank in (0, 1) for number in (0, 1) for part in (0, 1)}, names
        )
