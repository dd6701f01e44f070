#include "producer/runner/run/defaults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SettledMetadata : public ::testing::Test {
  protected:
    // An array without data: only the shape is read.
    RunConfig with_array(const std::string& descr, const std::string& shape, const std::string& notes = {}) const {
        std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
        const auto bytes = static_cast<char>(header.size());
        std::ofstream(folder_ / "volumes.npy", std::ios::binary)
            << std::string("\x93NUMPY\x01\x00", 8) << bytes << '\0' << header;
        std::filesystem::remove(folder_ / "net.toml");
        if (!notes.empty()) std::ofstream(folder_ / "net.toml") << notes;
        RunConfig config;
        config.model = (folder_ / "net.pt").string();
        config.input = (folder_ / "volumes.npy").string();
        return config;
    }

    test::ScratchFolder scratch_;
    std::filesystem::path folder_ = scratch_.path();
};

TEST_F(SettledMetadata, DescribeAnArraysRowsWhereTheFileDoesNot) {
    const ModelMetadata volumes = settled_metadata(with_array("<f4", "(6, 1, 32, 48, 40)"));
    EXPECT_THAT(volumes.input_shape, ElementsAre(1, 32, 48, 40));
    EXPECT_THAT(volumes.shape_from, HasSubstr("the rows of '" + folder_.string() + "/volumes.npy'"));
    EXPECT_THAT(settled_metadata(with_array("<f2", "(9, 16)")).input_shape, ElementsAre(16));
    EXPECT_THAT(settled_metadata(with_array("|u1", "(9, 5, 20, 30)")).input_shape, ElementsAre(5, 20, 30));
}

TEST_F(SettledMetadata, TakeTheSizeFromArraysOfPictures) {
    for (const auto& [descr, shape] :
         {std::pair{"<f4", "(6, 3, 20, 30)"}, {"|u1", "(6, 3, 20, 30)"}, {"|u1", "(6, 20, 30, 3)"}}) {
        const ModelMetadata pictures = settled_metadata(with_array(descr, shape));
        EXPECT_TRUE(pictures.takes_pictures()) << shape;
        EXPECT_EQ(pictures.height, 20U) << shape;
        EXPECT_EQ(pictures.width, 30U) << shape;
    }
    EXPECT_THAT(settled_metadata(with_array("<f4", "(6, 20, 30, 3)")).input_shape, ElementsAre(20, 30, 3))
        << "floats are the model's input";
}

TEST_F(SettledMetadata, KeepReportedItems) {
    RunConfig config = with_array("<f4", "(6, 1, 32, 48, 40)", "input-shape = \"8\"");
    EXPECT_THAT(settled_metadata(config).input_shape, ElementsAre(8));
    config = with_array("<f4", "(6, 3, 20, 30)", "image-size = 64");
    EXPECT_EQ(settled_metadata(config).height, 64U);
    config = with_array("<f4", "(6, 3, 20, 30)");
    config.image_size = 96;
    EXPECT_EQ(settled_metadata(config).height, 0U);
    config = with_array("<f4", "(6, 3, 20, 30)");
    config.source = "synthetic";
    EXPECT_EQ(settled_metadata(config).shape_from, "");
    config.source = "auto";
    config.model = "cutout";
    EXPECT_EQ(settled_metadata(config).shape_from, "");
}

TEST_F(SettledMetadata, LeaveOtherInputsToTheSource) {
    for (const char* shape : {"(6,)", "(6, 0, 3)", "(6, 1, 1, 1, 1, 1, 1, 1, 1)"}) {
        const ModelMetadata metadata = settled_metadata(with_array("<f4", shape));
        EXPECT_THAT(metadata.input_shape, IsEmpty()) << shape;
        EXPECT_EQ(metadata.height, 0U) << shape;
    }
    RunConfig config = with_array("<f4", "(0, 3)");
    EXPECT_THROW((void)settled_metadata(config), ConfigError);
    std::filesystem::remove(folder_ / "volumes.npy");
    config.input = folder_.string();
    config.source = "npy";
    EXPECT_THAT(settled_metadata(config).input_shape, IsEmpty());
}

TEST_F(SettledMetadata, TakeAFoldersFirstArrayAsASample) {
    RunConfig config = with_array("<f4", "(1, 32, 48, 40)");
    config.input = folder_.string();
    config.source = "npy";
    EXPECT_THAT(settled_metadata(config).input_shape, ElementsAre(1, 32, 48, 40));
    EXPECT_THAT(settled_metadata(config).shape_from, HasSubstr("volumes.npy'"));
}

}  // namespace
}  // namespace offramp
