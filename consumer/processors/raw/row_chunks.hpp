#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "consumer/processors/processor.hpp"

namespace offramp {

// A processor reports progress at least this often: 64 MiB take milliseconds to read, and a second to write to a slow
// disk.
inline constexpr std::size_t kProgressBytes = std::size_t{64} << 20U;

// Passes the bytes to `take`, at most kProgressBytes at a time, and reports progress after each piece.
template <class Take>
void in_chunks(std::span<const std::byte> bytes, const Progress& progress, Take&& take) {
    do {
        const std::size_t size = std::min(bytes.size(), kProgressBytes);
        take(bytes.first(size));
        bytes = bytes.subspan(size);
        progress();
    } while (!bytes.empty());
}

// Reports progress in loops of many small steps, each time kProgressBytes have passed. Borrows the progress.
class ProgressByBytes {
  public:
    explicit ProgressByBytes(const Progress& progress) : progress_(progress) {}
    void add(std::size_t bytes) {
        done_ += bytes;
        if (done_ < kProgressBytes) return;
        progress_();
        done_ = 0;
    }

  private:
    const Progress& progress_;
    std::size_t done_ = 0;
};

// Computes the XXH3_64 of samples' bytes, as `xxhsum -H3` does, at memory speed with the processor's widest vectors.
// Owns a hash state for long rows. Thread: one.
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
