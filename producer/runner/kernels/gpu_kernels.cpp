#include "producer/runner/kernels/kernel_plans.hpp"

#include "producer/runner/kernels/launches.hpp"
#include "producer/runner/kernels/runtime_check.hpp"

namespace offramp {

void normalize_on_gpu(void* stream, void* to, const std::uint8_t* pixels, const NormalizePlan& plan) {
    check(launch_normalize(static_cast<cudaStream_t>(stream), to, pixels, plan), "normalize kernel");
}

void cast_on_gpu(void* stream, void* to, DType type, const void* from, std::size_t elements) {
    check(launch_cast(static_cast<cudaStream_t>(stream), to, type, from, elements), "cast kernel");
}

void map_classes_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                        const ClassMapPlan& plan) {
    check(launch_map_classes(static_cast<cudaStream_t>(stream), ids, confidence, scores, plan), "class map kernel");
}

void map_foreground_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                           const float* scores, const ForegroundPlan& plan) {
    auto* const queue = static_cast<cudaStream_t>(stream);
    check(cudaMemsetAsync(outliers, 0, static_cast<std::size_t>(plan.map.rows) * sizeof *outliers, queue),
          "cudaMemsetAsync");
    check(launch_map_foreground(queue, ids, confidence, outliers, scores, plan), "foreground kernel");
}

void resize_on_gpu(void* stream, const ResizePlan& plan) {
    check(launch_resize(static_cast<cudaStream_t>(stream), plan), "resize kernels");
}

void make_pixels_on_gpu(void* stream, std::uint8_t* pixels, float* outliers, const kernels::PictureNumbers& input) {
    auto* const queue = static_cast<cudaStream_t>(stream);
    check(cudaMemsetAsync(outliers, 0, static_cast<std::size_t>(input.rows) * sizeof *outliers, queue),
          "cudaMemsetAsync");
    check(launch_make_pixels(queue, pixels, outliers, input), "pixels kernel");
}

}  // namespace offramp
