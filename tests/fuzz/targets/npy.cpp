// The header of a .npy file.

#include "producer/runner/sources/npy_file.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace offramp {
namespace {

void feed(std::span<const std::byte> input) {
    ExactCopy copy(input);
    try {
        const NpyHeader header = read_npy_header(copy.bytes());
        expect(header.bytes <= input.size(), "the numbers begin within the file or behind it");
        expect(std::ranges::all_of(header.shape, [](std::int64_t side) { return side >= 0; }), "no side is negative");
    } catch (const ConfigError& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
    }
}

std::string with_front(const std::string& header) {
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
}

}  // namespace

FuzzTarget make_npy() {
    return {feed,
            {with_front("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
             with_front("{'shape': (-1,), 'fortran_order': True, 'descr': '|u1'}"),
             std::string("\x93NUMPY\x02\x00\x10\x00\x00\x00", 12) + "{'descr': [('a',"}};
}

}  // namespace offramp
