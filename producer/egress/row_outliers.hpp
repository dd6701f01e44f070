#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// What was met in an output of one channel on the device when a class map was made of it: of each row a score that
// cannot be, or 0. To be looked at once its work is done. Owns its part of the memory that the device writes to, which
// is used again in the order of the stream.
struct RowOutliers {
    std::string output;                    // as describe_output() has it
    std::shared_ptr<DeviceBuffer> memory;  // float [rows]

    float of(std::size_t row) const { return reinterpret_cast<const float*>(memory->data())[row]; }
};

}  // namespace offramp
