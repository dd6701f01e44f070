#include "producer/runner/models/input_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(InputParts, BeginAtMultiplesOf16) {
    // 60 bytes
    const std::vector<InputMetadata> inputs{{.name = "features", .tokens = {}, .shape = {3, 5}, .dtype = kFloat32},
                                            {.name = "flag", .tokens = {}, .shape = {}, .dtype = kBool},       // 1
                                            {.name = "ids", .tokens = {}, .shape = {2}, .dtype = kInt64},      // 16
                                            {.name = "half", .tokens = {}, .shape = {9}, .dtype = kFloat16}};  // 18
    const auto parts = lay_out_parts(inputs, 4);
    ASSERT_EQ(parts.size(), 4U);
    EXPECT_EQ(parts[0].offset, 0U);
    EXPECT_EQ(parts[1].offset, 64U);
    EXPECT_EQ(parts[2].offset, 80U);
    EXPECT_EQ(parts[3].offset, 96U);
    EXPECT_EQ(part_row_bytes(parts), 128U);
    EXPECT_EQ(describe_parts(parts),
              "features float32 [4, 3, 5], flag bool [4], ids int64 [4, 2], half float16 [4, 9]");
    EXPECT_EQ(part_row_bytes({}), 0U);
}

TEST(InputParts, OfBfloat16AreFloat32) {
    const std::vector<InputMetadata> inputs{{.name = "x", .tokens = {}, .shape = {5}, .dtype = kBFloat16}};
    EXPECT_EQ(lay_out_parts(inputs, 1).front().tensor.dtype, kFloat32);
    EXPECT_EQ(part_row_bytes(lay_out_parts(inputs, 1)), 32U);
}

}  // namespace
}  // namespace offramp
