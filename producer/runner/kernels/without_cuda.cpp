// Stands in for gpu_choice.cpp and gpu_kernels.cpp in a build without CUDA.
#include "common/base/error.hpp"
#include "producer/runner/kernels/gpu_choice.hpp"
#include "producer/runner/kernels/gpu_kernels.hpp"

namespace offramp {
namespace {

[[noreturn]] void no_kernels() {
    fail_expectation("a GPU's stream is made only where there are kernels for it", std::source_location::current());
}

}  // namespace

GpuSearch find_gpus_for_kernels() { return find_gpus(); }
std::unique_ptr<Device> open_device_for_kernels(const std::string& which) { return open_device(which); }

void normalize_on_gpu(void*, void*, const std::uint8_t*, const NormalizePlan&) { no_kernels(); }
void cast_on_gpu(void*, void*, DType, const void*, std::size_t) { no_kernels(); }
void map_classes_on_gpu(void*, std::uint8_t*, std::uint8_t*, const float*, const ClassMapPlan&) { no_kernels(); }
void map_foreground_on_gpu(void*, std::uint8_t*, std::uint8_t*, float*, const float*, const ForegroundPlan&) { no_kernels(); }

}  // namespace offramp
