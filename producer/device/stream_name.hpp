#pragma once

#include <string>

#include "producer/device/driver_api.hpp"

namespace offramp {

// Names a stream for profilers. Does nothing without a profiler, or in a build without a CUDA Toolkit, whose headers
// NVTX needs here.
void name_stream(driver::StreamHandle stream, const std::string& name);

}  // namespace offramp
