#include "common/wire/dtype_names.hpp"

#include <cstddef>

namespace offramp {
namespace {

// DLDataTypeCode.
constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kComplex = 5, kBoolean = 6;

bool is_machine_size(DType dtype) {
    const std::size_t size = dtype.bytes();
    return dtype.whole_bytes() && (size == 1 || size == 2 || size == 4 || size == 8);
}

}  // namespace

std::string safetensors_dtype(DType dtype) {
    const std::string bits = std::to_string(dtype.bits);
    if (dtype == kBFloat16) return "BF16";
    if (!is_machine_size(dtype)) return "";
    if (dtype.code == kInt) return "I" + bits;
    if (dtype.code == kUInt) return "U" + bits;
    if (dtype.code == kFloat && dtype.bits > 8) return "F" + bits;
    return dtype == kBool ? "BOOL" : "";
}

std::string npy_dtype(DType dtype) {
    const std::string order = dtype.bits == 8 ? "|" : "<";
    const std::string bytes = std::to_string(dtype.bytes());
    if (dtype.code == kComplex && dtype.whole_bytes() && (dtype.bytes() == 8 || dtype.bytes() == 16))
        return order + "c" + bytes;
    if (!is_machine_size(dtype)) return "";
    if (dtype.code == kInt) return order + "i" + bytes;
    if (dtype.code == kUInt) return order + "u" + bytes;
    if (dtype.code == kFloat && dtype.bits > 8) return order + "f" + bytes;
    return dtype.code == kBoolean && dtype.bits == 8 ? "|b1" : "";
}

}  // namespace offramp
