#include "producer/runner/models/model_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/base/error.hpp"
#include "common/safetensors/safetensors_file.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

class ModelFile : public testing::Test {
  protected:
    // A file with one tensor of four zeros.
    std::string write(const std::string& name, const std::string& tensor,
                      const std::map<std::string, std::string>& metadata = {}) {
        const TensorEntry entry{.name = tensor, .dtype = "F32", .shape = {1}, .bytes = 4};
        std::ofstream(folder_ + "/" + name, std::ios::binary)
            << safetensors_header({&entry, 1}, metadata) << std::string(4, '\0');
        return folder_ + "/" + name;
    }

    std::string error_of(const std::string& model, const std::string& weights, ErrorKind code) {
        return test::error_of<ConfigError>([&] { (void)choose_model(model, weights, folder_); }, code);
    }

    test::ScratchFolder scratch_;
    std::string folder_ = scratch_.path();
};

TEST_F(ModelFile, ANamedModelKeepsTheGivenWeights) {
    EXPECT_EQ(choose_model("encoder", "w.safetensors", folder_), (ModelChoice{"encoder", "w.safetensors"}));
    EXPECT_EQ(choose_model("encoder", "", folder_), (ModelChoice{"encoder", ""}));
    EXPECT_EQ(choose_model("copy", "", folder_), (ModelChoice{"copy", ""}));
}

TEST_F(ModelFile, RefusesTorchSaveWeightsWithTheConversion) {
    const std::string path = folder_ + "/w.safetensors";
    std::ofstream(path, std::ios::binary) << "PK\x03\x04" << std::string(100, 'x');
    EXPECT_THAT(error_of(path, "", ErrorKind::BadInput),
                testing::AllOf(testing::HasSubstr("the weights '" + path + "'"), testing::HasSubstr("ZIP archive"),
                               testing::HasSubstr("torch.load('" + path + "'"), testing::HasSubstr("--model FILE.pt")));
}

TEST_F(ModelFile, ANamedModelDefaultsToItsShippedWeights) {
    const std::string shipped = write("cutout.safetensors", "head.weight");
    EXPECT_EQ(choose_model("cutout", "", folder_), (ModelChoice{"cutout", shipped}));
    EXPECT_EQ(choose_model("cutout", "mine.safetensors", folder_), (ModelChoice{"cutout", "mine.safetensors"}));
}

TEST_F(ModelFile, AFileNamesItsModel) {
    const std::string noted = write("a.safetensors", "anything", {{"architecture", "cutout"}});
    EXPECT_EQ(choose_model(noted, "", folder_), (ModelChoice{"cutout", noted}));
}

TEST_F(ModelFile, RefusesANoteOfAModelWithoutWeights) {
    for (const char* note : {"Foo_Bar", "", "copy"}) {
        const std::string noted = write("a.safetensors", "encoder.0.weight", {{"architecture", note}});
        EXPECT_THAT(error_of(noted, "", ErrorKind::BadInput),
                    testing::HasSubstr("names the architecture '" + std::string(note) + "'"));
    }
}

TEST_F(ModelFile, RecognisesAFileWithoutANoteByItsTensors) {
    const std::map<std::string, std::string> models{{"classifier.0.convs.0.0.weight", "deeplabv3-resnet50"},
                                                    {"layers.0.self_attn.in_proj_weight", "encoder"},
                                                    {"encoder.0.weight", "cutout"}};
    for (const auto& [tensor, model] : models) {
        const std::string file = write("b.safetensors", tensor);
        EXPECT_EQ(choose_model(file, "", folder_), (ModelChoice{model, file}));
    }
}

TEST_F(ModelFile, RecognisesTheModelOfAWrappedNetwork) {
    for (const char* wrapper : {"module.", "_orig_mod.", "model.", "module._orig_mod."}) {
        const std::string file = write("b.safetensors", wrapper + std::string("encoder.0.weight"));
        EXPECT_EQ(choose_model(file, "", folder_), (ModelChoice{"cutout", file})) << wrapper;
    }
}

TEST_F(ModelFile, ReportsMissingWeightsWithEveryRemedy) {
    const ConfigError refused = no_weights("encoder");
    EXPECT_EQ(refused.kind(), ErrorKind::Usage);
    EXPECT_THAT(refused.what(), testing::AllOf(testing::HasSubstr("'encoder' is shipped without weights"),
                                               testing::HasSubstr("--weights FILE"), testing::HasSubstr("export"),
                                               testing::HasSubstr("--random-weights")));
}

TEST_F(ModelFile, AcceptsAFileOfAWholeModel) {
    for (const char* name : {"net.pt2", "net.pt"}) {
        const std::string file = folder_ + "/" + name;
        EXPECT_TRUE(is_model_file(file));
        EXPECT_THAT(error_of(file, "", ErrorKind::NoInput), testing::HasSubstr("does not exist"));
        std::ofstream(file) << "whatever it is";
        EXPECT_EQ(choose_model(file, "", folder_), (ModelChoice{file, ""}));
        EXPECT_THAT(error_of(file, "w.safetensors", ErrorKind::Usage), testing::HasSubstr("holds a whole model"));
    }
    EXPECT_FALSE(is_model_file("cutout"));
    EXPECT_FALSE(is_model_file("net.safetensors"));
}

TEST_F(ModelFile, RefusesOtherFilesByName) {
    const std::string unknown = write("c.safetensors", "anything");
    EXPECT_THAT(error_of(unknown, "", ErrorKind::BadInput), testing::HasSubstr(unknown));
    EXPECT_THAT(error_of(folder_ + "/none.safetensors", "", ErrorKind::NoInput), testing::HasSubstr("does not exist"));
    EXPECT_THAT(error_of(unknown, "w.safetensors", ErrorKind::Usage), testing::HasSubstr("w.safetensors"));
    std::ofstream(unknown) << "no weights";
    EXPECT_THAT(error_of(unknown, "", ErrorKind::BadInput), testing::HasSubstr(unknown));
}

}  // namespace
}  // namespace offramp
