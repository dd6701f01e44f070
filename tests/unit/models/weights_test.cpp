#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/unit/models/model_fixture.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

// An all-zero weight file for the encoder, with a header that a test has broken.
class EncoderWeights : public testing::Test {
  protected:
    EncoderWeights() {
        add("position", {128, 256});
        for (int i = 0; i < 4; ++i) {
            const std::string layer = "layers." + std::to_string(i) + ".";
            add(layer + "self_attn.in_proj_weight", {768, 256});
            add(layer + "self_attn.in_proj_bias", {768});
            add(layer + "self_attn.out_proj.weight", {256, 256});
            add(layer + "self_attn.out_proj.bias", {256});
            add(layer + "linear1.weight", {1024, 256});
            add(layer + "linear1.bias", {1024});
            add(layer + "linear2.weight", {256, 1024});
            add(layer + "linear2.bias", {256});
            for (const char* norm : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"})
                add(layer + norm, {256});
        }
        add("norm.weight", {256});
        add("norm.bias", {256});
        add("project.weight", {1024, 256});
        add("project.bias", {1024});
    }
    void TearDown() override { std::filesystem::remove(path_); }

    void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& dtype = "F32") {
        tensors_[name] = {{"dtype", dtype}, {"shape", shape}};
    }

    ModelOptions write() {
        std::size_t end = 0;
        for (Json& tensor : tensors_) {
            std::size_t bytes = tensor["dtype"] == "F32" || tensor["dtype"] == "I32" ? 4
                                : tensor["dtype"] == "F64"                           ? 8
                                                                                     : 2;
            for (const Json& size : tensor["shape"]) bytes *= size.get<std::size_t>();
            tensor["data_offsets"] = {end, end + bytes};
            end += bytes;
        }
        const std::string header = tensors_.dump();
        const std::uint64_t length = header.size();
        std::ofstream file(path_, std::ios::binary);
        file.write(reinterpret_cast<const char*>(&length), sizeof length) << header << std::string(end, '\0');
        return {.name = "encoder", .weights = path_};
    }

    std::string complaint() {
        try {
            (void)open_models().make(write());
        } catch (const ConfigError& error) {
            EXPECT_EQ(error.kind(), ErrorKind::BadInput);
            return error.what();
        }
        ADD_FAILURE() << "unfit weights were accepted";
        return {};
    }

    Json tensors_ = Json::object();
    std::string path_ = testing::TempDir() + "encoder_weights." + std::to_string(::getpid()) + ".safetensors";
};

TEST_F(EncoderWeights, AcceptsMatchingTensors) {
    const std::unique_ptr<Model> model = open_models().make(write());
    EXPECT_FALSE(model->random_weights());
    EXPECT_THAT(model->description(), HasSubstr("weights from " + path_));
}

TEST_F(EncoderWeights, AcceptsThoseOfAWrappedNetwork) {
    const Json plain = std::exchange(tensors_, Json::object());
    for (const auto& [name, tensor] : plain.items()) tensors_["module." + name] = tensor;
    EXPECT_NO_THROW((void)open_models().make(write()));
    tensors_["another"] = plain.begin().value();
    EXPECT_THAT(complaint(), HasSubstr("'position' F32 [128, 256]")) << "not all names have the prefix";
}

TEST_F(EncoderWeights, ConvertsOtherFloats) {
    add("norm.weight", {256}, "F16");
    add("norm.bias", {256}, "BF16");
    add("project.bias", {1024}, "F64");
    EXPECT_NO_THROW((void)open_models().make(write()));
}

TEST_F(EncoderWeights, NamesTheExpectedAndTheFoundShape) {
    add("project.weight", {256, 1024});
    EXPECT_THAT(complaint(), AllOf(HasSubstr("'project.weight': expected F32 [1024, 256], found F32 [256, 1024]"),
                                   HasSubstr(path_)));
}

TEST_F(EncoderWeights, RefusesWholeNumbers) {
    add("norm.bias", {256}, "I32");
    EXPECT_THAT(complaint(), HasSubstr("'norm.bias': expected F32 [256], found I32 [256]"));
}

TEST_F(EncoderWeights, ListsMissingAndUnexpected) {
    tensors_.erase("norm.bias");
    add("norm.beta", {256});
    EXPECT_THAT(complaint(),
                AllOf(HasSubstr("1 missing: 'norm.bias' F32 [256]"), HasSubstr("1 unexpected: 'norm.beta' F32 [256]")));
}

TEST_F(EncoderWeights, ListsTheFirstFewAndCountsTheRest) {
    for (int i = 0; i < 4; ++i) tensors_.erase("layers." + std::to_string(i) + ".linear1.bias");
    tensors_.erase("norm.bias");
    tensors_.erase("norm.weight");
    EXPECT_THAT(complaint(), AllOf(HasSubstr("6 missing"), HasSubstr("layers.3.linear1.bias"), HasSubstr("and 2 more"),
                                   Not(HasSubstr("'norm.weight'"))));
}

}  // namespace
}  // namespace offramp
