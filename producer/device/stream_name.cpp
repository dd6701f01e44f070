#include "producer/device/stream_name.hpp"

#if __has_include(<cuda.h>)

#include <nvtx3/nvToolsExtCuda.h>

void offramp::name_stream(driver::StreamHandle stream, const std::string& name) {
    nvtxNameCuStreamA(stream, name.c_str());
}

#else

void offramp::name_stream(driver::StreamHandle, const std::string&) {}

#endif
