"""
File descriptors run out at any step: a call succeeds or raises an error of the package, and waiting work continues
later.
"""

import unittest

from world import World, needs_numpy

# An Egress in a process that runs out of descriptors at each step, with consumers in child processes. Forks a child
# before each run.
BEGINNING = """
import os, resource, sys, time
import numpy, offramp

run_dir = sys.argv[1]
LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)
VALUES = numpy.arange(24, dtype="float32").reshape(4, 6)

def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True

class Scarce:
    # Leaves `free` descriptors until its end.
    def __init__(self, free):
        self.free = free

    def __enter__(self):
        limit = free = 0
        while free < self.free or is_open(limit):
            free += not is_open(limit)
            limit += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, LIMITS[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)

def works(call):
    try:
        call()
        return True
    except offramp.Error:
        return False
    except OSError as problem:      # Python's own files
        if problem.errno != 24:
            raise
        return False

def consume(free=None):
    # Starts consumers one after the other until one succeeds, like a launcher.
    go, begin = os.pipe()
    if (child := os.fork()) != 0:
        os.close(go)
        return child, begin
    os.close(begin)
    os.read(go, 1)
    errors = 0
    while True:
        if (again := os.fork()) == 0:
            try:
                consumer = offramp.Consumer(run_dir)
                if errors == 0 and free is not None:
                    with Scarce(free):
                        consumer.run(lambda slab: None)
                else:
                    consumer.run(lambda slab: None)
                os._exit(0)
            except offramp.NoSuchRun:
                os._exit(0)
            except (offramp.Error, OSError):
                os._exit(1)
            except BaseException:
                os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(again, 0)[1])
        if code != 1:
            os._exit(code & 0x7f)
        errors += 1

def open_one():
    return offramp.Egress(run_dir, tensors={"values": ("float32", (4, 6))}, samples_per_slab=4, slabs=4, device="cpu")
"""


@needs_numpy
class UsedUp(World):
    def run_it(self, program):
        return self.end(self.python(BEGINNING + program, self.run_dir)).split()

    def test_when_an_egress_opens(self):
        refused = int(
            self.run_it("""
refused = 0
for free in range(81):
    opened = []
    with Scarce(free):
        refused += not works(lambda: opened.append(open_one()))
    for egress in opened:
        egress.close()
print(refused)
""")[0]
        )
        self.assertTrue(5 < refused < 80, refused)

    def test_when_a_consumer_connects_and_when_an_egress_closes(self):
        self.assertEqual(
            ["done"],
            self.run_it("""
for free in [*range(16), *range(16, 81, 8)]:
    child, begin = consume()
    egress = open_one()
    submitted = 0
    with Scarce(free):
        os.write(begin, b"x")
        for _ in range(3):
            submitted += works(lambda: egress.submit({"values": VALUES}))
        for _ in range(50):
            if egress.stats().consumers:
                break
            time.sleep(0.001)
    egress.drain()
    assert egress.stats().samples_completed == 4 * submitted, (free, submitted)
    with Scarce(free):
        works(egress.close)
    egress.close()
    os.close(begin)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""),
        )

    def test_in_a_consumer(self):
        self.assertEqual(
            ["done"],
            self.run_it("""
for free in [*range(40), *range(40, 81, 8)]:
    child, begin = consume(free)
    with open_one() as egress:
        os.write(begin, b"x")
        for _ in range(9):
            egress.submit({"values": VALUES})
        egress.drain()
        assert egress.stats().samples_dead_lettered == 0
    os.close(begin)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, free
print("done")
"""),
        )


if __name__ == "__main__":
    unittest.main()
