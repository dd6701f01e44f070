#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

#include "common/base/error.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {

// Owns a slab's memory, of whole pages, that ends at a page without access: a read beyond it crashes.
class GuardedSlab {
  public:
    explicit GuardedSlab(std::size_t bytes) : bytes_(bytes) {
        expect(bytes % kPageBytes == 0, "whole pages");
        start_ = ::mmap(nullptr, bytes + kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        expect(start_ != MAP_FAILED, "memory for a test");
        expect(::mprotect(static_cast<std::byte*>(start_) + bytes, kPageBytes, PROT_NONE) == 0, "a guard page");
    }
    ~GuardedSlab() { ::munmap(start_, bytes_ + kPageBytes); }
    GuardedSlab(const GuardedSlab&) = delete;
    GuardedSlab& operator=(const GuardedSlab&) = delete;

    std::span<std::byte> bytes() const { return {static_cast<std::byte*>(start_), bytes_}; }

  private:
    std::size_t bytes_;
    void* start_;
};

}  // namespace offramp
