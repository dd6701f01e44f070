#pragma once

#include <cstddef>
#include <cstdint>

#include "common/numerics/foreground_score.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"

// What this program computes on a device itself, beside its models: input is normalised, outputs become smaller. Each
// call puts its work on a stream of any device, in the order of that stream, and gives the same bits on each. Borrows:
// all memory, until an event recorded afterwards is done. Thread: the stream's. Blocks: never. Errors: CudaError; an
// input that is not what is said here is a broken contract.
namespace offramp::kernels {

// 8-bit pixels [rows, height, width, 3].
struct PixelInput {
    const std::uint8_t* pixels = nullptr;
    std::int64_t rows = 0, height = 0, width = 0;
    float mean[3] = {0.485F, 0.456F, 0.406F};
    float std[3] = {0.229F, 0.224F, 0.225F};
};
// Turns them into the model's input: (pixel / 255 - mean) / std per channel, as `spec` says: float32 or bfloat16,
// [rows, 3, height, width] with contiguous or channels-last strides.
void normalize(Stream& stream, void* to, const TensorSpec& spec, const PixelInput& input);

// Converts `elements` float32 values to `type`, float16 or bfloat16: round to nearest even.
void cast(Stream& stream, void* to, DType type, const void* from, std::size_t elements);

// Class scores, float32 [rows, classes, height, width], contiguous, of 1 to 256 classes.
struct ClassScores {
    const float* scores = nullptr;
    std::int64_t rows = 0, classes = 0, height = 0, width = 0;
    std::int64_t upsample_factor =
        1;  // height and width are enlarged so many times, as common/numerics/enlargement.hpp says
};
// Each pixel's class, uint8 [rows, height * upsample_factor, width * upsample_factor]: the first of the largest scores,
// a NaN counting as largest, as at::argmax. Into `confidence`, unless it is null, in the same shape, the class's
// softmax probability times 255, rounded; 0 where a NaN or an infinite score is the largest. The enlarged scores are
// never stored.
void map_classes(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, const ClassScores& input);

// The scores of networks of one channel, float32 [rows, 1, height, width], contiguous.
struct ForegroundScores {
    const float* scores = nullptr;
    std::int64_t rows = 0, height = 0, width = 0;
    std::int64_t upsample_factor = 1;  // as of ClassScores
    ForegroundScale scale;
};
// Each pixel's class, in the shape of map_classes: 1 where its score is at least scale.least, else 0. Into
// `confidence`, unless it is null, the probability of that class times 255, rounded. That row of `outliers`, [rows],
// page-locked host memory of allocate_pinned_host(), gets one of a row's scores, enlarged, that scale does not allow,
// and 0 where it allows all. It is written in the order of this stream alone, so that work given to it later may use
// the same.
void map_foreground(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                    const ForegroundScores& input);

}  // namespace offramp::kernels
