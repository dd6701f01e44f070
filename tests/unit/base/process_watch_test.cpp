#include "common/base/process_watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "common/base/error.hpp"
#include "tests/support/sanitizers.hpp"

namespace offramp {
namespace {

// A process that idles until it is killed.
class Idler {
  public:
    Idler() : pid_(::fork()) {
        if (pid_ == 0)
            while (true) ::pause();
    }
    ~Idler() {
        kill();
        reap();
    }
    std::uint64_t pid() const { return static_cast<std::uint64_t>(pid_); }
    void kill() const {
        if (!reaped_) ::kill(pid_, SIGKILL);
    }
    void reap() {
        if (!reaped_) ::waitpid(pid_, nullptr, 0);
        reaped_ = true;
    }

  private:
    pid_t pid_;
    bool reaped_ = false;
};

TEST(ProcessWatch, BecomesReadableWhenTheProcessDies) {
    Idler process;
    const auto started = process_start_time(process.pid());
    ASSERT_TRUE(started);
    const auto watch = watch_process(process.pid(), *started);
    ASSERT_TRUE(watch);
    pollfd entry{watch->died.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    process.kill();
    EXPECT_EQ(::poll(&entry, 1, -1), 1);
}

TEST(ProcessWatch, TakesAReusedPidForAnotherProcess) {
    Idler other;
    EXPECT_FALSE(watch_process(other.pid(), *process_start_time(other.pid()) + 1));
}

TEST(ProcessWatch, ReportsADeadProcessBeforeAndAfterReaping) {
    Idler process;
    const auto started = process_start_time(process.pid());
    ASSERT_TRUE(started);
    EXPECT_TRUE(process_exists(process.pid()));
    const auto watch = watch_process(process.pid(), *started);
    ASSERT_TRUE(watch);
    process.kill();
    pollfd entry{watch->died.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    EXPECT_FALSE(watch_process(process.pid(), *started));
    EXPECT_FALSE(process_exists(process.pid()));
    process.reap();
    EXPECT_FALSE(watch_process(process.pid(), *started));
    EXPECT_FALSE(process_exists(process.pid()));
}

TEST(ProcessWatch, ReportsAnUnusedPidAsDead) {
    EXPECT_FALSE(process_exists(0));
    EXPECT_FALSE(process_exists(std::numeric_limits<std::uint64_t>::max()));
    EXPECT_FALSE(watch_process(0, 0));
    EXPECT_FALSE(process_start_time(0));
}

// A process that cannot be inspected does not count as dead.
TEST(ProcessWatch, FailsWithoutAFreeDescriptor) {
    if (test::has_address_sanitizer())
        GTEST_SKIP() << "skipped: UBSan needs a descriptor for each look at an object's type";
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto self = static_cast<std::uint64_t>(::getpid());
    const auto started = process_start_time(self);
    const UniqueFd next(::dup(0));
    for (const int free : {0, 1}) {
        const rlimit lowered{static_cast<rlim_t>(next.get() + 1 + free), before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
        EXPECT_THROW(watch_process(self, *started), SystemError) << free;
        EXPECT_TRUE(process_exists(self));
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    }
    EXPECT_TRUE(watch_process(self, *started));
}

}  // namespace
}  // namespace offramp
