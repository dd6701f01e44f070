#include "producer/runner/run/run_parts.hpp"

#include <gmock/gmock.h>

#include <initializer_list>

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TensorSpec output_of(const char* name, DType dtype, std::initializer_list<std::int64_t> shape) {
    return TensorSpec::contiguous(name, dtype, std::span(shape.begin(), shape.size()));
}

const TensorSpec kSquares = output_of("image", kFloat32, {4, 3, 64, 64});

std::vector<std::string> warnings_of(const std::string& processor, const std::vector<TensorSpec>& outputs,
                                     const TensorSpec& input = kSquares) {
    RunConfig config;
    config.processor = processor;
    return warnings_about_outputs(config, outputs, 1, input);
}

TEST(CautionsAboutOutputs, NameUnusedOutputsInOneLine) {
    const std::vector<TensorSpec> outputs{output_of("logits", kFloat32, {4, 21, 64, 64}),
                                          output_of("boxes", kFloat32, {4, 100, 4}),
                                          output_of("vector", kFloat32, {4, 10}), output_of("count", kInt64, {4})};
    for (const char* processor : {"auto", "mask-png", "mask-png,cut-out"})
        EXPECT_THAT(warnings_of(processor, outputs),
                    ElementsAre(AllOf(HasSubstr("not written"), HasSubstr("boxes float32 [4, 100, 4]"),
                                      HasSubstr("vector float32 [4, 10]"), HasSubstr("count int64 [4]"),
                                      HasSubstr("--processor npy"), Not(HasSubstr("logits")))))
            << processor;
    EXPECT_THAT(warnings_of("embeddings-sqlite", outputs),
                ElementsAre(AllOf(HasSubstr("logits"), HasSubstr("boxes"), Not(HasSubstr("vector")))));
    EXPECT_THAT(warnings_of("mask-png,embeddings-sqlite", outputs),
                ElementsAre(AllOf(HasSubstr("boxes"), Not(HasSubstr("logits")), Not(HasSubstr("vector")))));
    for (const char* processor : {"npy", "safetensors", "mask-png,npy", "post.py:save,mask-png", "checksum"})
        EXPECT_THAT(warnings_of(processor, outputs), IsEmpty()) << processor;
    EXPECT_THAT(warnings_of("auto", {outputs[1], outputs[2]}), IsEmpty()) << "arrays of all";
    EXPECT_THAT(warnings_of("auto", {outputs[0]}), IsEmpty());
}

TEST(CautionsAboutOutputs, NameMasksOfOtherProportions) {
    const auto is_reported = ElementsAre(AllOf(HasSubstr("channels-last"), HasSubstr("3 x 64"), HasSubstr("64 x 64")));
    EXPECT_THAT(warnings_of("auto", {output_of("out", kFloat32, {4, 64, 64, 3})}), is_reported);
    EXPECT_THAT(warnings_of("mask-rle", {output_of("out", kInt64, {4, 64, 3})}), is_reported);
    EXPECT_THAT(warnings_of("npy", {output_of("out", kFloat32, {4, 64, 64, 3})}), IsEmpty());
    for (const std::int64_t side : {1, 16, 65, 128})
        EXPECT_THAT(warnings_of("auto", {output_of("out", kFloat32, {4, 21, side, side})}), IsEmpty());
    EXPECT_THAT(warnings_of("auto", {output_of("out", kFloat32, {4, 21, 16, 17})}), IsEmpty()) << "rounded";
    const TensorSpec wide = output_of("image", kFloat32, {4, 3, 64, 128});
    EXPECT_THAT(warnings_of("auto", {output_of("out", kFloat32, {4, 21, 16, 32})}, wide), IsEmpty());
    EXPECT_EQ(warnings_of("auto", {output_of("out", kFloat32, {4, 21, 32, 32})}, wide).size(), 1U);
    EXPECT_THAT(warnings_of("auto", {output_of("out", kFloat32, {4, 21, 16, 32})}, TensorSpec{}), IsEmpty())
        << "of no pictures";
}

TEST(CautionsAboutOutputs, NameQueriesAndPrototypesThatWouldBecomeClasses) {
    const TensorSpec queries = output_of("masks_queries_logits", kFloat32, {4, 100, 16, 16});
    const TensorSpec classes = output_of("class_queries_logits", kFloat32, {4, 100, 151});
    EXPECT_THAT(warnings_of("auto", {classes, queries}),
                ElementsAre(HasSubstr("not written"), AllOf(HasSubstr("masks_queries_logits"), HasSubstr("100 classes"),
                                                            HasSubstr("class_queries_logits"), HasSubstr("queries"))));
    EXPECT_THAT(warnings_of("auto", {output_of("out0", kFloat32, {4, 116, 8400}),
                                     output_of("protos", kFloat32, {4, 32, 16, 16})}),
                ElementsAre(HasSubstr("not written"), AllOf(HasSubstr("protos"), HasSubstr("prototypes"))));
    EXPECT_THAT(
        warnings_of("auto", {output_of("boxes", kFloat32, {4, 100, 4}), output_of("out", kFloat32, {4, 21, 16, 16})}),
        ElementsAre(HasSubstr("not written")));
    EXPECT_THAT(warnings_of("npy", {classes, queries}), IsEmpty());
}

}  // namespace
}  // namespace offramp
