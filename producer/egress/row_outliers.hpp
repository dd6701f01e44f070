#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "producer/device/device.hpp"

namespace offramp {

// Impossible scores found on the device while a one-channel output became a class map: one per row, or 0. Valid once
// that work is done. Owns its part of the device's memory, which is reused in the stream's order.
struct RowOutliers {
    std::string output;                    // as describe_output() formats it
    std::shared_ptr<DeviceBuffer> memory;  // float [rows]

    float of(std::size_t row) const { return reinterpret_cast<const float*>(memory->data())[row]; }
};

}  // namespace offramp
