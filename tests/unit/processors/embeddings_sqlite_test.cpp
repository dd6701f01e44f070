#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "common/base/error.hpp"
#include "consumer/processors/vectors/sample_vectors.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;
using test::spec_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

test::HandMade made(std::initializer_list<TensorSpec> specs) {
    test::HandMade sample = test::one_sample();
    for (const TensorSpec& spec : specs) sample.add(spec);
    sample.contents.model = "the model";
    return sample;
}

std::string error_for(const RunConfig& config, const SlabContents& contents) {
    try {
        make_processor(config.processor, config)->process(contents, test::kNoProgress, test::kCurrent);
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Usage);
        return error.what();
    }
    return "no error";
}

TEST(EmbeddingsSqlite, RefusesAModelWithoutVectorsAndNamesItsOutputs) {
    const ScratchFolder folder;
    const auto sample = made({spec_of("scores", kFloat32, {1, 3, 5, 7}), spec_of("classes", kInt64, {1, 9})});
    EXPECT_THAT(error_for(test::config_for("embeddings-sqlite", folder.path()), sample.contents),
                AllOf(HasSubstr("the outputs of 'the model': "), HasSubstr("[N, D]"),
                      HasSubstr("scores float32 [1, 3, 5, 7]"), HasSubstr("classes int64 [1, 9]")));
}

TEST(EmbeddingsSqlite, RefusesATruncationLongerThanTheVector) {
    const ScratchFolder folder;
    RunConfig config = test::config_for("embeddings-sqlite", folder.path());
    config.catalogue.put("truncate-dim", 9);
    EXPECT_THAT(error_for(config, made({spec_of("v", kFloat16, {1, 8})}).contents),
                AllOf(HasSubstr("--truncate-dim is 9"), HasSubstr("v float16 [1, 8]"), HasSubstr("only 8 numbers")));
    config.catalogue.put("truncate-dim", 8);
    EXPECT_EQ(error_for(config, made({spec_of("v", kFloat16, {1, 8})}).contents), "no error");
}

TEST(SampleVectorsInHalves, CountsNumbersThatBecomeInfinite) {
    RunConfig config;
    config.catalogue.put("vector-dtype", "fp16");
    SampleVectors vectors(config.catalogue, "embeddings-sqlite");
    auto sample = made({spec_of("v", kFloat32, {1, 2})});
    for (const auto& [number, overflows] :
         {std::pair{65519.0F, 0U}, std::pair{-65520.0F, 1U}, std::pair{std::numeric_limits<float>::infinity(), 1U}}) {
        const float numbers[] = {1.0F, number};
        std::memcpy(sample.storage[0].data(), numbers, sizeof numbers);
        const auto outputs = vectors.outputs(sample.contents);
        (void)vectors.of(outputs.at(0), sample.contents.samples.at(0));
        EXPECT_EQ(vectors.overflowed(), overflows) << number;
    }
}

TEST(EmbeddingsSqlite, RefusesATableOfOtherVectorsAndKeepsIt) {
    const ScratchFolder folder;
    const RunConfig config = test::config_for("embeddings-sqlite", folder.path());
    ASSERT_EQ(error_for(config, made({spec_of("v", kFloat32, {1, 8})}).contents), "no error");
    const test::Tree before = test::read_tree(folder.path());
    RunConfig other = config;
    EXPECT_THAT(error_for(other, made({spec_of("v", kFloat32, {1, 7})}).contents),
                AllOf(HasSubstr("embeddings.sqlite"), HasSubstr("vectors of 8 float32 numbers of output 'v'"),
                      HasSubstr("makes 7 float32 numbers"), HasSubstr("another --output")));
    other.catalogue.put("vector-dtype", "fp16");
    EXPECT_THAT(error_for(other, made({spec_of("v", kFloat32, {1, 8})}).contents),
                HasSubstr("makes 8 float16 numbers"));
    other = config;
    other.catalogue.put("normalize", true);
    EXPECT_THAT(error_for(other, made({spec_of("v", kFloat32, {1, 8})}).contents),
                HasSubstr("makes 8 float32 numbers, normalized"));
    // A fitting vector does not admit the other one.
    EXPECT_THAT(error_for(config, made({spec_of("w", kFloat32, {1, 3}), spec_of("v", kFloat32, {1, 7})}).contents),
                HasSubstr("makes 7"));
    EXPECT_EQ(test::read_tree(folder.path()), before);
    // Another output is another row of the same table, of any length.
    EXPECT_EQ(error_for(config, made({spec_of("w", kFloat32, {1, 3})}).contents), "no error");
}

}  // namespace
}  // namespace offramp
