#include "tests/unit/models/model_fixture.hpp"

#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

constexpr std::size_t kClasses = 21;

ModelOptions small_options() { return {.name = "deeplabv3-resnet50", .batch = 1, .image_size = 64}; }

// torchvision's weights and images.
ModelOptions golden_options() {
    return {.name = "deeplabv3-resnet50", .weights = golden_path("deeplabv3_weights"), .batch = 2, .image_size = 128};
}

class DeepLabV3Golden : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_golden()) GTEST_SKIP() << "the tests were built without torchvision 0.26";
        const SafetensorsFile golden = open_weights(golden_path("deeplabv3_golden"));
        images_ = floats_of(*golden.find("image"));
        logits_ = floats_of(*golden.find("logits"));
    }

    double difference(const ModelOptions& options) {
        return relative_difference(logits_, answer<float>(*open_models().make(options), images_));
    }

    std::vector<float> images_;
    std::vector<float> logits_;
};

TEST_F(DeepLabV3Golden, GivesTorchvisionsLogits) { EXPECT_LE(difference(golden_options()), 1e-4); }

TEST_F(DeepLabV3Golden, GivesTorchvisionsLogitsInChannelsLast) {
    ModelOptions options = golden_options();
    options.memory_format = "channels-last";
    EXPECT_LE(difference(options), 1e-4);
}

// The counterexample: other weights fail the comparison.
TEST_F(DeepLabV3Golden, ComparisonFailsForOtherWeights) {
    ModelOptions options = golden_options();
    options.weights.clear();
    EXPECT_GT(difference(options), 1e-2);
}

TEST_F(DeepLabV3Golden, GivesTorchvisionsLogitsBeforeTheyAreEnlarged) {
    ModelOptions options = golden_options();
    options.leave_out_enlargement = true;
    const std::unique_ptr<Model> model = open_models().make(options);
    EXPECT_EQ(model->outputs().front().describe(), "logits float32 [2, 21, 16, 16]");
    EXPECT_EQ(model->upsample_factor(), 8U);
    const SafetensorsFile golden = open_weights(golden_path("deeplabv3_golden"));
    EXPECT_LE(relative_difference(floats_of(*golden.find("small_logits")), answer<float>(*model, images_)), 1e-4);
}

TEST(DeepLabV3, DescribesItself) {
    const std::unique_ptr<Model> model =
        open_models().make({.name = "deeplabv3-resnet50", .seed = 7, .batch = 3, .image_size = 72});
    EXPECT_EQ(model->parameters(), 39'638'869U);
    EXPECT_TRUE(model->random_weights());
    EXPECT_EQ(model->description(), "deeplabv3-resnet50, 39638869 parameters, random weights (seed 7)");
    EXPECT_EQ(model->input().kind, InputKind::Image);
    EXPECT_EQ(model->input().tensor.describe(), "image float32 [3, 3, 72, 72]");
    EXPECT_EQ(model->outputs().front().describe(), "logits float32 [3, 21, 72, 72]");
    EXPECT_EQ(model->upsample_factor(), 1U);
}

TEST(DeepLabV3, RandomWeightsAreSaneAndDependOnTheSeed) {
    const std::unique_ptr<Model> model = open_models().make(small_options());
    const std::vector<float> input = made_up_input(*model);
    const std::vector<float> logits = answer<float>(*model, input);
    const auto [smallest, largest] = std::ranges::minmax(logits);
    EXPECT_TRUE(std::isfinite(smallest) && std::isfinite(largest));
    EXPECT_GT(largest - smallest, 0.1F);
    EXPECT_LT(largest - smallest, 1000.0F);
    EXPECT_EQ(answer<float>(*open_models().make(small_options()), input), logits);
    ModelOptions other = small_options();
    other.seed = 1;
    EXPECT_NE(answer<float>(*open_models().make(other), input), logits);
}

TEST(DeepLabV3, GivesTheSameBitsEachTimeWhenDeterministic) {
    ModelOptions options = small_options();
    options.deterministic = true;
    const std::unique_ptr<Model> model = open_models().make(options);
    const std::vector<float> input = made_up_input(*model);
    EXPECT_EQ(answer<float>(*model, input), answer<float>(*model, input));
}

TEST(DeepLabV3, OutputOutlivesTheModelAndTheNextBatch) {
    std::unique_ptr<Model> model = open_models().make(small_options());
    const std::vector<float> input = made_up_input(*model);
    const std::vector<DeviceTensor> kept = model->run(input.data());
    const std::vector<float> expected = answer<float>(*model, input);
    model.reset();
    const auto* values = static_cast<const float*>(kept.front().data);
    EXPECT_TRUE(std::ranges::equal(std::span(values, expected.size()), expected));
}

// A small image: without bf16 instructions LibTorch's convolutions of bf16 take minutes for one of 128.
TEST(DeepLabV3, StaysCloseToFp32InBf16) {
    ModelOptions options = small_options();
    options.image_size = 32;
    const std::unique_ptr<Model> exact = open_models().make(options);
    const std::vector<float> input = made_up_input(*exact);
    const std::vector<float> expected = answer<float>(*exact, input);
    options.precision = "bf16";
    const double found = relative_difference(expected, answer<float>(*open_models().make(options), input));
    EXPECT_LE(found, 0.05);
    EXPECT_GT(found, 1e-4) << "was it computed in bf16?";
}

TEST(DeepLabV3, TakesTheSmallestImage) {
    ModelOptions options = small_options();
    options.image_size = 8;
    const std::unique_ptr<Model> model = open_models().make(options);
    EXPECT_EQ(answer<float>(*model, made_up_input(*model)).size(), kClasses * 8 * 8);
    options.leave_out_enlargement = true;
    options.memory_format = "channels-last";
    const std::unique_ptr<Model> small = open_models().make(options);
    EXPECT_EQ(answer<float>(*small, made_up_input(*small)).size(), kClasses);
}

struct BadOption {
    const char* why;
    void (*spoil)(ModelOptions&);
    const char* complaint;
    ErrorKind kind = ErrorKind::Usage;
};

class DeepLabV3BadOption : public testing::TestWithParam<BadOption> {};

TEST_P(DeepLabV3BadOption, IsRefusedWithTheValue) {
    ModelOptions options = small_options();
    GetParam().spoil(options);
    EXPECT_THAT(test::error_of([&] { (void)open_models().make(options); }, GetParam().kind),
                testing::HasSubstr(GetParam().complaint));
}

constexpr BadOption kBadOptions[] = {
    {"Precision", [](ModelOptions& o) { o.precision = "fp8"; }, "unknown precision 'fp8'. Known: fp32, tf32, bf16"},
    {"PrecisionOfGpu", [](ModelOptions& o) { o.precision = "tf32"; }, "tf32 needs a GPU"},
    {"MemoryFormat", [](ModelOptions& o) { o.memory_format = "nhwc"; }, "unknown memory format 'nhwc'"},
    {"ImageSizeOfNoWholeFactor",
     [](ModelOptions& o) {
         o.image_size = 70;
         o.leave_out_enlargement = true;
     },
     "image size 70 is not a multiple of 8"},
    {"Batch", [](ModelOptions& o) { o.batch = 0; }, "batch size is 0"},
    {"ImageSize", [](ModelOptions& o) { o.image_size = 7; }, "image size 7"},
    {"Device", [](ModelOptions& o) { o.device_index = 99; }, "cuda:99", ErrorKind::DeviceUnsupported},
    {"Weights", [](ModelOptions& o) { o.weights = "/nowhere.safetensors"; }, "/nowhere.safetensors",
     ErrorKind::BadInput},
};
INSTANTIATE_TEST_SUITE_P(Options, DeepLabV3BadOption, testing::ValuesIn(kBadOptions),
                         [](const auto& parameter) { return std::string(parameter.param.why); });

}  // namespace
}  // namespace offramp
