"""
Random histories: one to three random deaths at random failpoints in one run with a random --when-full. A seed
determines all of it.

python3 -m tests.crash.histories [--count 300] [--seed N] [--jobs 2]
"""

import argparse
import concurrent.futures
import random
import sys
import time

from tests.crash.crash_run import DEATHS, LAUNCHER, WHEN_FULL, CrashRun, Order, failpoints_of_the_sources, undisturbed
from tests.crash.matrix import ELSEWHERE

MOST_DEATHS = 3
LATEST = 12  # maximum number of passes of a failpoint until the death


def history(seed):
    """(--when-full, deaths) of one history; at most one death is the launcher's."""
    draw = random.Random(seed)
    when_full = draw.choice(sorted(WHEN_FULL))
    names = sorted(set(failpoints_of_the_sources()) - set(ELSEWHERE))
    orders = [
        Order(name, draw.choice(DEATHS), draw.randint(1, LATEST))
        for name in draw.sample(names, draw.randint(1, MOST_DEATHS))
    ]
    if draw.random() < 0.1:
        orders[-1] = Order(orders[-1].name, LAUNCHER, orders[-1].nth)
    return when_full, orders


def check(seed, expected):
    """Runs a history, and resumes it if the launcher died. Returns the faults, or an empty text."""
    when_full, orders = history(seed)
    with CrashRun(*orders, when_full=when_full) as crash:
        code = crash.finish()
        if any(crash.is_ended_by(order) and crash.reached(order) for order in orders):
            code = crash.resume()
        wrong = crash.wrong(code, expected)
        return (
            "; ".join(wrong) + f"\nseed {seed}: {when_full}, {', '.join(map(str, orders))}\n{crash.run.logs()}"
            if wrong
            else ""
        )


def check_all(count, first_seed, jobs, log=lambda text: None):
    """{seed: faults} of the histories that have some."""
    expected, failed = undisturbed(), {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for seed, wrong in zip(
            range(first_seed, first_seed + count),
            pool.map(lambda seed: check(seed, expected), range(first_seed, first_seed + count)),
        ):
            if wrong:
                failed[seed] = wrong
                log(wrong)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument(
        "--seed", type=int, default=int(time.time()) * 1000, help="of the first history; the others' follow"
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.monotonic()
    failed = check_all(options.count, options.seed, options.jobs, lambda text: print(text, file=sys.stderr, flush=True))
    print(
        f"{options.count} histories from seed {options.seed}, {len(failed)} failed{': ' + str(sorted(failed)) if failed else ''}, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
