#include "common/wire/output_forms.hpp"

#include <limits>

namespace offramp {
namespace {

constexpr const char* kVaries = "its samples differ in shape";

}  // namespace

bool is_class_map(const TensorSpec& spec) {
    const bool has_ids = spec.dtype == kUInt8 || spec.dtype == kBool || spec.dtype == kInt32 || spec.dtype == kInt64;
    return has_ids && !spec.varies() && (spec.dims == 3 || (spec.dims == 4 && spec.shape[1] == 1));
}

bool is_class_scores(const TensorSpec& spec) {
    return spec.dims == 4 && !spec.varies() &&
           (spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16);
}

std::string obstacle_to_masks(const TensorSpec& spec, std::uint32_t upsample_factor) {
    if (spec.varies()) return kVaries;
    if (!is_class_map(spec) && !is_class_scores(spec))
        return "expected class ids (uint8, bool, int32 or int64 [N, H, W] or [N, 1, H, W]) or class scores (float32, "
               "float16 or bfloat16 [N, C, H, W])";
    if (is_class_scores(spec) && (spec.shape[1] < 1 || spec.shape[1] > kMostClassesOfMasks))
        return "it has " + std::to_string(spec.shape[1]) + " classes; a mask holds 1 to " +
               std::to_string(kMostClassesOfMasks);
    const std::int64_t height = spec.shape[spec.dims - 2];
    const std::int64_t width = spec.shape[spec.dims - 1];
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (height < 1 || height > kMost || width < 1 || width > kMost)
        return "a PNG file has 1 to 2147483647 rows and columns";
    if (upsample_factor > 1 &&
        (height > kLongestEnlargedSide / upsample_factor || width > kLongestEnlargedSide / upsample_factor))
        return "enlarged by " + std::to_string(upsample_factor) + " it has more than " +
               std::to_string(kLongestEnlargedSide) + " rows or columns";
    return {};
}

bool is_encoded_pictures(const TensorSpec& spec) {
    return spec.dtype == kUInt8 && spec.dims == 2 && spec.shape[1] == kVarying;
}

std::string obstacle_to_pictures(const TensorSpec& spec) {
    if (is_encoded_pictures(spec)) return {};
    if (spec.varies()) return std::string(kVaries) + ", which only encoded pictures may: uint8 [N, ?]";
    const bool elements =
        spec.dtype == kUInt8 || spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16;
    if (spec.dims != 4 || !elements || (spec.shape[1] != 1 && spec.shape[1] != 3 && spec.shape[1] != 4))
        return "expected pictures: uint8, float32, float16 or bfloat16 [N, 3, H, W], or with 1 or 4 channels";
    const std::int64_t pixels = spec.shape[2] * spec.shape[3];
    if (pixels < 1 || static_cast<std::uint64_t>(pixels) > kMaxImagePixels)
        return "a picture has 1 to " + std::to_string(kMaxImagePixels) + " pixels";
    return {};
}

bool is_vectors(const TensorSpec& spec) {
    return spec.dims == 2 && spec.shape[1] >= 1 && spec.shape[1] <= std::numeric_limits<std::int32_t>::max() &&
           (spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16);
}

}  // namespace offramp
