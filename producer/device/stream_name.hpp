#pragma once

#include <string>

#include "producer/device/driver_api.hpp"

namespace offramp {

// Tells a profiler what a stream is for; nothing without one, and in a build without a CUDA Toolkit, whose headers NVTX
// needs for this.
void name_stream(driver::StreamHandle stream, const std::string& name);

}  // namespace offramp
