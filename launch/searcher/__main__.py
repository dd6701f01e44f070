"""
Finds the texts nearest to some words among the vectors of a run. Runs in the Python that has PyTorch and the
tokenizer's library.
"""

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from offramp_launch import interrupts  # noqa: E402

interrupts.begin()

from offramp_launch.screen import guard  # noqa: E402
from searcher.command import main  # noqa: E402

guard()
sys.exit(interrupts.carry_out(main, sys.argv[1:]))
