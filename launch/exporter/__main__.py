import os
import sys

# Run as a folder: imports the package from its parent, not from the folder itself. The user's modules come last.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.getcwd())

from offramp_launch import interrupts  # noqa: E402

interrupts.begin()

from offramp_launch.screen import guard  # noqa: E402
from exporter.command import main  # noqa: E402

guard()
sys.exit(interrupts.carry_out(main, sys.argv[1:]))
