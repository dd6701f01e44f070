#pragma once

#include <cstddef>
#include <functional>

#include "producer/device/cuda_event.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Submits Stream's work to any CUDA stream. The stream's context is the calling thread's. Errors: CudaError.
void give_copy_to_host(driver::StreamHandle stream, std::byte* to, const void* from, std::size_t bytes);
void give_copy_to_device(driver::StreamHandle stream, void* to, const std::byte* from, std::size_t bytes);
void give_host_work(driver::StreamHandle stream, std::function<void()> work);
void give_wait(driver::StreamHandle stream, const CudaEvent& awaited);

}  // namespace offramp
