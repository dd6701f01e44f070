#include "consumer/session/producer_watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

namespace offramp {
namespace {

// A process that does nothing until it is killed.
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

TEST(ProducerWatch, BecomesReadableWhenTheProcessDies) {
    Idler producer;
    const auto started = process_start_time(producer.pid());
    ASSERT_TRUE(started);
    const auto watch = ProducerWatch::open(producer.pid(), *started);
    ASSERT_TRUE(watch);
    pollfd entry{watch->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    producer.kill();
    EXPECT_EQ(::poll(&entry, 1, -1), 1);
}

TEST(ProducerWatch, AReusedPidIsNotTheProducer) {
    Idler other;
    EXPECT_FALSE(ProducerWatch::open(other.pid(), *process_start_time(other.pid()) + 1));
}

TEST(ProducerWatch, ADeadProcessIsToldBeforeAndAfterItIsReaped) {
    Idler producer;
    const auto started = process_start_time(producer.pid());
    ASSERT_TRUE(started);
    EXPECT_TRUE(process_exists(producer.pid()));
    const auto watch = ProducerWatch::open(producer.pid(), *started);
    ASSERT_TRUE(watch);
    producer.kill();
    pollfd entry{watch->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, -1), 1);
    EXPECT_FALSE(ProducerWatch::open(producer.pid(), *started));
    EXPECT_FALSE(process_exists(producer.pid()));
    producer.reap();
    EXPECT_FALSE(ProducerWatch::open(producer.pid(), *started));
    EXPECT_FALSE(process_exists(producer.pid()));
}

TEST(ProducerWatch, PidsThatNobodyHasAreDead) {
    EXPECT_FALSE(process_exists(0));
    EXPECT_FALSE(process_exists(std::numeric_limits<std::uint64_t>::max()));
    EXPECT_FALSE(ProducerWatch::open(0, 0));
    EXPECT_FALSE(process_start_time(0));
}

}  // namespace
}  // namespace offramp
