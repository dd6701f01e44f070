#pragma once

#include <offramp.h>

#include <cstdint>
#include <string>
#include <vector>

namespace offramp {

// NOLINTBEGIN(readability-identifier-naming): named as types of elements are everywhere, NumPy's and DLPack's words
inline constexpr offramp_dtype float64{2, 64, 1}, float32{2, 32, 1}, float16{2, 16, 1}, bfloat16{4, 16, 1};
inline constexpr offramp_dtype int64{0, 64, 1}, int32{0, 32, 1}, int16{0, 16, 1}, int8{0, 8, 1}, uint8{1, 8, 1},
    boolean{6, 8, 1};
// NOLINTEND(readability-identifier-naming)

// A tensor of one batch; shape[0] is the usual number of samples. Row-major, or with strides in elements.
struct TensorSpec {
    std::string name;
    offramp_dtype dtype{};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides{};
};

}  // namespace offramp
