#include "common/base/error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace offramp {
namespace {

TEST(ExceptionText, IsTheTextOfTheException) {
    EXPECT_EQ(exception_text(std::make_exception_ptr(std::runtime_error("no such place"))), "no such place");
    const Error refusal(ErrorKind::Internal, "the pool is gone", "Start the run again");
    EXPECT_EQ(exception_text(std::make_exception_ptr(refusal)), refusal.what());
}

TEST(ExceptionText, ReportsAnExceptionWithoutAText) {
    EXPECT_EQ(exception_text(std::make_exception_ptr(7)), "an exception of an unknown kind");
}

}  // namespace
}  // namespace offramp
