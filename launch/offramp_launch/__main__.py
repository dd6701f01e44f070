import os
import sys

# Run as a folder: its parent, not the folder itself, is where the package is found.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from offramp_launch.entry import main  # noqa: E402

main()
