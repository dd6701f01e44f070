#include "common/wire/tensor_spec.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "tests/unit/wire/any_tensor.hpp"

namespace offramp {
namespace {

TensorSpec strided(std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
    TensorSpec spec{.name = "t", .dims = shape.size()};
    std::copy(shape.begin(), shape.end(), spec.shape.begin());
    std::copy(strides.begin(), strides.end(), spec.strides.begin());
    return spec;
}

TEST(TensorSpec, ContiguousIsRowMajor) {
    const std::int64_t shape[] = {2, 3, 4};
    const TensorSpec spec = TensorSpec::contiguous("t", kFloat16, shape);
    EXPECT_EQ(spec.strides, (std::array<std::int64_t, 8>{12, 4, 1}));
    EXPECT_EQ(spec.rows(), 2);
    EXPECT_EQ(spec.elements(), 24U);
    EXPECT_EQ(spec.row_bytes(), 24U);
    EXPECT_EQ(spec.with_rows(5).elements(), 60U);
    EXPECT_TRUE(spec.dense_rows());
}

TEST(TensorSpec, DenseRowsAreOneBlockPerSampleInAnyOrder) {
    EXPECT_TRUE(strided({2, 3, 4, 5}, {60, 20, 5, 1}).dense_rows());  // row-major
    EXPECT_TRUE(strided({2, 3, 4, 5}, {60, 1, 15, 3}).dense_rows());  // channels-last
    EXPECT_TRUE(strided({7}, {1}).dense_rows());                      // one element a sample
    EXPECT_TRUE(strided({2, 1, 4}, {4, 999, 1}).dense_rows());        // an extent of 1 may have any stride
    EXPECT_TRUE(strided({1, 4}, {999, 1}).dense_rows());              // and so may a single sample
}

TEST(TensorSpec, GapsBroadcastsAndReversalsAreNotDense) {
    EXPECT_FALSE(strided({2, 3, 4}, {16, 5, 1}).dense_rows());   // a gap between rows of a sample
    EXPECT_FALSE(strided({2, 3, 4}, {13, 4, 1}).dense_rows());   // a gap between samples
    EXPECT_FALSE(strided({2, 3, 4}, {24, 8, 2}).dense_rows());   // every other element
    EXPECT_FALSE(strided({2, 3, 4}, {4, 0, 1}).dense_rows());    // broadcast inside a sample
    EXPECT_FALSE(strided({2, 3, 4}, {0, 4, 1}).dense_rows());    // one sample for all
    EXPECT_FALSE(strided({2, 3, 4}, {12, -4, 1}).dense_rows());  // backwards
    EXPECT_FALSE(strided({2, 3, 4}, {4, 8, 1}).dense_rows());    // samples interleaved
    EXPECT_FALSE(strided({2, 3}, {3, 3}).dense_rows());
    EXPECT_FALSE(TensorSpec{}.dense_rows());
}

// Says the same from the definition: the offsets of sample r's elements are exactly [r*n, (r+1)*n).
bool covers_one_block_a_sample(const TensorSpec& spec) {
    const auto elements = static_cast<std::int64_t>(spec.row_bytes() / spec.dtype.bytes());
    for (std::int64_t row = 0; row < spec.rows(); ++row) {
        std::set<std::int64_t> offsets;
        for (std::int64_t index = 0; index < elements; ++index) {
            std::int64_t rest = index;
            std::int64_t offset = row * spec.strides[0];
            for (std::size_t d = 1; d < spec.dims; ++d) {
                offset += rest % spec.shape[d] * spec.strides[d];
                rest /= spec.shape[d];
            }
            offsets.insert(offset);
        }
        if (std::ssize(offsets) != elements) return false;
        // A single sample may begin anywhere by its stride: it is row 0.
        if (*offsets.begin() != row * elements || *offsets.rbegin() != (row + 1) * elements - 1) return false;
    }
    return true;
}

RC_GTEST_PROP(TensorSpec, DenseRowsAgreeWithTheDefinition, ()) {
    TensorSpec spec = any_dense_tensor("t", *rc::gen::inRange<std::int64_t>(1, 4));
    RC_ASSERT(spec.dense_rows());
    RC_ASSERT(covers_one_block_a_sample(spec));
    const auto changed = *rc::gen::inRange<std::size_t>(0, spec.dims);
    spec.strides[changed] = *rc::gen::inRange<std::int64_t>(-2, 40);
    RC_ASSERT(spec.dense_rows() == covers_one_block_a_sample(spec));
}

TEST(DType, IsNamedLikeNumpyAndPyTorch) {
    EXPECT_EQ(to_string(kFloat32), "float32");
    EXPECT_EQ(to_string(kBFloat16), "bfloat16");
    EXPECT_EQ(to_string(kUInt8), "uint8");
    EXPECT_EQ(to_string(kInt64), "int64");
    EXPECT_EQ(to_string(DType{6, 8, 1}), "bool");
    EXPECT_EQ(to_string(DType{3, 64, 1}), "dtype(3,64,1)");  // an opaque handle
    EXPECT_EQ(to_string(DType{2, 32, 4}), "dtype(2,32,4)");
    EXPECT_EQ(to_string(DType{200, 8, 1}), "dtype(200,8,1)");
}

TEST(DType, StoresOnlyWholeBytesOfOneLane) {
    EXPECT_TRUE(kBFloat16.whole_bytes());
    EXPECT_TRUE((DType{5, 128, 1}.whole_bytes()));
    EXPECT_FALSE((DType{0, 4, 1}.whole_bytes()));
    EXPECT_FALSE((DType{2, 0, 1}.whole_bytes()));
    EXPECT_FALSE((DType{2, 136, 1}.whole_bytes()));
    EXPECT_FALSE((DType{2, 32, 2}.whole_bytes()));
}

TEST(TensorSpec, DescribesItself) {
    const std::int64_t shape[] = {64, 21, 512, 512};
    EXPECT_EQ(TensorSpec::contiguous("logits", kFloat32, shape).describe(), "logits float32 [64, 21, 512, 512]");
}

}  // namespace
}  // namespace offramp
