#include "producer/runner/models/model_metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.hpp"
#include "producer/runner/run/defaults.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& text) {
    try {
        (void)parse_model_metadata(text, "net.toml");
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Config);
        return error.what();
    }
    return "no error";
}

TEST(ModelMetadata, DefaultToTorchvisions) {
    const ModelMetadata metadata = parse_model_metadata("# nothing\n", "net.toml");
    EXPECT_THAT(metadata.mean, ElementsAre(0.485F, 0.456F, 0.406F));
    EXPECT_THAT(metadata.std, ElementsAre(0.229F, 0.224F, 0.225F));
    EXPECT_EQ(metadata.batch, 0U);
    EXPECT_EQ(metadata.height, 0U);
    EXPECT_EQ(metadata.colour_order, "rgb");
    EXPECT_EQ(metadata.memory_format, "contiguous");
    EXPECT_TRUE(metadata.takes_pictures());
    EXPECT_EQ(metadata.scores, "");
    EXPECT_FALSE(metadata.random_weights);
}

TEST(ModelMetadata, AcceptAnyLengthForAModelOfTexts) {
    const std::string tokens = "input-dtype = \"int32\"\ninput-shape = \"2x128\"\n";
    EXPECT_FALSE(parse_model_metadata(tokens, "net.toml").any_length);
    EXPECT_TRUE(parse_model_metadata(tokens + "any-length = true\n", "net.toml").any_length);
    EXPECT_TRUE(
        parse_model_metadata("any-length = true\n[[input]]\nname = \"a\"\ntokens = \"ids\"\nshape = 16\n", "net.toml")
            .any_length);
    EXPECT_THAT(error_of("batch = 4\nany-length = true\n"),
                HasSubstr("net.toml:2: any-length is true, and the model takes no tokens"));
    EXPECT_THAT(error_of("input-dtype = \"int32\"\ninput-shape = \"2x3\"\nany-length = true\n"),
                HasSubstr("takes fewer than 4 tokens"));
    EXPECT_THAT(error_of("any-length = 1\n"), HasSubstr("Accepted: true, false"));
}

TEST(ModelMetadata, HaveEveryKey) {
    const ModelMetadata metadata = parse_model_metadata(
        "batch = 8\nimage-size = \"384x512\"\ninput-dtype = \"bfloat16\"\nmean = \"0, 0.5,1\"\nstd = \"1,2, 3\"\n"
        "precision = \"bf16\"\ncolour-order = \"bgr\"\nmemory-format = \"channels-last\"\noutputs = \"out, "
        "aux\"\nscores = \"logit\"\nrandom-weights = true\n",
        "net.toml");
    EXPECT_EQ(metadata.file, "net.toml");
    EXPECT_EQ(metadata.batch, 8U);
    EXPECT_EQ(metadata.height, 384U);
    EXPECT_EQ(metadata.width, 512U);
    EXPECT_EQ(metadata.input_dtype, "bfloat16");
    EXPECT_EQ(metadata.precision, "bf16");
    EXPECT_THAT(metadata.mean, ElementsAre(0.0F, 0.5F, 1.0F));
    EXPECT_THAT(metadata.std, ElementsAre(1.0F, 2.0F, 3.0F));
    EXPECT_EQ(metadata.colour_order, "bgr");
    EXPECT_EQ(metadata.memory_format, "channels-last");
    EXPECT_THAT(metadata.outputs, ElementsAre("out", "aux"));
    EXPECT_EQ(metadata.scores, "logit");
    EXPECT_TRUE(metadata.random_weights);
    EXPECT_THAT(parse_model_metadata("image-size = 520", "n").width, 520U);
    EXPECT_EQ(parse_model_metadata("image-size = 224\nresize-size = 256", "n").resize_size, 256U);
    EXPECT_EQ(parse_model_metadata("interpolation = \"bicubic\"", "n").interpolation, "bicubic");
    const ModelMetadata any = parse_model_metadata("input-shape = \"1x?x16x?\"", "n");
    EXPECT_THAT(any.input_shape, ElementsAre(1, kVarying, 16, kVarying));
    EXPECT_TRUE(any.takes_any_shape());
    for (const char* shape : {"1x??", "1?", "x?", "?,?", "1x?x"})
        EXPECT_THAT(error_of(std::string("input-shape = \"") + shape + "\""), HasSubstr("\"1x?x?\" if samples differ"));
    EXPECT_THAT(error_of("input-dtype = \"int32\"\ninput-shape = \"2x?\""), HasSubstr("2xLENGTH"));
    EXPECT_THAT(parse_model_metadata("output-shapes = \"4, ?x6\"", "n").output_shapes,
                ElementsAre(ElementsAre(4), ElementsAre(kVarying, 6)));
    EXPECT_THAT(parse_model_metadata("output-shapes = \"?x4, ()\"", "n").output_shapes,
                ElementsAre(ElementsAre(kVarying, 4), ElementsAre()));
    EXPECT_THAT(error_of("output-shapes = \"4, ()x6\""), HasSubstr("\"4, ()\" with one number per sample"));
    EXPECT_THAT(error_of("output-shapes = \"4,,6\""), HasSubstr("\"4, ?x6\""));
    EXPECT_THAT(error_of("input-dtype = \"int32\"\ninput-shape = \"2x8\"\noutput-shapes = \"4\""),
                HasSubstr("--output-tensor"));
    const ModelMetadata features = parse_model_metadata("input-shape = \"128x256\"", "n");
    EXPECT_FALSE(features.takes_any_shape());
    EXPECT_THAT(features.input_shape, ElementsAre(128, 256));
    EXPECT_FALSE(features.takes_pictures());
}

TEST(ModelMetadata, NameABadValueItsLineAndTheAcceptedOnes) {
    EXPECT_THAT(error_of("batch = 4\nmeen = \"0,0,0\""),
                AllOf(HasSubstr("net.toml:2"), HasSubstr("'meen'"), HasSubstr("Did you mean mean?")));
    EXPECT_THAT(error_of("crop = 224"), AllOf(HasSubstr("'crop'"), HasSubstr("image-size")));
    for (const char* line : {"batch = 0",
                             "batch = \"4\"",
                             "batch = 65537",
                             "image-size = 0",
                             "image-size = \"8193\"",
                             "image-size = \"12x\"",
                             "image-size = \"x12\"",
                             "resize-size = 31",
                             "resize-size = 8193",
                             "resize-size = \"256\"",
                             "interpolation = \"nearest\"",
                             "mean = \"0.5, 0.5\"",
                             "mean = \"a,b,c\"",
                             "mean = \"nan,0,0\"",
                             "mean = 0.5",
                             "std = \"1,0,1\"",
                             "std = \"-1,1,1\"",
                             "colour-order = \"grb\"",
                             "memory-format = \"planes\"",
                             "precision = \"fp16\"",
                             "input-dtype = \"float64\"",
                             "input-shape = \"128,256\"",
                             "outputs = \"\"",
                             "outputs = \"out,,aux\"",
                             "random-weights = 1",
                             "scores = \"sigmoid\""})
        EXPECT_THAT(error_of(line), AllOf(HasSubstr("net.toml:1: "), HasSubstr("Accepted: "))) << line;
}

TEST(ModelMetadata, TheMiddleIsASquareWithinThePicture) {
    EXPECT_THAT(error_of("batch = 1\nresize-size = 48\nimage-size = 64"),
                AllOf(HasSubstr("net.toml:2: resize-size is 48, and image-size 64x64 cannot be cut from its middle"),
                      HasSubstr("a square image-size of 32 to 48")));
    EXPECT_THAT(error_of("image-size = \"384x512\"\nresize-size = 520"), HasSubstr("net.toml:2: "));
    EXPECT_THAT(error_of("image-size = 31\nresize-size = 520"), HasSubstr("31x31 cannot be cut from its middle"));
    EXPECT_EQ(error_of("image-size = 520\nresize-size = 520"), "no error");
    EXPECT_EQ(error_of("resize-size = 256"), "no error") << "a run may set the size";
}

TEST(ModelMetadata, TokensAreIdsAndMask) {
    const ModelMetadata metadata = parse_model_metadata("input-dtype = \"int32\"\ninput-shape = \"2x128\"", "net.toml");
    EXPECT_TRUE(metadata.takes_tokens());
    EXPECT_THAT(metadata.input_shape, ElementsAre(2, 128));
    for (const char* shape :
         {"", "\ninput-shape = \"128\"", "\ninput-shape = \"3x128\"", "\ninput-shape = \"2x2x128\""})
        EXPECT_THAT(error_of(std::string("batch = 1\ninput-dtype = \"int32\"") + shape),
                    AllOf(HasSubstr("net.toml:2: "), HasSubstr("input-shape"), HasSubstr("2xLENGTH")))
            << shape;
}

TEST(ModelMetadata, SeveralInputsAreTablesInTheirOrder) {
    const ModelMetadata arrays = parse_model_metadata(
        "batch = 4\n[[input]]\nname = \"features\"\nshape = \"3x16\"\n[[input]]\nname = \"ids\"\nshape = 5\ndtype = "
        "\"int64\"\n[[input]]\nname = \"scale\"\ndtype = \"bool\"",
        "net.toml");
    EXPECT_TRUE(arrays.takes_arrays());
    EXPECT_FALSE(arrays.takes_tokens());
    EXPECT_FALSE(arrays.takes_pictures());
    ASSERT_EQ(arrays.inputs.size(), 3U);
    EXPECT_EQ(arrays.inputs[0].name, "features");
    EXPECT_THAT(arrays.inputs[0].shape, ElementsAre(3, 16));
    EXPECT_EQ(arrays.inputs[0].dtype, kFloat32);
    EXPECT_THAT(arrays.inputs[1].shape, ElementsAre(5));
    EXPECT_EQ(arrays.inputs[1].dtype, kInt64);
    EXPECT_THAT(arrays.inputs[2].shape, ElementsAre()) << "one number per sample";
    const ModelMetadata tokens = parse_model_metadata(
        "[[input]]\nname = \"input_ids\"\ntokens = \"ids\"\nshape = 128\n[[input]]\nname = \"mask\"\ntokens = "
        "\"mask\"\nshape = 128\ndtype = \"float32\"\n",
        "net.toml");
    EXPECT_TRUE(tokens.takes_tokens());
    EXPECT_FALSE(tokens.takes_arrays());
    EXPECT_EQ(tokens.token_length(), 128);
    EXPECT_EQ(tokens.inputs[0].dtype, kInt64) << "the type of tokenizers";
    EXPECT_EQ(tokens.inputs[1].dtype, kFloat32);
    EXPECT_EQ(parse_model_metadata("input-dtype = \"int32\"\ninput-shape = \"2x77\"", "n").token_length(), 77);
    for (const char* const name :
         {"float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"})
        EXPECT_TRUE(input_dtype_named(name)) << name;
}

TEST(ModelMetadata, NameABadInputItsLineAndTheAcceptedValues) {
    const std::string begun = "[[input]]\nname = \"x\"\n";
    for (const char* const line : {"name = \"\"", "name = \".x\"", "name = \"a/b\"", "name = 3", "tokens = \"words\"",
                                   "shape = \"3x\"", "shape = 0", "shape = 65537", "shape = \"65536x65536\"",
                                   "shape = \"2,3\"", "shape = 1.5", "dtype = \"complex64\"", "dtype = 32"})
        EXPECT_THAT(error_of(std::string("[[input]]\n") + line),
                    AllOf(HasSubstr("net.toml:2: "), HasSubstr("Accepted: ")))
            << line;
    EXPECT_THAT(error_of(begun + "dtyp = \"int64\""),
                AllOf(HasSubstr("net.toml:3: 'dtyp' is not a key of an input"), HasSubstr("Did you mean dtype?")));
    EXPECT_THAT(error_of(begun + "precision = \"fp32\""),
                AllOf(HasSubstr("net.toml:3: 'precision'"), HasSubstr("above the first [[input]]")));
    EXPECT_THAT(error_of("\n[[input]]\nshape = 3"), AllOf(HasSubstr("net.toml:2: "), HasSubstr("has no name")));
    EXPECT_THAT(error_of(begun + begun), AllOf(HasSubstr("net.toml:3: "), HasSubstr("a second input is called 'x'")));
    EXPECT_THAT(error_of("[input]"), AllOf(HasSubstr("net.toml:1: "), HasSubstr("Known: [[input]]")));
    for (const char* const key : {"input-shape = \"3\"", "input-dtype = \"float32\"", "image-size = 32",
                                  "mean = \"0,0,0\"", "colour-order = \"bgr\""})
        EXPECT_THAT(error_of(std::string(key) + "\n" + begun),
                    AllOf(HasSubstr("net.toml:1: "), HasSubstr("does not go with [[input]] in line 2")))
            << key;
    const std::string ids = "[[input]]\nname = \"ids\"\ntokens = \"ids\"\n";
    EXPECT_THAT(error_of(ids),
                AllOf(HasSubstr("net.toml:1: "), HasSubstr("shape is not given"), HasSubstr("shape = LENGTH")));
    EXPECT_THAT(error_of(ids + "shape = \"2x3\""), HasSubstr("of another form"));
    EXPECT_THAT(error_of(ids + "shape = 3\ndtype = \"float32\""),
                AllOf(HasSubstr("dtype is float32"), HasSubstr("int64, int32")));
    EXPECT_THAT(error_of(ids + "shape = 3\n" + begun),
                AllOf(HasSubstr("net.toml:5: "), HasSubstr("one has tokens and the other one is an array")));
    EXPECT_THAT(error_of(ids + "shape = 3\n[[input]]\nname = \"m\"\ntokens = \"mask\"\nshape = 4"),
                AllOf(HasSubstr("net.toml:5: "), HasSubstr("has 4 tokens, and 'ids' has 3")));
    std::string many;
    for (int i = 0; i < 17; ++i) many += "[[input]]\nname = \"x" + std::to_string(i) + "\"\n";
    EXPECT_THAT(error_of(many), AllOf(HasSubstr("net.toml:33: "), HasSubstr("more than 16")));
}

TEST(ModelMetadata, AreReadFromAFileBesideTheModel) {
    const test::ScratchFolder folder;
    const std::string& pattern = folder.path();
    EXPECT_EQ(read_model_metadata(pattern + "/net.pt2").file, pattern + "/net.toml");
    std::ofstream(pattern + "/net.toml") << "batch = 3\n";
    const ModelMetadata metadata = read_model_metadata(pattern + "/net.pt2");
    EXPECT_EQ(metadata.batch, 3U);
    EXPECT_EQ(metadata.file, pattern + "/net.toml");
    std::filesystem::create_directory(pattern + "/snapshot");
    std::filesystem::create_symlink("../net.toml", pattern + "/snapshot/net.toml");
    const ModelMetadata linked = read_model_metadata(pattern + "/snapshot/net.pt2");
    EXPECT_EQ(linked.batch, 3U);
    EXPECT_EQ(linked.file, pattern + "/snapshot/net.toml");
    std::filesystem::remove(pattern + "/net.toml");
    EXPECT_THROW((void)read_model_metadata(pattern + "/snapshot/net.pt2"), SystemError)
        << "a dangling link is an error";
}

TEST(ModelMetadata, FillUnsetFlags) {
    const ModelMetadata metadata = parse_model_metadata(
        "batch = 7\nimage-size = 384\nprecision = \"bf16\"\nmemory-format = \"channels-last\"", "net.toml");
    RunConfig config;
    config.model = "net.pt2";
    const RunConfig filled = resolve_defaults(config, {}, metadata);
    EXPECT_EQ(filled.batch, 7U);
    EXPECT_EQ(filled.image_size, 384U) << "consumers must know the model's input";
    EXPECT_EQ(filled.memory_format, "channels-last");
    EXPECT_EQ(filled.precision, "bf16");
    EXPECT_EQ(filled.processor, "auto") << "its outputs are known after loading";
    EXPECT_EQ(filled.scores, "probability");
    EXPECT_EQ(resolve_defaults(config, {}, parse_model_metadata("scores = \"logit\"", "n")).scores, "logit");
    config.batch = 2;
    config.image_size = 96;
    config.memory_format = "contiguous";
    const RunConfig resolved = resolve_defaults(config, {}, metadata);
    EXPECT_EQ(resolved.batch, 2U);
    EXPECT_EQ(resolved.image_size, 96U);
    EXPECT_EQ(resolved.memory_format, "contiguous");

    // Consumers must know the middle, and thus the size.
    const ModelMetadata middle =
        parse_model_metadata("image-size = 224\nresize-size = 256\ninterpolation = \"bicubic\"", "net.toml");
    config = {};
    config.model = "net.pt2";
    EXPECT_EQ(resolve_defaults(config, {}, middle).image_size, 224U);
    EXPECT_EQ(resolve_defaults(config, {}, middle).resize_size, 256U);
    EXPECT_EQ(resolve_defaults(config, {}, middle).interpolation, "bicubic");
    EXPECT_EQ(resolve_defaults(config, {}, {}).interpolation, "bilinear");
    config.image_size = 192;
    EXPECT_EQ(resolve_defaults(config, {}, middle).resize_size, 219U) << "the same ratio";
    config.image_size = 8192;
    EXPECT_EQ(resolve_defaults(config, {}, middle).resize_size, 8192U);
    config.image_size = 192;
    config.resize_size = 200;
    EXPECT_EQ(resolve_defaults(config, {}, middle).image_size, 192U);
    EXPECT_EQ(resolve_defaults(config, {}, middle).resize_size, 200U);

    config = {};
    config.model = "net.pt2";
    const RunConfig without = resolve_defaults(config, {.has_gpu = true, .cores = 8}, {});
    EXPECT_EQ(without.batch, 64U);
    EXPECT_EQ(without.image_size, 224U) << "the same on every machine";
    EXPECT_EQ(without.precision, "tf32");
    EXPECT_EQ(without.memory_format, "contiguous") << "the traced format, unless set";
    const ModelMetadata numbers = parse_model_metadata("input-shape = \"16\"", "n");
    EXPECT_EQ(resolve_defaults(config, {}, numbers).processor, "checksum");
    config.output = "results";
    EXPECT_EQ(resolve_defaults(config, {}, numbers).processor, "npy");
    config.output.clear();
    const ModelMetadata arrays = parse_model_metadata("[[input]]\nname = \"x\"", "n");
    EXPECT_EQ(resolve_defaults(config, {}, arrays).source, "synthetic");
    config.input = "arrays";
    EXPECT_EQ(resolve_defaults(config, {}, arrays).source, "npy");
    EXPECT_EQ(resolve_defaults(config, {}, arrays).processor, "checksum");
    config.output = "results";
    EXPECT_EQ(resolve_defaults(config, {}, arrays).processor, "npy") << "a folder is for the outputs";
    EXPECT_EQ(
        resolve_defaults(config, {}, parse_model_metadata("[[input]]\nname = \"x\"\ntokens = \"ids\"\nshape = 8", "n"))
            .source,
        "text");
}

}  // namespace
}  // namespace offramp
