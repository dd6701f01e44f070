#pragma once

#include <memory>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// A tensor on the device, finished or still being computed. Any model loop can pass one to the egress. `data` is read
// on the egress stream after the event that the caller records on the producing stream; `owner` keeps the memory alive
// until the copy's event has been seen done, and is then dropped.
struct DeviceTensor {
    TensorSpec spec;
    const void* data = nullptr;
    std::shared_ptr<const void> owner;
};

}  // namespace offramp
