#include "tests/unit/models/model_fixture.hpp"

#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

ModelOptions shipped_options() {
    return {.name = "cutout", .weights = OFFRAMP_CUTOUT_WEIGHTS, .batch = 2, .image_size = 128};
}

// The trained module, run by PyTorch.
class CutoutGolden : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_golden()) GTEST_SKIP() << "the tests were built without torchvision 0.26";
        const SafetensorsFile golden = open_weights(golden_path("cutout_golden"));
        images_ = floats_of(*golden.find("image"));
        logits_ = floats_of(*golden.find("logits"));
        small_logits_ = floats_of(*golden.find("small_logits"));
    }

    double difference(const ModelOptions& options) const {
        return relative_difference(options.leave_out_enlargement ? small_logits_ : logits_,
                                   answer<float>(*open_models().make(options), images_));
    }

    std::vector<float> images_, logits_, small_logits_;
};

TEST_F(CutoutGolden, GivesPyTorchsLogitsInEitherMemoryFormat) {
    ModelOptions options = shipped_options();
    EXPECT_LE(difference(options), 1e-4);
    options.memory_format = "channels-last";
    EXPECT_LE(difference(options), 1e-4);
}

TEST_F(CutoutGolden, GivesPyTorchsLogitsBeforeTheyAreEnlarged) {
    ModelOptions options = shipped_options();
    options.leave_out_enlargement = true;
    const std::unique_ptr<Model> model = open_models().make(options);
    EXPECT_EQ(model->outputs().front().describe(), "logits float32 [2, 2, 64, 64]");
    EXPECT_EQ(model->upsample_factor(), 2U);
    EXPECT_LE(difference(options), 1e-4);
    options.memory_format = "channels-last";
    EXPECT_LE(difference(options), 1e-4);
}

TEST_F(CutoutGolden, StaysCloseInBf16) {
    ModelOptions options = shipped_options();
    options.precision = "bf16";
    const double found = difference(options);
    EXPECT_LE(found, 0.05);
    EXPECT_GT(found, 1e-4) << "was it computed in bf16?";
}

// The counterexample: other weights fail the comparison.
TEST_F(CutoutGolden, ComparisonFailsForOtherWeights) {
    ModelOptions options = shipped_options();
    options.weights.clear();
    EXPECT_GT(difference(options), 1e-2);
}

TEST(Cutout, DescribesItself) {
    const std::unique_ptr<Model> model =
        open_models().make({.name = "cutout", .seed = 7, .batch = 3, .image_size = 64});
    EXPECT_EQ(model->parameters(), 512'050U);
    EXPECT_TRUE(model->random_weights());
    EXPECT_EQ(model->description(), "cutout, 512050 parameters, random weights (seed 7)");
    EXPECT_EQ(model->input().kind, InputKind::Image);
    EXPECT_EQ(model->input().tensor.describe(), "image float32 [3, 3, 64, 64]");
    EXPECT_EQ(model->outputs().front().describe(), "logits float32 [3, 2, 64, 64]");
    EXPECT_EQ(model->upsample_factor(), 1U);
    EXPECT_FALSE(open_models().make(shipped_options())->random_weights());
}

TEST(Cutout, TakesTheSmallestImage) {
    const std::unique_ptr<Model> model = open_models().make({.name = "cutout", .batch = 1, .image_size = 32});
    EXPECT_EQ(answer<float>(*model, made_up_input(*model)).size(), 2U * 32 * 32);
}

TEST(Cutout, RefusesOtherImageSizesAndNamesTheNextMultiple) {
    for (const std::uint32_t size : {31U, 250U}) {
        EXPECT_THAT(
            test::error_of<ConfigError>([&] { (void)open_models().make({.name = "cutout", .image_size = size}); }),
            testing::AllOf(testing::HasSubstr("image size " + std::to_string(size)),
                           testing::HasSubstr(size == 31 ? "--image-size 32" : "--image-size 256")));
    }
}

}  // namespace
}  // namespace offramp
