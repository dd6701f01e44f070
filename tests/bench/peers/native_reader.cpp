#include <cstddef>
#include <cstdint>

#include "consumer/processors/raw/row_chunks.hpp"

// Reads `bytes` bytes at `data` and returns their XXH3_64, with the loop of the processor `checksum`. Thread: any;
// each has its own state. For tests/bench/peers/readers.py.
extern "C" std::uint64_t offramp_read(const void* data, std::size_t bytes) {
    thread_local offramp::RowHash hash;
    return hash.of({static_cast<const std::byte*>(data), bytes}, [] {});
}
