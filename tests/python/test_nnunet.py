"""nnU-Net's predictor with export in consumers: the same files as nnU-Net's own export, failures, and continuing."""

import importlib.util
import os
import signal
import unittest
import unittest.mock

from tests.support.tiny_nnunet import CASES, write_model, write_scans
from world import World

NNUNET = importlib.util.find_spec("nnunetv2") is not None
# For other processes: a predictor of the model in argv[1], and a case of the scans there, preprocessed as nnU-Net does.
PREDICTOR = """
    import os, pathlib, sys, torch
    import offramp.nnunet

    folder = pathlib.Path(sys.argv[1])
    predictor = offramp.nnunet.Predictor(device=torch.device("cpu"), allow_tqdm=False)
    predictor.initialize_from_trained_model_folder(str(folder / "model"), (0, 1))

    def case(name):
        data, _, properties = predictor.configuration_manager.preprocessor_class(verbose=False).run_case(
            [str(folder / "scans" / f"{name}_0000.nii.gz")], None, predictor.plans_manager,
            predictor.configuration_manager, predictor.dataset_json)
        return {"data": torch.from_numpy(data), "data_properties": properties, "ofile": str(folder / "ours" / name)}
"""


@unittest.skipUnless(NNUNET, "skipped: no nnunetv2 (pip install nnunetv2)")
class Nnunet(World):
    def setUp(self):
        super().setUp()
        self.ours, self.theirs = self.folder / "ours", self.folder / "theirs"
        write_model(self.folder / "model")
        write_scans(self.folder / "scans")

    def predictor(self, kind, **options):
        import torch

        predictor = kind(device=torch.device("cpu"), allow_tqdm=False, **options)
        predictor.initialize_from_trained_model_folder(str(self.folder / "model"), (0, 1))
        return predictor

    def end_of(self, program):
        return self.end(self.python(PREDICTOR + program, self.folder))

    def test_a_killed_run_continues_and_its_files_equal_those_of_nnunet(self):
        from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

        import offramp.nnunet

        self.theirs.mkdir()
        self.predictor(nnUNetPredictor).predict_from_files_sequential(
            str(self.folder / "scans"), str(self.theirs), save_probabilities=True
        )
        killed = self.python(
            PREDICTOR
            + """
    def cases():
        yield case("case-1")
        while not (folder / "ours" / "case-1.nii.gz").exists():
            pass
        os.kill(os.getpid(), 9)

    predictor.predict_from_data_iterator(cases(), save_probabilities=True, num_processes_segmentation_export=1)
    """,
            self.folder,
        )
        self.end(killed, -signal.SIGKILL)
        before = (self.ours / "case-1.nii.gz").stat().st_ino
        made = self.predictor(offramp.nnunet.Predictor).predict_from_files(
            str(self.folder / "scans"),
            str(self.ours),
            save_probabilities=True,
            overwrite=False,
            num_processes_preprocessing=1,
            num_processes_segmentation_export=2,
        )
        self.assertEqual([None, None], made)
        self.assertEqual(before, (self.ours / "case-1.nii.gz").stat().st_ino)
        self.assertEqual(sorted(os.listdir(self.theirs)), sorted(os.listdir(self.ours)))
        for name in CASES:
            for ending in (".nii.gz", ".npz", ".pkl"):
                with self.subTest(name + ending):
                    self.assertEqual(
                        (self.theirs / (name + ending)).read_bytes(), (self.ours / (name + ending)).read_bytes()
                    )

    def test_failed_cases_are_named_and_all_others_exported(self):
        """Also if the iterator fails: cases that it gave before are exported."""
        output = self.end_of(
            """
    def cases():
        yield case("case-0")
        yield case("case-1") | {"data_properties": {"spacing": None}}
        yield case("case-1") | {"data": torch.zeros(7, 16, 16, 16), "ofile": str(folder / "ours" / "channels")}
        yield case("case-2")

    def broken():
        yield case("case-2") | {"ofile": str(folder / "ours" / "before")}
        raise ValueError("a worker died")

    for iterator in (cases(), broken()):
        try:
            predictor.predict_from_data_iterator(iterator, num_processes_segmentation_export=1)
        except (offramp.ConsumersFailed, ValueError) as problem:
            print(type(problem).__name__, problem)
    """
        )
        failed, broken = output.strip().splitlines()[-2:]
        self.assertRegex(failed, r"ConsumersFailed not predicted: channels \(RuntimeError: .*not exported: case-1 \(")
        self.assertRegex(failed, "TypeError: 'NoneType' object is not subscriptable")
        self.assertEqual("ValueError a worker died", broken)
        self.assertEqual(["before.nii.gz", "case-0.nii.gz", "case-2.nii.gz"], sorted(os.listdir(self.ours)))

    def test_a_case_larger_than_the_slabs_opens_larger_ones(self):
        self.end_of(
            """
    predictor._egress_options = {"slab_bytes": "96KiB"}
    cases = [case("case-2"), case("case-0"), case("case-1")]
    assert [None] * 3 == predictor.predict_from_data_iterator(cases, num_processes_segmentation_export=1)
    """
        )
        self.assertEqual(sorted(f"{name}.nii.gz" for name in CASES), sorted(os.listdir(self.ours)))
        runs = [name for name in os.listdir(self.folder / "runs") if not name.endswith("-done")]
        self.assertEqual(2, len(runs), "one run for each size of slabs")

    def test_without_memory_for_the_average_nnunet_computes_it(self):
        import torch
        from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

        import offramp.nnunet

        data = torch.rand(1, 20, 20, 20)
        expected = self.predictor(nnUNetPredictor).predict_logits_from_preprocessed_data(data)
        predictor = self.predictor(offramp.nnunet.Predictor)
        self.assertTrue(torch.equal(expected, predictor.predict_logits_from_preprocessed_data(data)))
        with unittest.mock.patch.object(predictor, "_averaged_on_device", side_effect=torch.cuda.OutOfMemoryError):
            self.assertTrue(torch.equal(expected, predictor.predict_logits_from_preprocessed_data(data)))

    def test_a_case_without_an_output_file_is_refused(self):
        import offramp.nnunet

        with self.assertRaisesRegex(offramp.BadArgument, "no output file, .*or use nnUNetPredictor"):
            self.predictor(offramp.nnunet.Predictor).predict_from_data_iterator([{"ofile": None}])
