#include "producer/runner/run/encoding_place.hpp"

#include <gmock/gmock.h>

#include "common/base/error.hpp"
#include "producer/runner/checkpoint/checkpoint_file.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::HasSubstr;

RunConfig of_pictures(const char* place) {
    RunConfig config;
    config.processor = "image";
    config.source = "images";
    config.input = "photos";
    config.catalogue.put("image-format", "jpeg");
    config.catalogue.put("picture-size", "model");
    config.catalogue.put("encode", place);
    return config;
}

void encoder_is_here() {}
void no_encoder() { throw ConfigError("nvJPEG cannot be opened", "Install it"); }

std::string settled(const RunConfig& config, void (*require_encoder)()) {
    return settle_encoding(config, require_encoder).catalogue.text("encode");
}

std::string refusal(const RunConfig& config, void (*require_encoder)() = encoder_is_here) {
    return test::error_of<ConfigError>([&] { settle_encoding(config, require_encoder); }, ErrorKind::Usage);
}

TEST(EncodingPlace, IsTheGpuWhenAskedAndPossible) {
    EXPECT_EQ(settled(of_pictures("gpu"), encoder_is_here), "gpu");
    EXPECT_EQ(settled(of_pictures("cpu"), encoder_is_here), "cpu");
    EXPECT_EQ(settled(of_pictures("auto"), no_encoder), "cpu");
    RunConfig tiles = of_pictures("gpu");
    tiles.tile = 512;
    tiles.catalogue.put("picture-size", "image");
    EXPECT_EQ(settled(tiles, encoder_is_here), "gpu") << "tiles have the model's size";
    RunConfig arrays = of_pictures("gpu");
    arrays.source = "npy";
    arrays.catalogue.put("picture-size", "image");
    EXPECT_EQ(settled(arrays, encoder_is_here), "gpu") << "arrays have no picture's size";
}

TEST(EncodingPlace, RefusesTheGpuAndNamesTheFix) {
    EXPECT_THAT(refusal(of_pictures("gpu"), no_encoder), HasSubstr("nvJPEG cannot be opened"));
    const auto with = [](auto&& change) {
        RunConfig config = of_pictures("gpu");
        change(config);
        RunConfig chosen = config;
        chosen.catalogue.put("encode", "auto");
        EXPECT_EQ(settled(chosen, encoder_is_here), "cpu");
        return refusal(config);
    };
    EXPECT_THAT(with([](RunConfig& config) { config.processor = "image,npy"; }), HasSubstr("--processor image alone"));
    EXPECT_THAT(with([](RunConfig& config) { config.processor = "mask-png"; }), HasSubstr("--processor image alone"));
    EXPECT_THAT(with([](RunConfig& config) { config.catalogue.put("image-format", "webp"); }),
                HasSubstr("Give --image-format jpeg"));
    EXPECT_THAT(with([](RunConfig& config) { config.catalogue.put("picture-size", "image"); }),
                HasSubstr("Give --picture-size model"));
    EXPECT_THAT(with([](RunConfig& config) { config.resize = "none"; }), HasSubstr("--resize"));
}

TEST(EncodingPlace, HasTheRangeOfThePixels) {
    EXPECT_FALSE(encoded_range(of_pictures("cpu")));
    RunConfig config = of_pictures("gpu");
    config.catalogue.put("image-range", "-1:1");
    ASSERT_TRUE(encoded_range(config));
    EXPECT_EQ(encoded_range(config)->black, -1);
}

TEST(EncodingPlace, IsAPartOfTheWorkThatIsResumed) {
    const auto identity = [](const char* place) { return CheckpointIdentity::of(of_pictures(place), 3, "same").facts; };
    EXPECT_NE(identity("cpu"), identity("gpu"));
    EXPECT_EQ(identity("gpu"), identity("gpu"));
}

}  // namespace
}  // namespace offramp
