#include "common/base/scarcity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "common/base/error.hpp"
#include "tests/support/sanitizers.hpp"

namespace offramp {
namespace {

std::string scarcity_text(std::exception_ptr error, ErrorKind code) {
    try {
        std::rethrow_exception(with_limits_named(std::move(error)));
    } catch (const Error& named) {
        EXPECT_EQ(named.kind(), code);
        return named.what();
    } catch (const std::exception& other) {
        return other.what();
    }
}

TEST(Scarcity, NamesTheLimitsToRaiseForThreadsAndMemory) {
    const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again));
    EXPECT_THAT(scarcity_text(std::make_exception_ptr(no_thread), ErrorKind::System),
                ::testing::AllOf(::testing::HasSubstr("thread"), ::testing::HasSubstr("ulimit -u")));
    EXPECT_THAT(scarcity_text(std::make_exception_ptr(std::bad_alloc()), ErrorKind::System),
                ::testing::HasSubstr("memory"));
}

TEST(Scarcity, LeavesOtherErrorsUnchanged) {
    EXPECT_EQ(scarcity_text(std::make_exception_ptr(std::runtime_error("on fire")), ErrorKind::System), "on fire");
    EXPECT_EQ(scarcity_text(std::make_exception_ptr(Error(ErrorKind::NoInput, "gone")), ErrorKind::NoInput), "gone");
    const std::system_error other(std::make_error_code(std::errc::permission_denied), "x");
    EXPECT_EQ(scarcity_text(std::make_exception_ptr(other), ErrorKind::System), other.what());
}

TEST(Scarcity, NamesTheLimitWhenAProcessCannotStart) {
    EXPECT_NE(way_to_start(EAGAIN, "x").find("ulimit -u"), std::string::npos);
    EXPECT_EQ(way_to_start(ENOENT, "x"), "x");
}

// Each thread's stack uses address space.
TEST(ScarcityDeathTest, FailsWhenThreadsCannotStartAndLeavesNone) {
    if (test::has_sanitizer()) GTEST_SKIP() << "sanitizers use the whole address space";
    const auto start = [] {
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlim_t room = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
        const rlimit limit{room, room};
        ::setrlimit(RLIMIT_AS, &limit);
        try {
            require_threads(1000);
        } catch (const Error& problem) {
            std::fprintf(stderr, "%s", problem.what());
            ::_exit(to_int(problem.kind()));
        }
        ::_exit(0);
    };
    EXPECT_EXIT(start(), ::testing::ExitedWithCode(71), "ulimit -v");
    require_threads(3);
}

}  // namespace
}  // namespace offramp
