#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/unit/images/tar_files.hpp"
#include "tests/unit/sources/making.hpp"

namespace offramp {
namespace {

constexpr ImageSize kSize{40, 24};

struct WebdatasetSource : ::testing::Test {
    WebdatasetSource() {
        for (unsigned shard = 0; shard < 2; ++shard) {
            std::string tar;
            for (unsigned i = 0; i < 3; ++i)
                tar += test::tar_member(std::to_string(i) + ".png", encode_png(kSize, gradient(kSize, 3 * shard + i)));
            folder.write("shard-" + std::to_string(shard) + ".tar", tar + test::tar_end());
        }
        config.input = folder.path();
    }
    std::unique_ptr<BatchSource> make() {
        return part_of(test::make_source("webdataset", config, test::picture_input(kSize), true), config);
    }

    TempFolder folder;
    RunConfig config;
};

TEST_F(WebdatasetSource, GivesTheShardsPicturesInTheirOrder) {
    const auto source = make();
    ASSERT_EQ(source->items(), 6U);
    for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(test::row_of(*source, i, kSize), gradient(kSize, i));
    EXPECT_EQ(source->key(4), "shard-1/1");
    EXPECT_EQ(source->max_key_bytes(), 9U);
    EXPECT_EQ(source->description(), "webdataset: 6 samples of 2 shards of " + folder.path().string());
}

TEST_F(WebdatasetSource, APartKeepsItsKeys) {
    config.limit = 5;
    const auto source = make();
    ASSERT_EQ(source->items(), 5U);
    EXPECT_EQ(source->key(3), "shard-1/0");
    EXPECT_EQ(test::row_of(*source, 4, kSize), gradient(kSize, 4));
}

TEST_F(WebdatasetSource, SkipsASampleWithUnreadableColumnsIfWritten) {
    const std::string picture = encode_png(kSize, gradient(kSize));
    folder.write("shard-1.tar", test::tar_member("0.png", picture) + test::tar_member("0.json", R"({"label": "ca)") +
                                    test::tar_member("1.png", picture) +
                                    test::tar_member("1.txt", std::string((std::size_t{16} << 20) + 1, 'x')) +
                                    test::tar_member("2.png", picture) +
                                    test::tar_member("2.json", R"({"label": "cat"})") + test::tar_end());
    const auto without = make();
    for (std::uint64_t item = 3; item < 6; ++item)
        EXPECT_EQ(test::row_of(*without, item, kSize), gradient(kSize)) << "its columns are not needed";
    config.processor = "mask-png,records";
    const auto source = make();
    for (const auto& [item, reason] :
         {std::pair{3, "its .json: not JSON"}, std::pair{4, "its .txt has 16777217 bytes"}}) {
        try {
            test::row_of(*source, static_cast<std::uint64_t>(item), kSize);
            ADD_FAILURE() << item;
        } catch (const UnreadableItem& unreadable) {
            EXPECT_THAT(unreadable.what(), ::testing::HasSubstr(reason));
        }
    }
    EXPECT_EQ(test::row_of(*source, 5, kSize), gradient(kSize));
}

TEST_F(WebdatasetSource, AddedOrRemovedColumnsChangeTheFingerprint) {
    const std::string previous = source_fingerprint(*make());
    EXPECT_EQ(source_fingerprint(*make()), previous);
    folder.write("shard-1.tar", test::tar_member("0.png", encode_png(kSize, gradient(kSize))) +
                                    test::tar_member("0.json", "{}") + test::tar_member("1.png", "") +
                                    test::tar_member("2.png", "") + test::tar_end());
    EXPECT_NE(source_fingerprint(*make()), previous);
}

}  // namespace
}  // namespace offramp
