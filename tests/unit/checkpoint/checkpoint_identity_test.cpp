#include "producer/runner/checkpoint/checkpoint_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "common/base/error.hpp"
#include "tests/contract/processors/processor_world.hpp"

namespace offramp {
namespace {

RunConfig base() {
    RunConfig config;
    config.source = "synthetic";
    config.model = "copy";
    config.batch = 8;
    config.processor = "checksum";
    return config;
}

CheckpointIdentity of(const RunConfig& config) { return CheckpointIdentity::of(config, 100, "hash"); }

TEST(CheckpointIdentity, NamesAnOutputChangingSettingWithBothValues) {
    RunConfig other = base();
    other.batch = 4;
    other.seed = 3;
    EXPECT_EQ(of(other).difference_from(of(base())), "--batch was 8 and is 4, --seed was 0 and is 3");
    EXPECT_EQ(CheckpointIdentity::of(base(), 99, "hash").difference_from(of(base())), "items was 100 and is 99");
    EXPECT_EQ(CheckpointIdentity::of(base(), 100, "other").difference_from(of(base())),
              "names of the items was hash and is other");
}

TEST(CheckpointIdentity, IncludesThePartOfTheInput) {
    RunConfig previous = base();
    previous.shard = "1/4";
    RunConfig other = base();
    other.shard = "2/4";
    EXPECT_EQ(of(other).difference_from(of(previous)), "--shard was 1/4 and is 2/4");
}

TEST(CheckpointIdentity, IncludesALimitThroughTheItems) {
    RunConfig other = base();
    other.limit = 100;
    EXPECT_EQ(of(other), of(base()));
}

TEST(CheckpointIdentity, IncludesThePartOfAPictureThatAModelSees) {
    RunConfig previous = base();
    previous.model = "cutout";
    previous.source = "images";
    previous.image_size = 256;
    RunConfig other = previous;
    previous.interpolation = other.interpolation = "bilinear";
    other.resize_size = 288;
    EXPECT_EQ(of(other).difference_from(of(previous)), "--resize-size was none and is 288");
    other.resize_size = 0;
    other.interpolation = "bicubic";
    EXPECT_EQ(of(other).difference_from(of(previous)), "--interpolation was none and is bicubic");
    other.source = previous.source = "npy";
    EXPECT_EQ(of(other).difference_from(of(previous)), "") << "there are no pictures";
}

TEST(CheckpointIdentity, IgnoresHowOutputsAreComputed) {
    RunConfig other = base();
    other.run_id = "another";
    other.run_dir = "/elsewhere";
    other.output = "/moved";
    other.consumers = 7;
    other.catalogue.put("strategy", "pool");
    other.slabs = 9;
    other.device = "cpu";
    other.resume = true;
    other.durable = true;
    other.prefetch = 9;
    EXPECT_EQ(of(other).difference_from(of(base())), "");
    EXPECT_EQ(of(other), of(base()));
}

TEST(CheckpointIdentity, IncludesTheChosenProcessorsSettings) {
    RunConfig config = base();
    config.processor = "mask-png";
    RunConfig other = config;
    other.catalogue.put("png-level", 9);
    EXPECT_EQ(of(other), of(config)) << "the same pixels in fewer bytes";
    other.catalogue.put("truncate-dim", 64);
    EXPECT_EQ(of(other), of(config)) << "there are no vectors";
    for (const char* vectors : {"embeddings-sqlite", "embeddings-parquet"}) {
        config.processor = other.processor = vectors;
        EXPECT_EQ(of(other).difference_from(of(config)), "--truncate-dim was 0 and is 64");
    }
    config.processor = other.processor = "embeddings-postgres";
    other.sink = "postgres://u:secret@elsewhere/d";  // consumers identify their table at any address
    EXPECT_EQ(of(other).difference_from(of(config)), "--truncate-dim was 0 and is 64");
    other = config;
    other.sink_table = "others";
    EXPECT_EQ(of(other).difference_from(of(config)), "--sink-table was embeddings and is others");
    other.sink_table = "embeddings";
    EXPECT_EQ(of(other), of(config)) << "the same table, named";
    config.processor = other.processor = "npy,records-postgres";
    EXPECT_EQ(of(other).difference_from(of(config)), "--sink-table was records and is embeddings");
    config.catalogue.put("http-url", "http://one");
    other.catalogue.put("http-url", "http://two");
    other.catalogue.put("http-header", "Authorization: another");
    config.processor = other.processor = "http";
    EXPECT_EQ(of(other).difference_from(of(config)), "--http-url was http://one and is http://two");
}

TEST(CheckpointIdentity, IncludesTheBatchSizeWhereResultsShowIt) {
    RunConfig config = base();
    config.source = "images";
    config.model = "cutout";
    config.processor = "mask-png";
    RunConfig other = config;
    other.batch = 2;
    EXPECT_EQ(of(other), of(config));
    config.processor = other.processor = "mask-png,checksum";  // its lines contain the batch number
    EXPECT_EQ(of(other).difference_from(of(config)), "--batch was 8 and is 2");
}

TEST(CheckpointIdentity, ExcludesAUrlsQueryAndDoesNotShowIt) {
    RunConfig config = base();
    config.processor = "http";
    config.catalogue.put("http-url", "https://host/path?key=SECRET");
    EXPECT_EQ(of(config).facts.at("--http-url"), "https://host/path");
    RunConfig other = config;
    for (const char* url : {"https://host/path?key=OTHER", "https://host/path"}) {
        other.catalogue.put("http-url", url);
        EXPECT_EQ(of(other), of(config)) << url;
    }
    other.catalogue.put("http-url", "https://host/other?key=SECRET");
    EXPECT_EQ(of(other).difference_from(of(config)), "--http-url was https://host/path and is https://host/other");
}

TEST(CheckpointIdentity, IdentifiesWeightsByTheirBytes) {
    const test::ScratchFolder folder;
    std::ofstream(folder.path() + "/a") << "weights";
    std::ofstream(folder.path() + "/b") << "weights";
    std::ofstream(folder.path() + "/c") << "Weights";
    RunConfig config = base();
    config.model = "deeplabv3-resnet50";
    config.weights = folder.path() + "/a";
    RunConfig moved = config;
    moved.weights = folder.path() + "/b";
    RunConfig others = config;
    others.weights = folder.path() + "/c";
    RunConfig none = config;
    none.weights.clear();
    EXPECT_EQ(of(moved), of(config));
    EXPECT_NE(of(others).difference_from(of(config)).find("weights was "), std::string::npos);
    EXPECT_NE(of(none).difference_from(of(config)).find("and is none"), std::string::npos);
    config.weights = folder.path() + "/gone";
    EXPECT_THROW(of(config), SystemError);
}

}  // namespace
}  // namespace offramp
