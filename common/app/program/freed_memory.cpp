#include "common/app/program/freed_memory.hpp"

#include <malloc.h>

#include <limits>

namespace offramp {

void keep_freed_memory() noexcept {
    ::mallopt(M_MMAP_MAX, 0);  // a threshold would be at most 32 MiB, and outputs are larger
    ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace offramp
