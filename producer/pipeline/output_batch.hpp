#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "producer/cuda/device.hpp"
#include "producer/models/model.hpp"
#include "producer/pipeline/input_batch.hpp"

namespace offramp {

// A batch's outputs on their way off the device: finished, or still being computed until `computed` is done.
// Owns the tensors' keep-alives; they are dropped once the last copy's event has been seen done.
struct OutputBatch {
    std::uint64_t number = 0;
    std::vector<RowInfo> rows;               // as many as are wanted of each tensor's dimension 0
    std::vector<DeviceTensor> tensors;       // in the order of the layout's
    std::shared_ptr<Event> computed;         // armed on the producing stream behind the work that writes the tensors
};

}  // namespace offramp
