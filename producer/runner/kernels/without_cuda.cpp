// Stands in for gpu_runtime.cpp and gpu_kernels.cpp in a build without CUDA.
#include "common/base/error.hpp"
#include "producer/device/cuda_failure.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/kernels/jpeg_decoder.hpp"
#include "producer/runner/kernels/kernel_plans.hpp"
#include "producer/runner/kernels/picture_encoder.hpp"

namespace offramp {
namespace {

[[noreturn]] void no_kernels() {
    fail_expectation("a GPU's stream is made only where there are kernels for it", std::source_location::current());
}

}  // namespace

GpuSearch find_gpus_for_kernels() {
    return {.count = 0, .obstacle = "this program was built without CUDA (configure it with -DOFFRAMP_CUDA=ON)"};
}

std::unique_ptr<Device> open_device_for_kernels(const std::string& which) {
    if (which == "auto") return open_cpu_device();
    std::unique_ptr<Device> device = open_device(which);
    if (!device->is_gpu()) return device;
    throw CudaError(ErrorKind::DeviceUnsupported,
                    "Device '" + which + "' cannot be used: " + find_gpus_for_kernels().obstacle,
                    "Run on the CPU with --device cpu, or use a build with CUDA");
}

void start_profiler(const Device&) {}
void stop_profiler(const Device&) {}

void normalize_on_gpu(void*, void*, const std::uint8_t*, const NormalizePlan&) { no_kernels(); }
void cast_on_gpu(void*, void*, DType, const void*, std::size_t) { no_kernels(); }
void map_classes_on_gpu(void*, std::uint8_t*, std::uint8_t*, const float*, const ClassMapPlan&) { no_kernels(); }
void map_foreground_on_gpu(void*, std::uint8_t*, std::uint8_t*, float*, const float*, const ForegroundPlan&) {
    no_kernels();
}
void resize_on_gpu(void*, const ResizePlan&) { no_kernels(); }
void make_pixels_on_gpu(void*, std::uint8_t*, float*, const kernels::PictureNumbers&) { no_kernels(); }

std::unique_ptr<JpegDecoder> JpegDecoder::open(const Device&, Engine) {
    throw ConfigError("pictures cannot be decoded on a GPU: this program was built without CUDA",
                      "Leave --decode out, or use a build with CUDA");
}

std::unique_ptr<PictureEncoder> PictureEncoder::open(Device&, int) {
    throw ConfigError("pictures cannot be encoded on a GPU: this program was built without CUDA",
                      "Leave --encode out, or use a build with CUDA");
}

}  // namespace offramp
