#include "common/base/scarcity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace offramp {
namespace {

using ::testing::HasSubstr;

TEST(WayToWrite, EachShortageHasItsRemedy) {
    EXPECT_THAT(way_to_write(ENOSPC, ""), HasSubstr("Free space on that file system"));
    EXPECT_THAT(way_to_write(EDQUOT, ""), HasSubstr("quota"));
    EXPECT_THAT(way_to_write(EFBIG, ""), HasSubstr("ulimit -f"));
    EXPECT_EQ(way_to_write(EACCES, "Ask its owner"), "Ask its owner");
}

}  // namespace
}  // namespace offramp
