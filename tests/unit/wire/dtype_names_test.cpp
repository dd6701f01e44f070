#include "common/wire/tensor_spec.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace offramp {
namespace {

struct Names {
    DType dtype;
    std::string safetensors, npy;
};

const std::array<Names, 11> kNames{{{kFloat32, "F32", "<f4"},
                                    {kFloat16, "F16", "<f2"},
                                    {kFloat64, "F64", "<f8"},
                                    {kBFloat16, "BF16", ""},
                                    {kInt64, "I64", "<i8"},
                                    {kInt32, "I32", "<i4"},
                                    {kInt16, "I16", "<i2"},
                                    {kInt8, "I8", "|i1"},
                                    {kUInt8, "U8", "|u1"},
                                    {kBool, "BOOL", "|b1"},
                                    {{5, 64, 1}, "", "<c8"}}};

TEST(DTypeNames, AreTheFormatsNames) {
    for (const Names& names : kNames) {
        EXPECT_EQ(safetensors_dtype(names.dtype), names.safetensors) << to_string(names.dtype);
        EXPECT_EQ(npy_dtype(names.dtype), names.npy) << to_string(names.dtype);
    }
}

// An 8-bit float, an integer of 24 bits, two lanes, an unknown code.
TEST(DTypeNames, AreEmptyWithoutACounterpart) {
    for (const DType dtype : {DType{2, 8, 1}, DType{0, 24, 1}, DType{2, 32, 2}, DType{9, 32, 1}, DType{6, 16, 1}}) {
        EXPECT_EQ(safetensors_dtype(dtype), "") << to_string(dtype);
        EXPECT_EQ(npy_dtype(dtype), "") << to_string(dtype);
    }
}

}  // namespace
}  // namespace offramp
