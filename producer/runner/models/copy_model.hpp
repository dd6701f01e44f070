#pragma once

#include <cstdint>
#include <memory>

#include "producer/device/device.hpp"
#include "producer/runner/models/model.hpp"

namespace offramp {

// No model: returns a resident device buffer of `copy_bytes` bytes per batch, for measuring and testing the way off the
// device without LibTorch. The bytes are a fixed pseudo-random pattern; each of 64 batches in a row starts at a
// different place in it, so that a slab filled from the wrong batch has other checksums.
//
// Output: `payload` uint8 [batch, copy_bytes / batch]. Input: none. Errors: ConfigError when copy_bytes is not a
// multiple of batch; DeviceOutOfMemory.
std::unique_ptr<Model> make_copy_model(const ModelOptions& options, Device& device);

}  // namespace offramp
