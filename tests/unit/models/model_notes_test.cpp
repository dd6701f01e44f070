#include "producer/models/model_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.hpp"
#include "producer/defaults.hpp"

namespace offramp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& text) {
    try {
        (void)parse_model_notes(text, "net.toml");
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::Config);
        return error.what();
    }
    return "no error";
}

TEST(ModelNotes, AreTorchvisionsDefaultsWhereNothingIsSaid) {
    const ModelNotes notes = parse_model_notes("# nothing\n", "net.toml");
    EXPECT_THAT(notes.mean, ElementsAre(0.485F, 0.456F, 0.406F));
    EXPECT_THAT(notes.std, ElementsAre(0.229F, 0.224F, 0.225F));
    EXPECT_EQ(notes.batch, 0U);
    EXPECT_EQ(notes.height, 0U);
    EXPECT_EQ(notes.colour_order, "rgb");
    EXPECT_EQ(notes.memory_format, "contiguous");
    EXPECT_TRUE(notes.takes_pictures());
    EXPECT_FALSE(notes.random_weights);
}

TEST(ModelNotes, EveryKeyIsRead) {
    const ModelNotes notes = parse_model_notes(
        "batch = 8\nimage-size = \"384x512\"\ninput-dtype = \"bfloat16\"\nmean = \"0, 0.5,1\"\nstd = \"1,2, 3\"\n"
        "precision = \"bf16\"\ncolour-order = \"bgr\"\nmemory-format = \"channels-last\"\noutputs = \"out, aux\"\nrandom-weights = true\n",
        "net.toml");
    EXPECT_EQ(notes.file, "net.toml");
    EXPECT_EQ(notes.batch, 8U);
    EXPECT_EQ(notes.height, 384U);
    EXPECT_EQ(notes.width, 512U);
    EXPECT_EQ(notes.input_dtype, "bfloat16");
    EXPECT_EQ(notes.precision, "bf16");
    EXPECT_THAT(notes.mean, ElementsAre(0.0F, 0.5F, 1.0F));
    EXPECT_THAT(notes.std, ElementsAre(1.0F, 2.0F, 3.0F));
    EXPECT_EQ(notes.colour_order, "bgr");
    EXPECT_EQ(notes.memory_format, "channels-last");
    EXPECT_THAT(notes.outputs, ElementsAre("out", "aux"));
    EXPECT_TRUE(notes.random_weights);
    EXPECT_THAT(parse_model_notes("image-size = 520", "n").width, 520U);
    const ModelNotes features = parse_model_notes("input-shape = \"128x256\"", "n");
    EXPECT_THAT(features.input_shape, ElementsAre(128, 256));
    EXPECT_FALSE(features.takes_pictures());
}

TEST(ModelNotes, WhatIsWrongIsNamedWithItsLineAndWhatIsAccepted) {
    EXPECT_THAT(error_of("batch = 4\nmeen = \"0,0,0\""), AllOf(HasSubstr("net.toml:2"), HasSubstr("'meen'"), HasSubstr("Did you mean mean?")));
    EXPECT_THAT(error_of("crop = 224"), AllOf(HasSubstr("'crop'"), HasSubstr("image-size")));
    for (const char* line : {"batch = 0", "batch = \"4\"", "batch = 65537", "image-size = 0", "image-size = \"8193\"", "image-size = \"12x\"",
                             "image-size = \"x12\"", "mean = \"0.5, 0.5\"", "mean = \"a,b,c\"", "mean = \"nan,0,0\"", "mean = 0.5", "std = \"1,0,1\"",
                             "std = \"-1,1,1\"", "colour-order = \"grb\"", "memory-format = \"planes\"", "precision = \"fp16\"", "input-dtype = \"float64\"",
                             "input-shape = \"128,256\"", "outputs = \"\"", "outputs = \"out,,aux\"", "random-weights = 1"})
        EXPECT_THAT(error_of(line), AllOf(HasSubstr("net.toml:1: "), HasSubstr("Accepted: "))) << line;
}

TEST(ModelNotes, TokensAreIdsAndMask) {
    const ModelNotes notes = parse_model_notes("input-dtype = \"int32\"\ninput-shape = \"2x128\"", "net.toml");
    EXPECT_TRUE(notes.takes_tokens());
    EXPECT_THAT(notes.input_shape, ElementsAre(2, 128));
    for (const char* shape : {"", "\ninput-shape = \"128\"", "\ninput-shape = \"3x128\"", "\ninput-shape = \"2x2x128\""})
        EXPECT_THAT(error_of(std::string("batch = 1\ninput-dtype = \"int32\"") + shape),
                    AllOf(HasSubstr("net.toml:2: "), HasSubstr("input-shape"), HasSubstr("2xLENGTH")))
            << shape;
}

TEST(ModelNotes, StandBesideTheModel) {
    std::string pattern = (std::filesystem::temp_directory_path() / "offramp-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    EXPECT_EQ(read_model_notes(pattern + "/net.pt2").file, "");
    std::ofstream(pattern + "/net.toml") << "batch = 3\n";
    const ModelNotes notes = read_model_notes(pattern + "/net.pt2");
    EXPECT_EQ(notes.batch, 3U);
    EXPECT_EQ(notes.file, pattern + "/net.toml");
    std::filesystem::create_directory(pattern + "/snapshot");
    std::filesystem::create_symlink("../net.toml", pattern + "/snapshot/net.toml");
    const ModelNotes linked = read_model_notes(pattern + "/snapshot/net.pt2");
    EXPECT_EQ(linked.batch, 3U);
    EXPECT_EQ(linked.file, pattern + "/snapshot/net.toml");
    std::filesystem::remove(pattern + "/net.toml");
    EXPECT_THROW((void)read_model_notes(pattern + "/snapshot/net.pt2"), SystemError) << "a link to nothing is no absence of notes";
    std::filesystem::remove_all(pattern);
}

TEST(ModelNotes, FillWhatTheFlagsDidNotSay) {
    const ModelNotes notes = parse_model_notes("batch = 7\nimage-size = 384\nprecision = \"bf16\"\nmemory-format = \"channels-last\"", "net.toml");
    RunConfig config;
    config.model = "net.pt2";
    const RunConfig filled = resolve_defaults(config, {}, notes);
    EXPECT_EQ(filled.batch, 7U);
    EXPECT_EQ(filled.image_size, 0U) << "the notes' own";
    EXPECT_EQ(filled.memory_format, "channels-last");
    EXPECT_EQ(filled.precision, "bf16");
    EXPECT_EQ(filled.processor, "mask-png");
    config.batch = 2;
    config.image_size = 96;
    config.memory_format = "contiguous";
    const RunConfig said = resolve_defaults(config, {}, notes);
    EXPECT_EQ(said.batch, 2U);
    EXPECT_EQ(said.image_size, 96U);
    EXPECT_EQ(said.memory_format, "contiguous");

    config = {};
    config.model = "net.pt2";
    const RunConfig without = resolve_defaults(config, {.has_gpu = true, .cores = 8}, {});
    EXPECT_EQ(without.batch, 64U);
    EXPECT_EQ(without.image_size, 512U);
    EXPECT_EQ(without.precision, "tf32");
    EXPECT_EQ(without.memory_format, "contiguous") << "what a model was traced with, as long as nobody says otherwise";
    EXPECT_EQ(resolve_defaults(config, {}, parse_model_notes("input-shape = \"16\"", "n")).processor, "checksum");
}

}  // namespace
}  // namespace offramp
