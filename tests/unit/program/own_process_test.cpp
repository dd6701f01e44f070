#include "common/app/program/own_process.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

namespace offramp {
namespace {

// As set by `ulimit -f`. Without EndSignals the write dies of SIGXFSZ.
TEST(EndSignalsDeathTest, AFileSizeLimitIsAnErrorNotADeath) {
    const auto write_too_much = [] {
        const EndSignals signals;
        const rlimit limit{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        std::string path = ::testing::TempDir() + "offramp-test-XXXXXX";
        const int fd = ::mkstemp(path.data());
        ::unlink(path.c_str());
        const std::string text(8192, 'x');
        const bool first = ::write(fd, text.data(), text.size()) == 4096;
        const bool second = ::write(fd, text.data(), text.size()) < 0 && errno == EFBIG;
        ::_exit(fd >= 0 && first && second ? 0 : 1);
    };
    EXPECT_EXIT(write_too_much(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace offramp
