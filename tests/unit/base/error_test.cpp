#include "common/base/error.hpp"

#include <gmock/gmock.h>

#include <cerrno>

namespace offramp {
namespace {

TEST(Error, SaysWhatHappenedThenTheHint) {
    EXPECT_STREQ(Error(ExitCode::BadInput, "weights are wrong", "Export them again").what(),
                 "weights are wrong. Export them again");
    EXPECT_STREQ(Error(ExitCode::BadInput, "weights are wrong").what(), "weights are wrong");
}

TEST(Error, EachKindHasItsExitCodeUnlessToldOtherwise) {
    EXPECT_EQ(ConfigError("x").exit_code(), ExitCode::Usage);
    EXPECT_EQ(ConfigError("x", "", ExitCode::Config).exit_code(), ExitCode::Config);
    EXPECT_EQ(ProtocolError("x").exit_code(), ExitCode::Protocol);
    EXPECT_EQ(ProtocolError("x", "", ExitCode::NotPermitted).exit_code(), ExitCode::NotPermitted);
    EXPECT_EQ(SystemError("x", EIO).exit_code(), ExitCode::System);
    EXPECT_EQ(SystemError("x", ENOSPC, "", ExitCode::SharedMemoryFull).exit_code(), ExitCode::SharedMemoryFull);
}

TEST(Error, ASystemErrorAppendsTheSystemsWordAndNumber) {
    const SystemError error("opening '/x'", ENOENT, "Check the path");
    EXPECT_STREQ(error.what(), "opening '/x': No such file or directory (errno 2). Check the path");
    EXPECT_EQ(error.errno_value(), ENOENT);
}

TEST(Error, AllAreCaughtAsError) {
    EXPECT_THROW(throw ConfigError("x"), Error);
    EXPECT_THROW(throw ProtocolError("x"), Error);
    EXPECT_THROW(throw SystemError("x", EIO), Error);
}

// Schedulers and the launch script act on the numbers.
TEST(ExitCode, KeepsItsNumbers) {
    EXPECT_EQ(to_int(ExitCode::Ok), 0);
    EXPECT_EQ(to_int(ExitCode::Usage), 64);
    EXPECT_EQ(to_int(ExitCode::SinkUnavailable), 75);
    EXPECT_EQ(to_int(ExitCode::Config), 78);
    EXPECT_EQ(to_int(ExitCode::ProducerGone), 86);
}

TEST(Expect, PassesWhatHolds) { expect(true, "always"); }

TEST(ExpectDeathTest, EndsTheProcessWithPlaceAndContract) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(expect(false, "a slab has one owner"), testing::KilledBySignal(SIGABRT),
                "error_test.cpp:[0-9]+: .*broken contract: a slab has one owner");
}

}  // namespace
}  // namespace offramp
