#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "producer/device/device.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Knows how staged rows become a model's input: 8-bit pixels are copied and normalised on the device, float32
// rows are copied, and converted when the model wants bfloat16, tokens and rows of arrays are copied. Float32 rows are
// taken as they lie in the model's input, whatever its strides. Owns the device memory in between, of one batch:
// uploads follow one another on one stream. Thread: one. Blocks: never. Errors: ConfigError when source and model do
// not fit; CudaError.
class InputUpload {
  public:
    InputUpload(Device& device, const ModelInput& input, RowKind rows);

    std::size_t staged_row_bytes() const { return staged_row_bytes_; }
    std::size_t input_bytes() const;

    // Submits a full batch. `staged` is read until `uploaded` is done, `to` is written until later work of
    // `copies` starts.
    void submit(Stream& copies, const std::byte* staged, std::byte* to, Event& uploaded);
    // The same of what is on the device as it is here.
    static void submit_as_it_is(Stream& copies, std::span<const std::byte> bytes, std::byte* to, Event& uploaded);

  private:
    ModelInput input_;
    RowKind rows_;
    std::size_t staged_row_bytes_ = 0;
    std::unique_ptr<DeviceBuffer> between_;
};

// A model input of seeded N(0, 1) numbers, zeros where arrays are not floats, or of tokens without meaning, that stays
// on the device for good. Blocks until it is there.
std::unique_ptr<DeviceBuffer> make_resident_input(Device& device, const ModelInput& input, std::uint64_t seed);

}  // namespace offramp
