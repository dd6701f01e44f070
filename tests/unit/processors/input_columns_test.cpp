#include "consumer/processors/records/input_columns.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "common/app/images/picture_list.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/error.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

struct OfAManifest : testing::Test {
    OfAManifest() {
        folder.write("photos/a.png", encode_png({8, 4}, gradient({8, 4}, 1)));
        folder.write("photos/b.png", encode_png({5, 5}, gradient({5, 5}, 2)));
        config.input =
            folder.write("list.jsonl",
                         "{\"id\":\"7/chair\",\"uri\":\"photos/"
                         "b.png\",\"label\":\"chair\",\"price\":12}\nbad\n{\"id\":\"8\",\"uri\":\"photos/a.png\"}\n");
    }

    template <class Work>
    static std::string refusal(Work&& work, ErrorKind kind = ErrorKind::NoInput) {
        return test::error_of([&] { work(); }, kind);
    }

    TempFolder folder;
    RunConfig config;
};

TEST_F(OfAManifest, ColumnsAreFoundByTheSamplesKey) {
    const InputColumns columns(config, "records");
    EXPECT_EQ(columns.of("7/chair").columns, "{\"label\":\"chair\",\"price\":12}");
    EXPECT_EQ(columns.of("8").columns, "{}");
    EXPECT_THAT(refusal([&] { columns.of("9"); }), HasSubstr("'9'"));
    EXPECT_THAT(refusal([&] { columns.of("line-2"); }), HasSubstr("list.jsonl:2"));
}

TEST_F(OfAManifest, OriginalsAreFoundByTheSamplesKey) {
    OriginalImages originals(config, "cut-out");
    const auto image = originals.of("7/chair");
    EXPECT_EQ(image.size, (ImageSize{5, 5}));
    EXPECT_EQ(*image.rgb, gradient({5, 5}, 2));
    EXPECT_EQ(originals.of("8").size, (ImageSize{8, 4}));
    EXPECT_THAT(refusal([&] { originals.of("photos/a"); }), HasSubstr("the sample 'photos/a'"));
}

TEST_F(OfAManifest, SyntheticItemsUseThePicturesOfTheirNames) {
    config.source = "synthetic";
    EXPECT_EQ(OriginalImages(config, "cut-out").of("8").size, (ImageSize{8, 4}));
    config.input.clear();
    EXPECT_THROW(OriginalImages(config, "cut-out"), ConfigError);
}

TEST_F(OfAManifest, AFolderHasNoColumns) {
    config.input = (folder.path() / "photos").string();
    EXPECT_EQ(InputColumns(config, "records").of("a").columns, "{}");
    config.source = "npy";
    EXPECT_THROW(InputColumns(config, "records"), ConfigError);
}

TEST(InputColumnsOfTexts, AreThoseOfTheRunsStart) {
    TempFolder folder;
    RunConfig config;
    config.source = "jsonl-text";
    config.input = folder.write("texts.jsonl", "{\"id\":\"a\",\"text\":\"one\",\"year\":1999}\n");
    std::filesystem::create_directory(folder.path() / run_files::kLive);
    keep_listed_rows((folder.path() / run_files::kListedRows).string(), *open_texts(config), false);
    EXPECT_EQ(InputColumns(config, "records", folder.path().string()).of("a").columns, "{\"year\":1999}");
    folder.write("texts.jsonl", "{\"id\":\"a\",\"text\":\"two\",\"year\":2000}\n");
    EXPECT_THAT(
        OfAManifest::refusal([&] { InputColumns(config, "records", folder.path().string()); }, ErrorKind::BadInput),
        HasSubstr("the first 1 rows are not those that the run began with"));
}

TEST_F(OfAManifest, ColumnsAndOriginalsAreThoseOfTheRunsStart) {
    const std::string run_dir = folder.path().string(),
                      first = "{\"id\":\"7\",\"uri\":\"photos/b.png\",\"label\":\"chair\"}\n";
    config.source = "jsonl";
    config.input = folder.write("list.jsonl", first);
    std::filesystem::create_directory(folder.path() / run_files::kLive);
    keep_listed_rows(run_dir + "/" + run_files::kListedRows, *open_pictures(config.source, config.input), false);
    const InputColumns early(config, "records", run_dir);
    folder.write("list.jsonl", first + "{\"id\":\"8\",\"uri\":\"photos/a.png\"}\n");
    EXPECT_EQ(InputColumns(config, "records", run_dir).of("8").columns, "{}") << "lines may be added at the end";
    for (const char* other : {"{\"id\":\"7\",\"uri\":\"photos/b.png\",\"label\":\"table\"}\n",
                              "{\"id\":\"7\",\"uri\":\"photos/a.png\",\"label\":\"chair\"}\n",
                              "{\"id\":\"6\",\"uri\":\"photos/b.png\",\"label\":\"chair\"}\n"}) {
        folder.write("list.jsonl", other);
        EXPECT_THAT(refusal([&] { InputColumns(config, "records", run_dir); }, ErrorKind::BadInput),
                    HasSubstr("the first 1 rows are not those that the run began with"))
            << other;
        EXPECT_THAT(refusal([&] { OriginalImages(config, "cut-out", run_dir); }, ErrorKind::BadInput),
                    HasSubstr("the first 1 rows are not those that the run began with"))
            << other;
        EXPECT_THAT(refusal([&] { early.of("7"); }), HasSubstr("line 1 was changed")) << other;
    }
}

// Rows of another shard, or done ones, have numbers as names.
TEST(InputColumnsOfChunks, OtherKeysHaveNoColumns) {
    TempFolder folder;
    RunConfig config;
    config.source = "jsonl-text";
    config.chunk_tokens = 8;
    config.input = folder.write("texts.jsonl", "{\"id\":\"a#1\",\"text\":\"one two\",\"year\":1999}\n");
    const InputColumns columns(config, "records");
    EXPECT_EQ(columns.of("a#1#0@0-7").columns, "{\"year\":1999}");
    EXPECT_EQ(columns.of_skipped("a#1#0@0-7").columns, "{\"year\":1999}");
    EXPECT_EQ(columns.of_skipped("364").columns, "{}");
    EXPECT_THROW(columns.of("364"), Error);
}

}  // namespace
}  // namespace offramp
