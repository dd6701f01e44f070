#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "producer/device/device.hpp"
#include "producer/runner/models/length_groups.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Turns staged rows into a model's input. 8-bit pixels are copied and normalised on the device; float32 rows are
// copied, and converted if the model takes bfloat16; tokens and rows of arrays are copied. Float32 rows already have
// the strides of the model's input. Owns device memory for one intermediate batch, the largest: uploads follow one
// another on one stream. Thread: one. Blocks: never. Errors: ConfigError when source and model do not fit; CudaError.
class InputUpload {
  public:
    // `input` describes the largest batch.
    InputUpload(Device& device, const ModelInput& input, RowKind rows);

    // Of a row of the largest batch, and of another one.
    std::size_t staged_row_bytes() const { return staged_row_bytes(input_.tensor); }
    std::size_t staged_row_bytes(const TensorSpec& batch) const;
    std::size_t input_bytes() const;

    // Submits a batch, the largest or `batch`. `staged` is read until `uploaded` is done, `to` is written until later
    // work of `copies` starts.
    void submit(Stream& copies, const std::byte* staged, std::byte* to, Event& uploaded) {
        submit(copies, staged, to, uploaded, input_.tensor);
    }
    void submit(Stream& copies, const std::byte* staged, std::byte* to, Event& uploaded, const TensorSpec& batch,
                std::span<const EncodedPicture> decoded = {});
    // The device's rows of pixels: those of `decoded` with a file were written there by earlier work of `copies`.
    std::byte* pixels() const { return between_->data(); }
    // Like submit(), for bytes that are copied unchanged.
    static void submit_as_it_is(Stream& copies, std::span<const std::byte> bytes, std::byte* to, Event& uploaded);

  private:
    ModelInput input_;
    RowKind rows_;
    std::unique_ptr<DeviceBuffer> between_;
};

// A resident model input of seeded N(0, 1) numbers, zeros for arrays that are not floats, or meaningless tokens. It
// stays on the device. Blocks until it is there.
std::unique_ptr<DeviceBuffer> make_resident_input(Device& device, const ModelInput& input, std::uint64_t seed);

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

// The texts of a staged batch that is computed without packing.
std::vector<TokenRows> texts_of_batch(std::span<const std::byte> staged, std::size_t row_bytes);

}  // namespace offramp
