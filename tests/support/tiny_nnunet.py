"""An nnU-Net of three classes with random weights, in two folds, and scans of different shapes and spacings."""

import json

CASES = ("case-0", "case-1", "case-2")
_SHAPES = ((20, 24, 28), (30, 20, 18), (12, 33, 26))
_SPACINGS = ((1.0, 1.5, 2.0), (1.0, 1.0, 1.0), (0.8, 0.8, 3.0))
_NETWORK = {
    "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
    "arch_kwargs": {
        "n_stages": 2,
        "features_per_stage": [4, 8],
        "conv_op": "torch.nn.modules.conv.Conv3d",
        "kernel_sizes": [[3, 3, 3], [3, 3, 3]],
        "strides": [[1, 1, 1], [2, 2, 2]],
        "n_conv_per_stage": [1, 1],
        "n_conv_per_stage_decoder": [1],
        "conv_bias": True,
        "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
        "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "dropout_op": None,
        "dropout_op_kwargs": None,
        "nonlin": "torch.nn.LeakyReLU",
        "nonlin_kwargs": {"inplace": True},
    },
    "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
}


def _resampling(name, order, is_seg=False):
    options = {"is_seg": is_seg, "order": order, "order_z": 0, "force_separate_z": None}
    return {f"resampling_fn_{name}": "resample_data_or_seg_to_shape", f"resampling_fn_{name}_kwargs": options}


_PLANS = {
    "dataset_name": "Dataset001_Tiny",
    "plans_name": "nnUNetPlans",
    "image_reader_writer": "SimpleITKIO",
    "transpose_forward": [1, 0, 2],
    "transpose_backward": [1, 0, 2],
    "label_manager": "LabelManager",
    "foreground_intensity_properties_per_channel": {"0": {}},
    "configurations": {
        "3d_fullres": {
            "preprocessor_name": "DefaultPreprocessor",
            "patch_size": [16, 16, 16],
            "spacing": [1.0, 1.0, 1.0],
            "normalization_schemes": ["ZScoreNormalization"],
            "use_mask_for_norm": [False],
            "architecture": _NETWORK,
            **_resampling("data", 3),
            **_resampling("seg", 1, is_seg=True),
            **_resampling("probabilities", 1),
        }
    },
}
_DATASET = {
    "channel_names": {"0": "CT"},
    "labels": {"background": 0, "liver": 1, "tumour": 2},
    "file_ending": ".nii.gz",
}


def write_model(folder):
    """Writes the folder that nnU-Net's training makes, and that initialize_from_trained_model_folder() reads."""
    import torch
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

    for fold in range(2):
        torch.manual_seed(fold)
        network = get_network_from_plans(*_NETWORK.values(), 1, 3, deep_supervision=False)
        checkpoint = {
            "network_weights": network.state_dict(),
            "trainer_name": "nnUNetTrainer",
            "init_args": {"configuration": "3d_fullres"},
            "inference_allowed_mirroring_axes": None,
        }
        (folder / f"fold_{fold}").mkdir(parents=True)
        torch.save(checkpoint, folder / f"fold_{fold}" / "checkpoint_final.pth")
    (folder / "plans.json").write_text(json.dumps(_PLANS))
    (folder / "dataset.json").write_text(json.dumps(_DATASET))


def write_scans(folder):
    """Writes CASES: noise in a box, so that nnU-Net crops, and resamples all but the second."""
    import numpy
    import SimpleITK

    folder.mkdir()
    noise = numpy.random.default_rng(0)
    for name, shape, spacing in zip(CASES, _SHAPES, _SPACINGS):
        scan = numpy.zeros(shape, "float32")
        inside = scan[2:-2, 3:-3, 2:-1]
        inside[...] = noise.random(inside.shape)
        image = SimpleITK.GetImageFromArray(scan)
        image.SetSpacing(spacing)
        image.SetOrigin((5, -3, 7))
        SimpleITK.WriteImage(image, str(folder / f"{name}_0000.nii.gz"))
