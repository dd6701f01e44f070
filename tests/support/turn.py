"""Runs a daily share of long, similar checks: a few minutes a day, and all of them within days."""

import os
import time

TURN_FROM = "OFFRAMP_TEST_TURN"
ONE_IN_FROM = "OFFRAMP_TEST_ONE_IN"  # number of shares of the points at which turn.hpp kills
TURN = int(os.environ.get(TURN_FROM, time.gmtime().tm_yday))


def share(things, one_in, turn=TURN):
    return [thing for i, thing in enumerate(things) if i % one_in == turn % one_in]


def describe_share(turn, one_in):
    """For a test's output: the share and how to repeat it."""
    return f"share {turn % one_in + 1} of {one_in}; again with {TURN_FROM}={turn}"
