#include "common/app/settings/sections.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(SourceOfInput, IsNamedByTheInput) {
    EXPECT_EQ(source_of_input("auto", ""), "synthetic");
    EXPECT_EQ(source_of_input("auto", "/data/photos"), "images");
    EXPECT_EQ(source_of_input("auto", "list.txt"), "images");
    EXPECT_EQ(source_of_input("auto", "a.b/list.jsonl"), "jsonl");
    EXPECT_EQ(source_of_input("auto", "list.ndjson"), "jsonl");
    EXPECT_EQ(source_of_input("auto", "x.npy"), "npy");
    EXPECT_EQ(source_of_input("auto", "x.tar"), "webdataset");
    EXPECT_EQ(source_of_input("images", "list.jsonl"), "images");
}

}  // namespace
}  // namespace offramp
