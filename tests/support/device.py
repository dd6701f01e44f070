"""Where the models of whole runs compute: OFFRAMP_TEST_DEVICE, "cpu" or "cuda"."""

import os
import unittest

DEVICE = os.environ.get("OFFRAMP_TEST_DEVICE", "cpu")
ON_GPU = DEVICE != "cpu"


def setUpModule():      # of each module that imports it
    """Without a GPU, what is asked to use one is skipped as a whole."""
    if ON_GPU and not os.path.exists("/dev/nvidiactl"):
        raise unittest.SkipTest("no GPU here")
