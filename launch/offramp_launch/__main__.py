import os
import sys

# Run as a folder: the package is in its parent folder.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from offramp_launch.entry import main  # noqa: E402

main()
