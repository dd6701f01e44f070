import os
import sys

# Run as a folder: its parent, not the folder itself, is where the package is found.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from offramp_launch import interrupts  # noqa: E402

interrupts.begin()

from offramp_launch.commands import main  # noqa: E402
from offramp_launch.screen import guard  # noqa: E402
from offramp_launch.standard_streams import make_lasting  # noqa: E402

make_lasting()
guard()
sys.exit(interrupts.carry_out(main, sys.argv[1:]))
