#include "common/wire/readable_output.hpp"

#include <limits>

namespace offramp {

std::string obstacle_to_pictures(const TensorSpec& spec) {
    const bool elements =
        spec.dtype == kUInt8 || spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16;
    if (spec.dims != 4 || !elements || (spec.shape[1] != 1 && spec.shape[1] != 3 && spec.shape[1] != 4))
        return "expected pictures: uint8, float32, float16 or bfloat16 [N, 3, H, W], or with 1 or 4 channels";
    const std::int64_t pixels = spec.shape[2] * spec.shape[3];
    if (pixels < 1 || pixels > kMostPixelsOfAPicture)
        return "a picture has 1 to " + std::to_string(kMostPixelsOfAPicture) + " pixels";
    return {};
}

bool is_vectors(const TensorSpec& spec) {
    return spec.dims == 2 && spec.shape[1] >= 1 && spec.shape[1] <= std::numeric_limits<std::int32_t>::max() &&
           (spec.dtype == kFloat32 || spec.dtype == kFloat16 || spec.dtype == kBFloat16);
}

}  // namespace offramp
