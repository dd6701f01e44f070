#include "common/app/texts/text_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "common/base/error.hpp"

namespace offramp {
namespace {

RC_GTEST_PROP(TextChunkKeys, ReportWhichTextAndWhichPartOfIt, ()) {
    const auto text = *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("a#@-7/"))));
    const TextChunk chunk{.text = text,
                          .number = *rc::gen::arbitrary<std::uint32_t>(),
                          .begin = *rc::gen::inRange<std::uint64_t>(0, 1'000'000),
                          .end = 1'000'000 + *rc::gen::inRange<std::uint64_t>(0, 1'000'000)};
    const std::string key = chunk_key(chunk);
    RC_ASSERT(chunk_of_key(key) == chunk);
}

TEST(TextChunkKeys, DistinguishInvalidForms) {
    EXPECT_EQ(chunk_key({.text = "doc/7", .number = 3, .begin = 120, .end = 480}), "doc/7#3@120-480");
    for (const char* key : {"", "a", "#1@0-1", "a#", "a#1", "a#1@0", "a#1@0-", "a#1@2-1", "a#-1@0-1", "a#1@0-1 ",
                            "a#01@0-1", "a#1@0-1x", "a#4294967296@0-1", "a#1@0-99999999999999999999"})
        EXPECT_FALSE(chunk_of_key(key)) << key;
    EXPECT_THROW(chunk_named("doc/7"), Error);
}

}  // namespace
}  // namespace offramp
