#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace offramp {

// Draws a history's decisions from an input's bytes, in order, then zeros. Borrows the bytes.
class ByteSource {
  public:
    explicit ByteSource(std::span<const std::byte> bytes) : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }
    std::uint8_t byte() { return number<std::uint8_t>(); }
    template <class Number>
    Number number() {
        Number value{};
        const auto taken = take(sizeof value);
        std::memcpy(&value, taken.data(), taken.size());
        return value;
    }
    std::span<const std::byte> take(std::size_t count) {
        const auto taken = bytes_.first(std::min(count, bytes_.size()));
        bytes_ = bytes_.subspan(taken.size());
        return taken;
    }

  private:
    std::span<const std::byte> bytes_;
};

}  // namespace offramp
