#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "consumer/processors/processor.hpp"

namespace offramp {

// Computes the XXH3_64 of samples' bytes, as `xxhsum -H3` does, at the speed of memory: with the widest
// vectors that the processor has. Owns a hash state for long rows. Thread: one.
class RowHash {
  public:
    RowHash();
    RowHash(const RowHash&) = delete;
    RowHash& operator=(const RowHash&) = delete;
    ~RowHash();

    std::uint64_t of(std::span<const std::byte> bytes, const Progress& progress);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace offramp
