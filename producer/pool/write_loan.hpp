#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace offramp {

class SlabExchange;

// The right to write one slab, from the moment it left Free until it is published. Move-only. Publishing consumes it;
// destroying it frees the slab unfilled. The owner of an asynchronous copy into bytes() keeps the loan until the copy's
// event is done: an earlier release would hand memory to the next filling while the copy still writes.
class WriteLoan {
  public:
    // Memory of the caller's own: neither end of the loan frees anything.
    static WriteLoan of_own_memory(std::uint32_t slab, std::uint64_t generation, std::span<std::byte> bytes) {
        return {nullptr, slab, generation, bytes};
    }
    WriteLoan(WriteLoan&& other) noexcept
        : exchange_(std::move(other.exchange_)),
          slab_(other.slab_),
          generation_(other.generation_),
          bytes_(other.bytes_) {
        other.exchange_.reset();
    }
    WriteLoan& operator=(WriteLoan&& other) noexcept;
    ~WriteLoan();

    std::uint32_t slab() const { return slab_; }
    std::uint64_t generation() const { return generation_; }
    std::span<std::byte> bytes() const { return bytes_; }

  private:
    friend class SlabExchange;
    WriteLoan(std::shared_ptr<SlabExchange> exchange, std::uint32_t slab, std::uint64_t generation,
              std::span<std::byte> bytes)
        : exchange_(std::move(exchange)), slab_(slab), generation_(generation), bytes_(bytes) {}

    std::shared_ptr<SlabExchange> exchange_;  // null once published or moved from, and for own memory
    std::uint32_t slab_;
    std::uint64_t generation_;
    std::span<std::byte> bytes_;
};

}  // namespace offramp
