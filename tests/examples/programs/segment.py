"""
Segments a folder of scans with a trained nnU-Net. Started again, it continues.

    python segment.py MODEL scans RESULTS
"""

import sys

import offramp.nnunet
import torch


def main(model, scans, results):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    predictor = offramp.nnunet.Predictor(device=device)
    predictor.initialize_from_trained_model_folder(model, use_folds=None)  # None: all
    predictor.predict_from_files(scans, results, overwrite=False)


if __name__ == "__main__":  # nnU-Net's preprocessing imports this file
    main(*sys.argv[1:])
