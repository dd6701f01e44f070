"""offramp._memory: second mappings of slabs exist for all regions of a run and outlive the first ones."""

import ctypes
import mmap
import os
import resource
import secrets
import unittest

from offramp._memory import Mappings

REGION = 4 << 20
_MAP_FIXED_NOREPLACE = 0x100000


def mapped_at(address, size):
    """Maps memory of this process there, and returns its address."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE
    return libc.mmap(address, size, mmap.PROT_READ, flags, -1, 0)


class SecondMappings(unittest.TestCase):
    def setUp(self):
        self.run = f"offramp-test-{secrets.token_hex(8)}"
        self.regions = [self.region(f"{self.run}.s{index}", bytes([index + 1])) for index in range(3)]
        self.other = self.region(f"{self.run}0.s0", b"x")

    def region(self, name, filling):
        path = f"/dev/shm/{name}"
        with open(path, "w+b") as file:
            self.addCleanup(os.unlink, path)
            file.write(filling * REGION)
            file.flush()
            return mmap.mmap(file.fileno(), REGION)

    def address(self, region):
        return ctypes.addressof(ctypes.c_char.from_buffer(region))

    def test_the_first_slab_maps_all_regions_and_reads_do_not_fault(self):
        mappings = Mappings()
        found = [mappings.find(self.address(self.regions[1]), REGION)]
        mapped = list(mappings._all)
        self.assertEqual(sorted(self.address(each) for each in self.regions), sorted(each.begin for each in mapped))
        found += [mappings.find(self.address(self.regions[index]) + 4096, REGION - 4096) for index in (0, 2)]
        self.assertEqual(mapped, mappings._all)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        last = [
            ctypes.c_char.from_address(mapping.address + at).value
            for mapping in mapped
            for at in range(0, REGION, 4096)
        ]
        self.assertLess(
            resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before,
            3 * REGION // 65536,
            "a fault for each 16 pages, as ordinary reads cause",
        )
        self.assertEqual({b"\1", b"\2", b"\3"}, set(last))
        self.assertEqual([b"\2", b"\1", b"\3"], [ctypes.c_char.from_address(address).value for _, address in found])

    def test_a_second_mapping_is_not_mapped_once_more(self):
        first, second = Mappings(), Mappings()
        for mappings in (first, second):
            mappings.find(self.address(self.regions[0]), 1)
        self.assertEqual({each.begin for each in first._all}, {each.begin for each in second._all})

    def test_a_forked_child_leaves_other_memory_at_the_address_alone(self):
        mappings = Mappings()
        mappings.find(self.address(self.regions[0]), 1)
        addresses = [mapping.address for mapping in mappings._all]
        child = os.fork()
        if child == 0:
            own = [mapped_at(address, REGION) for address in addresses]
            mappings._all.clear()  # the last references
            read = [ctypes.c_char.from_address(address).value for address in own]
            os._exit(0 if own == addresses and read == [b"\0"] * 3 else 1)
        self.assertEqual(0, os.waitpid(child, 0)[1])
        self.assertEqual(b"\2", ctypes.c_char.from_address(mappings.find(self.address(self.regions[1]), 1)[1]).value)

    def test_other_memory_has_no_second_mapping(self):
        with self.assertRaisesRegex(OSError, "no memory is mapped at 0x1000"):
            Mappings().find(0x1000, 1)
        with self.assertRaisesRegex(OSError, "is not in one region of memory"):
            Mappings().find(self.address(self.other), 1 << 40)
        private = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.assertEqual((None, self.address(private)), Mappings().find(self.address(private), 4096))
