"""
A GPU fails at each driver call of a loop in turn. The loop gets the documented exception, its process lives on, and
no sample arrives without its bytes. tests/contract/egress/gpu_failures_test.cpp does the same with the C library.
"""

import json
import os
import unittest

from world import World, needs_numpy

LOOP = """
    import ctypes, json, sys, threading

    driver = ctypes.CDLL(sys.argv[1])  # first: the library then finds it by its name
    driver.made_up_gpu_faulty_function.restype = ctypes.c_char_p
    import offramp

    class OnGpu:
        def __init__(self, value):
            self.memory = (ctypes.c_ubyte * 24)(*[value] * 24)  # the made-up GPU's memory is the host's
            place = (ctypes.addressof(self.memory), False)
            self.__cuda_array_interface__ = {"shape": (4, 6), "typestr": "|u1", "data": place, "version": 3}

    def read(run_dir, seen, arrived):
        for slab in offramp.Consumer(run_dir):
            seen += [(sample.key, slab["out"][sample.row].tolist()) for sample in slab.samples]
            arrived.set()

    class Opened(Exception):
        pass

    def run(run_dir, step, fault, seen):
        arrived = threading.Event()
        reader = threading.Thread(target=read, args=(run_dir, seen, arrived))

        def submit(egress, batch):
            egress.submit({"out": OnGpu(batch + 1)}, [f"{batch} {row}" for row in range(4)])

        driver.made_up_gpu_restart()
        if step == "open":
            driver.made_up_gpu_fail(*fault)
        try:
            with offramp.Egress(run_dir, {"out": ("uint8", (4, 6))}, "cuda", slabs=2, samples_per_slab=4) as egress:
                if step == "open":
                    raise Opened
                reader.start()
                submit(egress, 0)
                assert arrived.wait(60)
                driver.made_up_gpu_fail(*fault)
                for batch in (1, 2):
                    submit(egress, batch)
            return ["", ""]
        except Opened:
            return ["", ""]
        except Exception as problem:
            return [type(problem).__name__, str(problem)]
        finally:
            if reader.ident:
                reader.join()

    def fails_at(step, at, way, function=""):
        seen = []
        outcome = run(f"{sys.argv[2]}/{step}-{at}{function}", step, (at, *way, function.encode()), seen)
        function = driver.made_up_gpu_faulty_function().decode()
        print(json.dumps([step, at, function, way, *outcome, seen]), flush=True)
        return bool(function)

    ways = json.loads(sys.argv[3])
    for step in ("open", "work"):
        at = 1
        while fails_at(step, at, ways[at % len(ways)]):
            at += 1
    for step, function in json.loads(sys.argv[4]):
        fails_at(step, 1, ways[0], function)
"""
ONCE, FUNCTION, LOST = 0, 1, 2
# CUDA's errors, how they go on, and the exceptions that stand for them.
WAYS = {
    (214, LOST): "DeviceBroken",  # an uncorrectable ECC error
    (2, ONCE): "DeviceOutOfMemory",
    (719, LOST): "DeviceBroken",  # a failed kernel
    (801, ONCE): "DeviceUnsupported",  # a refusal
    (2, FUNCTION): "DeviceOutOfMemory",
    (100, LOST): "DeviceUnsupported",  # a device that is gone
    (999, ONCE): "DeviceBroken",  # unknown
}
STICKY = (214, 719, 999)
# Threads of the library call in between, so that counting every call may miss these.
FUNCTIONS = (
    ("open", "cuInit"),
    ("open", "cuMemHostRegister"),
    ("work", "cuEventRecord"),
    ("work", "cuMemcpyDtoHAsync"),
)


@needs_numpy
class GpuFailures(World):
    def test_each_is_an_exception_in_a_process_that_lives_on(self):
        given = (json.dumps(list(WAYS)), json.dumps(FUNCTIONS))
        loop = self.python(LOOP, os.environ["OFFRAMP_TEST_MADE_UP_GPU"], self.folder, *given)
        outcomes = [json.loads(line) for line in self.end(loop).splitlines()]
        for step, at, function, (error, kind), exception, text, seen in outcomes:
            with self.subTest(step=step, call=at, function=function, error=error, kind=kind, text=text):
                self.assertEqual([], [(key, row) for key, row in seen if row != [int(key[0]) + 1] * 6])
                self.assertEqual(len(seen), len({key for key, _ in seen}), "delivered twice")
                if not exception:
                    self.assertEqual(12 if step == "work" else 0, len(seen))
                    continue
                is_search = function in ("cuInit", "cuDeviceGetCount")
                is_refusal = function == "cuMemHostRegister" and error not in STICKY
                wanted = "DeviceUnsupported" if is_search or is_refusal else WAYS[error, kind]
                self.assertEqual(wanted, exception)
                self.assertIn(f"({error})", text)
        self.assertEqual(
            [("open", "", ""), ("work", "", "")], [(each[0], each[2], each[4]) for each in outcomes if not each[2]]
        )
        self.assertLess({function for _, function in FUNCTIONS}, {each[2] for each in outcomes})
        # Others depend on what the loop still does when a thread of the library notices.
        self.assertIn("cuInit", {each[2] for each in outcomes if each[4]})


if __name__ == "__main__":
    unittest.main()
