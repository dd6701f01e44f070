"""Where the models of whole runs compute: OFFRAMP_TEST_DEVICE, "cpu" or "cuda"."""

import os
import unittest

DEVICE = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def setUpModule():  # applies to each module that imports it
    """Skips the whole module if a GPU is requested and missing."""
    if ON_GPU and not os.path.exists("/dev/nvidiactl"):
        raise unittest.SkipTest("no GPU here")
