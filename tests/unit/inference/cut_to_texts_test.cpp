#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "producer/runner/inference/inference.hpp"

namespace offramp {
namespace {

TEST(CutToTexts, EachSampleIsItsTextsOwnRows) {
    const std::vector<float> numbers(2 * 12);
    const std::array<std::int64_t, 2> block{12, 2};
    DeviceTensor tensor{.spec = TensorSpec::contiguous("tokens", kFloat32, block), .data = numbers.data()};
    const std::array<std::int64_t, 3> shape{4, kVarying, 2};
    TensorSpec wanted = TensorSpec::contiguous("tokens", kFloat32, shape);
    wanted.strides = {};
    const std::vector<TokenRows> texts{{4, 3}, {0, 4}, {8, 0}, {8, 2}};
    std::vector<RowInfo> rows(3);  // of a short last batch
    rows[1].empty = true;
    cut_to_texts(tensor, wanted, rows, texts);
    EXPECT_EQ(tensor.spec, wanted);
    EXPECT_EQ(tensor.data, nullptr) << "the samples do not follow one another";
    EXPECT_EQ(tensor.extents, (std::vector<std::int64_t>{3, 0, 0}));
    ASSERT_EQ(tensor.samples.size(), 3U);
    EXPECT_EQ(tensor.samples[0].data, reinterpret_cast<const std::byte*>(numbers.data() + std::size_t{4} * 2));
    EXPECT_EQ(tensor.samples[0].bytes, 3U * 2 * sizeof(float));
    EXPECT_EQ(tensor.samples[1].bytes, 0U);
    EXPECT_EQ(tensor.samples[2].bytes, 0U);
    EXPECT_EQ(tensor.padding_bytes, (12U - 3) * 2 * sizeof(float));
}

TEST(CutToRows, EachSampleHasTheBatchsShape) {
    const std::vector<float> numbers(3 * 2 * 5);
    DeviceTensor tensor{.spec = TensorSpec::contiguous("map", kFloat32, std::array<std::int64_t, 3>{3, 2, 5}),
                        .data = numbers.data()};
    TensorSpec wanted = TensorSpec::contiguous("map", kFloat32, std::array<std::int64_t, 3>{8, 2, kVarying});
    wanted.strides = {};
    std::vector<RowInfo> rows(2);
    DeviceTensor packed = tensor;
    cut_to_rows(packed, wanted, rows);
    EXPECT_EQ(packed.spec, wanted);
    EXPECT_EQ(packed.data, numbers.data());
    EXPECT_EQ(packed.extents, (std::vector<std::int64_t>{5, 5}));
    EXPECT_EQ(packed.padding_bytes, 10 * sizeof(float));
    rows.emplace_back();
    rows[1].empty = true;
    cut_to_rows(tensor, wanted, rows);
    EXPECT_EQ(tensor.data, nullptr) << "an empty row is between the others";
    EXPECT_EQ(tensor.extents, (std::vector<std::int64_t>{5, 0, 5}));
    EXPECT_EQ(tensor.samples[1].bytes, 0U);
    EXPECT_EQ(tensor.samples[2].data, reinterpret_cast<const std::byte*>(numbers.data() + 20));
}

}  // namespace
}  // namespace offramp
