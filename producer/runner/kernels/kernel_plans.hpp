#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/kernels/kernels.hpp"

namespace offramp {

// Arguments of kernels::map_classes, checked and reduced to a loop's needs. Sizes are those of the scores before
// enlargement.
struct ClassMapPlan {
    std::int64_t rows = 0;
    std::int32_t classes = 0;
    std::int32_t height = 0;
    std::int32_t width = 0;
    std::int32_t upsample_factor = 1;
    float scale = 1;  // 1 / upsample_factor

    constexpr std::int64_t plane() const { return std::int64_t{height} * width; }
    constexpr std::int64_t pixels_per_row() const { return plane() * upsample_factor * upsample_factor; }
    constexpr std::int64_t pixels() const { return rows * pixels_per_row(); }
};

// Arguments of kernels::map_foreground.
struct ForegroundPlan {
    ClassMapPlan map;  // of one class
    ForegroundScale scale;
};

// Broken contract when `input` violates kernels::map_classes.
ClassMapPlan plan_class_map(const kernels::ClassScores& input);
// The same for kernels::map_foreground.
ForegroundPlan plan_foreground(const kernels::ForegroundScores& input);

// Arguments of kernels::normalize, checked and reduced to a loop's needs. One formula for CPU and device, in this order
// and rounded after each step as torchvision does in float32: x = pixel / 255; x = x - mean; x = x / std; then to
// bfloat16 if requested.
struct NormalizePlan {
    enum class Order { Planar, ChannelsLast };
    enum class Output { Float32, BFloat16 };

    Order order = Order::Planar;
    Output output = Output::Float32;
    std::int64_t rows = 0;
    std::int64_t pixels_per_row = 0;
    float mean[3] = {};
    float std[3] = {};

    std::int64_t elements() const { return rows * pixels_per_row * 3; }
};

// Arguments of kernels::resize_pictures: each picture, and the places in its scratch memory. A line of a filter is the
// first pixel, the number of pixels, and `stride` weights.
struct ResizePlan {
    static constexpr std::uint32_t kBeforeWeights = 2;  // numbers of a line

    struct Picture {
        kernels::PictureToResize of;
        std::uint32_t first_row = 0, row_count = 0;  // of the upright picture, as far as they are needed
        std::uint32_t column_stride = 0, row_stride = 0;
        std::int32_t* columns = nullptr;  // lines of the filter across
        std::int32_t* rows = nullptr;
        std::uint8_t* between = nullptr;  // [row_count, part_width, 3]
    };
    std::uint32_t count = 0;
    Picture pictures[kernels::kMostPicturesToResize];
};
ResizePlan plan_resize(std::span<const kernels::PictureToResize> pictures);

// Broken contract when `spec` violates kernels::normalize. A spec of more rows than the input has is filled in part.
NormalizePlan plan_normalize(const TensorSpec& spec, const kernels::PixelInput& input);

// The CPU's side of kernels.hpp, with the same bits as the GPU's. Blocks: until done.
void normalize_on_cpu(void* to, const std::uint8_t* pixels, const NormalizePlan& plan);
// `type`: float16 or bfloat16.
void cast_on_cpu(void* to, DType type, const void* from, std::size_t elements);
// `confidence` may be null.
void map_classes_on_cpu(std::uint8_t* ids, std::uint8_t* confidence, const float* scores, const ClassMapPlan& plan);
// `confidence` may be null.
void map_foreground_on_cpu(std::uint8_t* ids, std::uint8_t* confidence, float* outliers, const float* scores,
                           const ForegroundPlan& plan);
void make_pixels_on_cpu(std::uint8_t* pixels, float* outliers, const kernels::PictureNumbers& input);

// The GPU's side, without any CUDA header. `stream` is a cudaStream_t of the calling thread's context. Arguments are
// never empty. Blocks: never. Errors: CudaError of a refused launch.
void normalize_on_gpu(void* stream, void* to, const std::uint8_t* pixels, const NormalizePlan& plan);
// `type`: float16 or bfloat16.
void cast_on_gpu(void* stream, void* to, DType type, const void* from, std::size_t elements);
// `confidence` may be null.
void map_classes_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                        const ClassMapPlan& plan);
// `confidence` may be null.
void map_foreground_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                           const float* scores, const ForegroundPlan& plan);
void resize_on_gpu(void* stream, const ResizePlan& plan);
void make_pixels_on_gpu(void* stream, std::uint8_t* pixels, float* outliers, const kernels::PictureNumbers& input);

}  // namespace offramp
