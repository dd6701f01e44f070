#pragma once

#include <cstddef>
#include <string>

namespace offramp {

// "1409286144 bytes (1.31 GiB)"; below 10 KiB without the second form.
std::string byte_count(std::size_t bytes);

// The machine's physical memory, and the kernel's estimate of available memory. 0: unknown.
std::size_t total_host_memory();
std::size_t free_host_memory();

}  // namespace offramp
