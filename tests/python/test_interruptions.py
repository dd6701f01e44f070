"""
An exception at any step of submit(): the loop submits the batch again or continues, and no sample is lost or mixed up.
"""

import signal

from loops import Loops, processes_of
from world import World, needs_numpy, wait_for

# Simulates a signal handler's exception at each line, or instruction, of the package.
STEPS = """
import os, sys
import numpy, offramp

class Interrupted(Exception):
    pass

class At:
    def __init__(self, step, kind):
        self.left, self.kind = step, kind

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(os.path.dirname(offramp.__file__)):
            return None
        frame.f_trace_opcodes = self.kind == "opcode"
        if event == self.kind:
            self.left -= 1
            if self.left == 0:
                raise Interrupted
        return self

def interrupted_at(step, kind, call):
    "Whether the call was interrupted at this step."
    at = At(step, kind)
    sys.settrace(at)
    try:
        call()
        sys.settrace(None)
        return False
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
"""
# Interrupts each second submit() at the next step. Dies once `dies_at` samples are done; 0: runs to its end,
# undisturbed.
LOOP = (
    STEPS
    + """
import signal, time

options, batches, kind, mode, dies_at = sys.argv[1:]
batches, dies_at = int(batches), int(dies_at)
keyless, again = "keyless" in mode, "again" in mode

def batch(number):
    return [f"b{number:04}-{row}" for row in range(2)], numpy.arange(12, dtype="float32").reshape(2, 6) + number

step = 1
with offramp.Egress(slabs=8, samples_per_slab=2, **eval(f"dict({options})")) as egress:
    given = map(batch, range(batches))
    pending = egress.pending(given, keys=(lambda batch: len(batch[0])) if keyless else None) if "pending" in mode else given
    for number, (keys, values) in enumerate(pending):
        submit = lambda: egress.submit({"values": values}, *([] if keyless else [keys]))
        if number % 2 == 0 or not dies_at or step < 0:
            submit()
        elif not interrupted_at(step, kind, submit):
            step = -1       # all steps were tried
        else:
            step += 1
            if again:
                try:
                    submit()
                except offramp.BadArgument as problem:      # accepted: after the last line of submit(), it cannot know that the loop was interrupted
                    assert kind == "opcode" and ("earlier batch" in str(problem) or "submitted before" in str(problem)), problem
    assert step < 0 or not dies_at, f"{batches} batches are too few: {step} steps"
    while dies_at and egress.stats().samples_completed < dies_at:
        time.sleep(0.001)
    if dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
"""
)
POST = """
def save(slab):
    for sample, values in slab:
        yield sample, ".bin", values.tobytes()
"""


@needs_numpy
class Interruptions(Loops):
    def setUp(self):
        super().setUp()
        self.post.write_text(POST)

    def interrupted_and_resumed(self, mode, kind, batches, dies_at=None):
        """The results of a loop that is interrupted at each step and dies, and of one that resumes it."""
        place = self.place(mode.replace(" ", "-"))
        options = {"output": str(place.output), "processor": f"{self.post}:save", "consumers": 1}
        arguments = (batches, kind, mode)
        first = self.python(LOOP, self.arguments_text(options), *arguments, dies_at or batches, env=place.environment)
        self.end(first, -signal.SIGKILL)
        wait_for(lambda: not processes_of(place.folder), "that the consumers of the dead loop are gone")
        self.end(
            self.python(
                LOOP,
                self.arguments_text({**options, "resume": True}),
                batches,
                kind,
                mode.replace("keys", "pending"),
                0,
                env=place.environment,
            )
        )
        return place.results()

    @staticmethod
    def arguments_text(options):
        return ", ".join(f"{name}={value!r}" for name, value in options.items())

    def check(self, results, batches, keyless=False):
        import numpy

        for number in range(batches):
            for row in range(2):
                name = f"{2 * number + row if keyless else f'b{number:04}-{row}'}.bin"
                expected = (numpy.arange(12, dtype="float32").reshape(2, 6) + number)[row].tobytes()
                self.assertEqual(expected, results.get(name), name)
        self.assertEqual(2 * batches, len(results))

    def test_at_each_line_the_batch_is_submitted_again(self):
        for mode in ("pending again", "pending keyless again", "keys again"):
            with self.subTest(mode):
                self.check(self.interrupted_and_resumed(mode, "line", 600), 600, "keyless" in mode)

    def test_at_each_line_the_loop_continues(self):
        self.check(self.interrupted_and_resumed("pending", "line", 600), 600)

    def test_at_each_instruction(self):
        self.check(self.interrupted_and_resumed("pending again", "opcode", 4000), 4000)


@needs_numpy
class Openings(World):
    def test_at_each_line_of_the_first_batch_it_is_submitted_again(self):
        loop = self.python(
            STEPS
            + """
folder, step = sys.argv[1], 1
while True:
    egress = offramp.Egress(f"{folder}/{step}", slabs=2, samples_per_slab=1, when_full="drop", resume=True)
    given = egress.pending([(["a"], 0), (["b"], 0)])
    keys, _ = next(given)
    submit = lambda: egress.submit(numpy.zeros((1, 10), "float32"), keys)
    was = interrupted_at(step, "line", submit)
    if was:
        submit()
    assert egress.stats()[:2] == (1, 1), egress.stats()
    keys, _ = next(given)
    submit()
    assert egress.stats()[:2] == (2, 2), egress.stats()
    assert [first for first, _, keys in egress._checkpoint._submitted if keys is not None][-2:] in ([0, 1], []), egress._checkpoint._submitted
    egress.close()
    if not was:
        break
    step += 1
assert step > 50, step
print(step)
""",
            self.folder,
        )
        self.assertGreater(int(self.end(loop)), 50)
        self.require_no_memory_left([loop.pid])
