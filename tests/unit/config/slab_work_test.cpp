#include "common/config/slab_work.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace offramp {
namespace {

RunConfig masks() {
    RunConfig config;
    config.processor = "mask-png";
    config.output = "/tmp/masks";
    return config;
}

TEST(SlabWork, WhatChangesNoResultIsNoneOfIt) {
    RunConfig config = masks();
    config.consumers = 7;
    config.credits = 3;
    config.png_level = 9;
    config.normalize = true;   // of vectors, which this processor does not make
    config.run_dir = "/tmp/run";
    EXPECT_EQ(SlabWork::of(config), SlabWork::of(masks()));
    EXPECT_EQ(SlabWork::of(config).hash(), SlabWork::of(masks()).hash());
}

TEST(SlabWork, WhatChangesResultsOrTheirPlaceIsNamedWithBothValues) {
    const SlabWork wanted = SlabWork::of(masks());
    const auto difference = [&wanted](const RunConfig& config) {
        EXPECT_NE(SlabWork::of(config).hash(), wanted.hash());
        return SlabWork::of(config).difference_from(wanted);
    };
    RunConfig config = masks();
    config.output = "/tmp/typo";
    EXPECT_EQ(difference(config), "--output is '/tmp/typo' and was to be '/tmp/masks'");
    config = masks();
    config.mask_size = "model";
    EXPECT_EQ(difference(config), "--mask-size is 'model' and was to be 'image'");
    config = masks();
    config.scores = "probability";
    EXPECT_EQ(SlabWork::of(config), wanted) << "as it is settled where a model's notes say nothing";
    config.scores = "logit";
    EXPECT_EQ(difference(config), "--scores is 'logit' and was to be 'probability'");
    config = masks();
    config.durable = true;
    EXPECT_EQ(difference(config), "--durable is 'true' and was to be 'false'");
    config = masks();
    config.processor = "mask-png,npy";
    EXPECT_EQ(difference(config), "--processor is 'mask-png,npy' and was to be 'mask-png'");
    config = masks();
    config.processor = "embeddings-postgres";
    config.sink = "postgres://host/vectors";
    EXPECT_NE(difference(config).find("--sink is 'postgres://host/vectors' and was to be nothing"), std::string::npos);
}

TEST(SlabWork, TheInputCountsWhereResultsAreMadeWithItsPictures) {
    for (const char* processor : {"auto", "mask-png", "mask-rle", "cut-out"}) {
        RunConfig config = masks(), other = masks();
        config.processor = other.processor = processor;
        config.input = "/tmp/pictures";
        other.input = "/tmp/others";
        EXPECT_EQ(SlabWork::of(other).difference_from(SlabWork::of(config)), "--input is '/tmp/others' and was to be '/tmp/pictures'") << processor;
        config.mask_size = other.mask_size = "model";
        EXPECT_EQ(SlabWork::of(other) == SlabWork::of(config), config.processor != "cut-out") << processor;
    }
}

TEST(SlabWork, AFolderIsTheSameByEachOfItsNames) {
    RunConfig config = masks();
    for (const std::string name : {"/tmp/masks/", "/tmp/./masks", "/tmp/other/../masks", "//tmp//masks"}) {
        config.output = name;
        EXPECT_EQ(SlabWork::of(config), SlabWork::of(masks())) << name;
    }
    config.output = "masks";
    RunConfig whole = masks();
    whole.output = std::filesystem::current_path() / "masks";
    EXPECT_EQ(SlabWork::of(config), SlabWork::of(whole));
}

TEST(SlabWork, AUrlsQueryIsNotShown) {
    RunConfig config = masks();
    config.processor = "http";
    RunConfig other = config;
    config.http_url = "https://host/a?key=SECRET";
    other.http_url = "https://host/b?key=SECRET";
    const std::string difference = SlabWork::of(config).difference_from(SlabWork::of(other));
    EXPECT_NE(difference.find("https://host/a"), std::string::npos);
    EXPECT_EQ(difference.find("SECRET"), std::string::npos);
}

}  // namespace
}  // namespace offramp
