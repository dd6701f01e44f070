#include "common/app/settings/exit_code.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(ExitCode, IsTheNumberOfTheEndingError) {
    EXPECT_EQ(to_int(exit_code_for(ErrorKind::NoSuchRun)), 69);
    EXPECT_EQ(exit_code_for(ErrorKind::None), ExitCode::Ok);
    EXPECT_EQ(exit_code_for(ErrorKind::Interrupted), ExitCode::Interrupted);
}

// Schedulers and the launcher depend on the numbers.
TEST(ExitCode, KeepsTheNumbersOfOtherEnds) {
    EXPECT_EQ(to_int(ExitCode::Ok), 0);
    EXPECT_EQ(to_int(ExitCode::DeadLetters), 84);
}

}  // namespace
}  // namespace offramp
