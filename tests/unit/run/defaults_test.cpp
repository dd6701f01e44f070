#include "producer/runner/run/defaults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

TEST(Defaults, KeepsTheNumberOfConsumersAtNone) {
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}).consumers, 4U);
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}, {}, {.slabs = EgressTraits::Slabs::None}).consumers,
              0U);
    EXPECT_EQ(resolve_defaults({}, {.has_gpu = true, .cores = 8}, {}, {.slabs = EgressTraits::Slabs::MadePerFilling})
                  .consumers,
              4U);
}

TEST(Defaults, UsesChannelsLastOnAGpuExceptForFp32) {
    const auto format = [](bool gpu, const char* precision) {
        RunConfig config;
        config.model = "deeplabv3-resnet50";
        config.precision = precision;
        return resolve_defaults(std::move(config), {.has_gpu = gpu, .cores = 8}).memory_format;
    };
    EXPECT_EQ(format(true, "auto"), "channels-last");
    EXPECT_EQ(format(true, "bf16"), "channels-last");
    EXPECT_EQ(format(true, "fp32"), "contiguous");
    EXPECT_EQ(format(false, "fp32"), "channels-last");
}

TEST(Defaults, AreTheSameOnEveryMachineForAModelFile) {
    RunConfig config;
    config.model = "nowhere/net.pt";
    config.input = "photos";
    for (const bool gpu : {false, true}) {
        const RunConfig resolved = resolve_defaults(config, {.has_gpu = gpu, .cores = 8});
        EXPECT_EQ(resolved.image_size, 224U);
        EXPECT_THAT(warning_about_size(config, resolved),
                    AllOf(HasSubstr("224 x 224"), HasSubstr("'nowhere/net.pt'"), HasSubstr("--image-size N"),
                          HasSubstr("image-size = N"), HasSubstr("--resize none, if it takes any size")));
        RunConfig given = config;
        given.image_size = 256;
        EXPECT_EQ(warning_about_size(given, resolve_defaults(given, {.has_gpu = gpu, .cores = 8})), "");
    }
    config.model = "deeplabv3-resnet50";
    EXPECT_THAT(warning_about_size(config, resolve_defaults(config, {.cores = 8})),
                AllOf(HasSubstr("224 x 224"), HasSubstr("--image-size N")));
    EXPECT_EQ(warning_about_size(config, resolve_defaults(config, {.has_gpu = true, .cores = 8})), "");
    config.model = "cutout";
    EXPECT_EQ(warning_about_size(config, resolve_defaults(config, {.cores = 8})), "");
}

struct Lengths : ::testing::Test {
    static RunConfig of_texts(const char* source = "text") {
        RunConfig config;
        config.model = "net.pt2";
        config.source = source;
        config.input = "lines.txt";
        return config;
    }
    static RunConfig resolved(RunConfig config) {
        return resolve_defaults(std::move(config), {.cores = 2}, metadata());
    }
    static ModelMetadata metadata() {
        ModelMetadata metadata{.file = "net.toml"};
        metadata.input_shape = {2, 128};
        metadata.input_dtype = "int32";
        metadata.any_length = true;
        return metadata;
    }
    static std::string error_of(RunConfig config, const ModelMetadata& metadata) {
        return test::error_of<ConfigError>([&] { (void)resolve_defaults(std::move(config), {.cores = 2}, metadata); });
    }
};

TEST_F(Lengths, GroupsTextsByLengthWhereTheModelAcceptsIt) {
    for (const char* source : {"text", "jsonl-text", "parquet-text"}) {
        EXPECT_EQ(resolved(of_texts(source)).batch, 1024U) << source;
        EXPECT_EQ(resolved(of_texts(source)).group_rows(), 32U) << source;
    }
    const MachineSize with_a_gpu{.has_gpu = true, .cores = 8};
    EXPECT_EQ(resolve_defaults(of_texts(), with_a_gpu, metadata()).group_rows(), 256U);
    EXPECT_EQ(resolve_defaults(of_texts(), with_a_gpu, metadata()).batch, 8192U);
    RunConfig given = of_texts();
    given.by_length = "64";
    EXPECT_EQ(resolve_defaults(given, with_a_gpu, metadata()).group_rows(), 64U) << "as set";
    EXPECT_EQ(resolve_defaults(given, with_a_gpu, metadata()).batch, 2048U);
    given.output_tensor = "tokens";
    EXPECT_EQ(resolve_defaults(given, with_a_gpu, metadata()).batch, 512U) << "a vector for each token takes more room";
    ModelMetadata one_length = metadata();
    one_length.any_length = false;
    const RunConfig as_before = resolve_defaults(of_texts(), {.cores = 2}, one_length);
    EXPECT_EQ(as_before.batch, 64U);
    EXPECT_EQ(as_before.by_length, "off");
    RunConfig off = of_texts();
    off.by_length = "off";
    EXPECT_EQ(resolved(off).batch, 64U);
    EXPECT_EQ(resolved(off).by_length, "off");
    RunConfig synthetic = of_texts("synthetic");
    synthetic.input.clear();
    EXPECT_EQ(resolved(synthetic).by_length, "off");
}

TEST(ChosenOutputs, NeedAFileWithAModel) {
    RunConfig config;
    config.model = "encoder";
    require_outputs_of_file(config);
    config.output_tensor = "tokens";
    EXPECT_THAT([&] { require_outputs_of_file(config); },
                testing::ThrowsMessage<ConfigError>(HasSubstr("--output-tensor tokens does not go with")));
    config.model = "net.pt2";
    require_outputs_of_file(config);
}

TEST_F(Lengths, ABatchConsistsOfWholeGroups) {
    const auto group = [](std::uint32_t batch) {
        RunConfig config = of_texts();
        config.batch = batch;
        return resolved(config).group_rows();
    };
    EXPECT_EQ(group(16), 16U);
    EXPECT_EQ(group(256), 32U);
    EXPECT_EQ(group(1000), 25U);
    EXPECT_EQ(group(8192), 256U);
    EXPECT_EQ(group(4099), 4099U) << "a prime";
    for (std::uint32_t batch = 1; batch < 3000; ++batch) ASSERT_EQ(batch % group(batch), 0U) << batch;
    RunConfig given = of_texts();
    given.by_length = "16";
    EXPECT_EQ(resolved(given).batch, 512U);
    ModelMetadata fixed = metadata();
    fixed.batch = 8;
    const RunConfig config = resolve_defaults(of_texts(), {.cores = 2}, fixed);
    EXPECT_EQ(config.batch, 256U);
    EXPECT_EQ(config.group_rows(), 8U);
}

TEST_F(Lengths, RefusesContradictingSettings) {
    RunConfig config = of_texts();
    config.by_length = "48";
    config.batch = 64;
    EXPECT_THAT(error_of(config, metadata()),
                HasSubstr("--batch 64 is not a multiple of 48, the texts of --by-length"));
    ModelMetadata one_length = metadata();
    one_length.any_length = false;
    EXPECT_THAT(error_of(config, one_length), HasSubstr("the model takes texts of one length only"));
    config.source = "images";
    EXPECT_THAT(error_of(config, metadata()), HasSubstr("--source 'images', which gives no texts"));
    ModelMetadata fixed = metadata();
    fixed.batch = 24;
    config = of_texts();
    config.batch = 64;
    EXPECT_THAT(error_of(config, fixed), HasSubstr("not a multiple of 24, the one batch that the model takes"));
}

TEST(BatchOfTiles, ShrinksWithLargeTilesUnlessSet) {
    const auto batch_of = [](std::uint32_t tile, bool gpu, std::uint32_t given = 0, std::uint32_t of_model = 0) {
        RunConfig config;
        config.source = "images";
        config.model = "net.pt2";
        config.tile = tile;
        config.batch = given;
        ModelMetadata metadata{.file = "net.toml"};
        metadata.batch = of_model;
        return resolve_defaults(config, {.has_gpu = gpu, .cores = 2}, metadata).batch;
    };
    for (const auto& [tile, cpu, gpu] :
         {std::tuple{256U, 4U, 64U}, {1024U, 4U, 64U}, {2048U, 4U, 16U}, {4096U, 1U, 4U}, {16384U, 1U, 1U}}) {
        EXPECT_EQ(batch_of(tile, false), cpu) << tile;
        EXPECT_EQ(batch_of(tile, true), gpu) << tile;
    }
    EXPECT_EQ(batch_of(8192, false, 3), 3U);
    EXPECT_EQ(batch_of(8192, false, 0, 2), 2U);
}

TEST(BatchOfTiles, ShrinksWithTheBytesOfBands) {
    RunConfig config;
    config.source = "images";
    config.model = "net.pt2";
    config.tile = 512;
    ModelMetadata metadata{.file = "net.toml"};
    metadata.input_shape = {13, 512, 512};
    EXPECT_EQ(resolve_defaults(config, {.has_gpu = true, .gpu_decodes = true, .cores = 2}, metadata).batch, 14U);
    EXPECT_EQ(resolve_defaults(config, {.cores = 2}, metadata).batch, 3U);
    config.tile = 0;
    EXPECT_EQ(resolve_defaults(config, {.has_gpu = true, .gpu_decodes = true, .cores = 2}, metadata).decode, "cpu");
}

}  // namespace
}  // namespace offramp
