#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "producer/device/device.hpp"
#include "producer/runner/models/length_groups.hpp"
#include "producer/runner/models/model.hpp"

namespace offramp {

// Packs a staged batch of tokens, int32 [batch, 2, longest], into groups of similar lengths (LengthGroups), in its own
// page-locked memory for one batch. Thread: one. Blocks: never. Errors: the constructor: DeviceOutOfMemory.
class LengthPacking {
  public:
    // `input` is of tokens, with ModelInput::group_rows.
    LengthPacking(Device& device, const ModelInput& input);

    // Invalidates the previous batch's packed bytes. The first `items` rows are the batch's own; later rows have no
    // token.
    LengthGroups pack(std::span<const std::byte> staged, std::size_t items);
    const std::byte* packed() const { return memory_->data(); }
    std::size_t most_bytes() const { return memory_->bytes(); }

  private:
    const std::uint32_t batch_, group_rows_, longest_;
    std::unique_ptr<DeviceBuffer> memory_;
};

// Token count of a staged batch that is computed without packing.
std::uint64_t tokens_of_batch(std::span<const std::byte> staged, std::size_t row_bytes);

}  // namespace offramp
