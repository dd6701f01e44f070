#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/numerics/foreground_score.hpp"
#include "common/numerics/picture_filter.hpp"
#include "common/numerics/pixel_range.hpp"
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

// A picture on the GPU, 8-bit RGB, to be turned upright and resized, or a part of it.
struct PictureToResize {
    const std::uint8_t* pixels = nullptr;
    // The place of the upright picture's first pixel in `pixels`, and the distances to the next one across and down.
    std::int64_t first = 0, across = 3, down = 0;
    std::uint32_t width = 0, height = 0;              // upright
    std::uint64_t whole_width = 0, whole_height = 0;  // the size that all of it is resized to
    std::uint64_t left = 0, top = 0;                  // of the part in it
    std::uint32_t part_width = 0, part_height = 0;
    Interpolation interpolation = Interpolation::Bilinear;
    std::uint8_t* to = nullptr;    // [part_height, part_width, 3]
    std::byte* scratch = nullptr;  // resize_scratch_bytes(), aligned to 256 bytes
};
inline constexpr std::size_t kMostPicturesToResize = 32;
std::size_t resize_scratch_bytes(const PictureToResize& picture);
// Resizes pictures with the arithmetic of the CPU's Resizer (common/app/images/resize.hpp): the same bits for the same
// pixels. At most kMostPicturesToResize. Only on a GPU: there is no decoder for it elsewhere.
void resize_pictures(Stream& stream, std::span<const PictureToResize> pictures);

// Numbers of pictures, float32, float16 or bfloat16, [rows, per_row], contiguous.
struct PictureNumbers {
    const void* numbers = nullptr;
    DType dtype = kFloat32;
    std::int64_t rows = 0, per_row = 0;
    PixelRange range;
};
// Each number's pixel, in the same order: the pixels that consumers make of these numbers. `outliers`, [rows], as of
// map_foreground: each entry gets one number of its row that has no pixel, or 0.
void make_pixels(Stream& stream, std::uint8_t* pixels, float* outliers, const PictureNumbers& input);

}  // namespace offramp::kernels
