#include "tests/unit/models/model_fixture.hpp"

namespace offramp {
namespace {

TEST(Encoder, DescribesItself) {
    const std::unique_ptr<Model> model = open_models().make({.name = "encoder", .batch = 5});
    EXPECT_EQ(model->parameters(), 3'455'488U);
    EXPECT_EQ(model->description(), "encoder, 3455488 parameters, random weights (seed 0)");
    EXPECT_EQ(model->input().kind, InputKind::Feature);
    EXPECT_EQ(model->input().tensor.describe(), "tokens float32 [5, 128, 256]");
    EXPECT_EQ(model->outputs().front().describe(), "embedding float32 [5, 1024]");
}

TEST(Encoder, EmbeddingsDifferBetweenSamples) {
    const std::unique_ptr<Model> model = open_models().make({.name = "encoder", .batch = 2});
    const std::vector<float> embeddings = answer<float>(*model, made_up_input(*model));
    const std::vector<float> first(embeddings.begin(), embeddings.begin() + 1024);
    const std::vector<float> second(embeddings.begin() + 1024, embeddings.end());
    EXPECT_GT(relative_difference(first, second), 1e-3);
}

TEST(Encoder, GivesPyTorchsEmbeddings) {
    if (!has_golden()) GTEST_SKIP() << "the tests were built without torchvision 0.26";
    const SafetensorsFile golden = open_weights(golden_path("encoder_golden"));
    ModelOptions options{.name = "encoder", .weights = golden_path("encoder_weights"), .batch = 3};
    const std::vector<float> tokens = floats_of(*golden.find("tokens"));
    const std::vector<float> embedding = floats_of(*golden.find("embedding"));
    EXPECT_LE(relative_difference(embedding, answer<float>(*open_models().make(options), tokens)), 1e-4);
    options.precision = "bf16";
    EXPECT_LE(relative_difference(embedding, answer<float>(*open_models().make(options), tokens)), 0.05);
}

TEST(Encoder, RefusesToOmitAnEnlargement) {
    const std::unique_ptr<Model> model = open_models().make({.name = "encoder", .leave_out_enlargement = true});
    EXPECT_EQ(model->upsample_factor(), 1U);
    EXPECT_EQ(model->outputs().front().describe(), "embedding float32 [1, 1024]");
}

TEST(Encoder, RefusesSettingsForImages) {
    EXPECT_THROW((void)open_models().make({.name = "encoder", .memory_format = "channels-last"}), ConfigError);
}

}  // namespace
}  // namespace offramp
