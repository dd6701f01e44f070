#include "common/base/error.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace offramp {
namespace {

TEST(Error, ReportsTheProblemThenTheHint) {
    EXPECT_STREQ(Error(ErrorKind::BadInput, "weights are wrong", "Export them again").what(),
                 "weights are wrong. Export them again");
    EXPECT_STREQ(Error(ErrorKind::BadInput, "weights are wrong").what(), "weights are wrong");
}

TEST(Error, EachTypeHasItsDefaultKind) {
    EXPECT_EQ(ConfigError("x").kind(), ErrorKind::Usage);
    EXPECT_EQ(ConfigError("x", "", ErrorKind::Config).kind(), ErrorKind::Config);
    EXPECT_EQ(ProtocolError("x").kind(), ErrorKind::Protocol);
    EXPECT_EQ(ProtocolError("x", "", ErrorKind::NotPermitted).kind(), ErrorKind::NotPermitted);
    EXPECT_EQ(SystemError("x", EIO).kind(), ErrorKind::System);
    EXPECT_EQ(SystemError("x", ENOSPC, "", ErrorKind::SharedMemoryFull).kind(), ErrorKind::SharedMemoryFull);
}

TEST(Error, ASystemErrorAppendsTheSystemsTextAndNumber) {
    const SystemError error("opening '/x'", ENOENT, "Check the path");
    EXPECT_STREQ(error.what(), "opening '/x': No such file or directory (errno 2). Check the path");
    EXPECT_EQ(error.errno_value(), ENOENT);
}

TEST(Error, AllAreCaughtAsError) {
    EXPECT_THROW(throw ConfigError("x"), Error);
    EXPECT_THROW(throw ProtocolError("x"), Error);
    EXPECT_THROW(throw SystemError("x", EIO), Error);
}

// Schedulers and the launcher depend on the numbers.
TEST(ErrorKind, KeepsItsNumbers) {
    EXPECT_EQ(to_int(ErrorKind::None), 0);
    EXPECT_EQ(to_int(ErrorKind::Usage), 64);
    EXPECT_EQ(to_int(ErrorKind::SinkUnavailable), 75);
    EXPECT_EQ(to_int(ErrorKind::Config), 78);
    EXPECT_EQ(to_int(ErrorKind::ProducerGone), 86);
}

TEST(Expect, PassesATrueCondition) { expect(true, "always"); }

TEST(ExpectDeathTest, EndsTheProcessWithPlaceAndContract) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(expect(false, "a slab has one owner"), testing::KilledBySignal(SIGABRT),
                "error_test.cpp:[0-9]+: .*broken contract: a slab has one owner");
}

}  // namespace
}  // namespace offramp
