#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace offramp {

// Bytes in an allocation of exactly their size, so that the sanitizer sees an access beyond it. Aligned like operator
// new.
class ExactCopy {
  public:
    explicit ExactCopy(std::span<const std::byte> bytes)
        : memory_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
        std::copy(bytes.begin(), bytes.end(), memory_.get());
    }
    std::span<std::byte> bytes() { return {memory_.get(), size_}; }

  private:
    std::unique_ptr<std::byte[]> memory_;
    std::size_t size_;
};

}  // namespace offramp
