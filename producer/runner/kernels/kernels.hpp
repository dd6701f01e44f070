#pragma once

#include <cstddef>
#include <cstdint>

#include "common/numerics/foreground_score.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/device/device.hpp"

// This program's own computations on a device, besides its models: input is normalised, outputs become smaller. Each
// call puts its work on a stream of any device, in the order of that stream, and gives the same bits on each. Borrows:
// all memory, until an event recorded afterwards is done. Thread: the stream's. Blocks: never. Errors: CudaError; an
// input that violates these rules is a broken contract.
namespace offramp::kernels {

// 8-bit pixels [rows, height, width, 3].
struct PixelInput {
    const std::uint8_t* pixels = nullptr;
    std::int64_t rows = 0, height = 0, width = 0;
    float mean[3] = {0.485F, 0.456F, 0.406F};
    float std[3] = {0.229F, 0.224F, 0.225F};
};
// Turns them into the model's input: (pixel / 255 - mean) / std per channel, described by `spec`: float32 or bfloat16,
// [rows, 3, height, width] with contiguous or channels-last strides.
void normalize(Stream& stream, void* to, const TensorSpec& spec, const PixelInput& input);

// Converts `elements` float32 values to `type`, float16 or bfloat16: round to nearest even.
void cast(Stream& stream, void* to, DType type, const void* from, std::size_t elements);

// Class scores, float32 [rows, classes, height, width], contiguous, of 1 to 256 classes.
struct ClassScores {
    const float* scores = nullptr;
    std::int64_t rows = 0, classes = 0, height = 0, width = 0;
    std::int64_t upsample_factor = 1;  // factor of height and width, see common/numerics/enlargement.hpp
};
// Each pixel's class, uint8 [rows, height * upsample_factor, width * upsample_factor]: the first of the largest scores,
// with NaN as the largest, like at::argmax. `confidence`, unless null, gets in the same shape the class's softmax
// probability times 255, rounded; 0 if a NaN or an infinite score is the largest. The enlarged scores are never stored.
void map_classes(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, const ClassScores& input);

// The scores of networks of one channel, float32 [rows, 1, height, width], contiguous.
struct ForegroundScores {
    const float* scores = nullptr;
    std::int64_t rows = 0, height = 0, width = 0;
    std::int64_t upsample_factor = 1;  // as of ClassScores
    ForegroundScale scale;
};
// Each pixel's class, in the shape of map_classes: 1 if its score is at least scale.least, else 0. `confidence`, unless
// null, gets the probability of that class times 255, rounded. `outliers`, [rows], is page-locked host memory of
// allocate_pinned_host(): each entry gets one enlarged score of its row that scale does not allow, or 0. Only work on
// this stream writes it, so later work on the stream may reuse it.
void map_foreground(Stream& stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                    const ForegroundScores& input);

}  // namespace offramp::kernels
