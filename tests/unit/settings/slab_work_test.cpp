#include "common/app/settings/kept_settings.hpp"

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

TEST(SlabWork, OmitsSettingsThatChangeNoResult) {
    RunConfig config = masks();
    config.consumers = 7;
    config.window = 3;
    config.catalogue.put("png-level", 9);
    config.catalogue.put("normalize", true);  // for vectors, which this processor does not make
    config.run_dir = "/tmp/run";
    EXPECT_EQ(SlabWork::of(config), SlabWork::of(masks()));
    EXPECT_EQ(SlabWork::of(config).hash(), SlabWork::of(masks()).hash());
}

TEST(SlabWork, NamesAResultChangingSettingWithBothValues) {
    const auto difference = [](const RunConfig& config) {
        EXPECT_NE(SlabWork::of(config).hash(), SlabWork::of(masks()).hash());
        return SlabWork::difference(config, masks());
    };
    RunConfig config = masks();
    config.output = "/tmp/typo";
    EXPECT_EQ(difference(config), "--output is '/tmp/typo' and should be '/tmp/masks'");
    config = masks();
    config.catalogue.put("mask-size", "model");
    EXPECT_EQ(difference(config), "--mask-size is 'model' and should be 'image'");
    config = masks();
    config.scores = "logit";
    EXPECT_EQ(difference(config), "--scores is 'logit' and should be 'auto'");
    config = masks();
    config.durable = true;
    EXPECT_EQ(difference(config), "--durable is 'true' and should be 'false'");
    config = masks();
    config.processor = "mask-png,npy";
    EXPECT_EQ(difference(config), "--processor is 'mask-png,npy' and should be 'mask-png'");
    config = masks();
    config.processor = "embeddings-postgres";
    config.sink = "postgres://host/vectors";
    EXPECT_NE(difference(config).find("--sink is 'postgres://host/vectors' and should be nothing"), std::string::npos);
}

TEST(SlabWork, IncludesTheInputWhereResultsNeedItsPictures) {
    for (const char* processor : {"auto", "mask-png", "mask-rle", "cut-out"}) {
        RunConfig config = masks(), other = masks();
        config.processor = other.processor = processor;
        config.input = "/tmp/pictures";
        other.input = "/tmp/others";
        EXPECT_EQ(SlabWork::difference(other, config), "--input is '/tmp/others' and should be '/tmp/pictures'")
            << processor;
        for (RunConfig* const each : {&config, &other}) each->catalogue.put("mask-size", "model");
        EXPECT_EQ(SlabWork::of(other) == SlabWork::of(config), config.processor != "cut-out") << processor;
    }
}

TEST(SlabWork, RecognisesAFolderByEachOfItsNames) {
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

TEST(SlabWork, IncludesTheCutWhereResultsNeedThePictures) {
    RunConfig config = masks();
    config.input = "/tmp/pictures";
    config.image_size = 224;
    config.resize_size = 256;
    for (const char* processor : {"mask-png", "cut-out", "overlay"}) {
        config.processor = processor;
        RunConfig other = config;
        other.image_size = 192;
        EXPECT_EQ(SlabWork::difference(other, config), "--image-size is '192' and should be '224'") << processor;
        EXPECT_NE(SlabWork::of(other).hash(), SlabWork::of(config).hash());
        other = config;
        other.resize_size = 0;
        EXPECT_EQ(SlabWork::difference(other, config), "--resize-size is '0' and should be '256'") << processor;
        EXPECT_NE(SlabWork::of(other).hash(), SlabWork::of(config).hash());
    }
    config.processor = "npy";
    RunConfig other = config;
    other.image_size = 192;
    EXPECT_EQ(SlabWork::of(other), SlabWork::of(config)) << "it sees only the model's output";
}

TEST(SlabWork, ExcludesAUrlsQueryAndDoesNotShowIt) {
    RunConfig config = masks();
    config.processor = "http";
    config.catalogue.put("http-url", "https://host/in?key=SECRET");
    RunConfig other = config;
    other.catalogue.put("http-url", "https://host/in?key=OTHER");
    EXPECT_EQ(SlabWork::of(other).hash(), SlabWork::of(config).hash());
    other.catalogue.put("http-url", "https://host/other?key=SECRET");
    EXPECT_EQ(SlabWork::difference(other, config),
              "--http-url is 'https://host/other' and should be 'https://host/in'");
}

}  // namespace
}  // namespace offramp
