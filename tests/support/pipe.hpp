#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace offramp::test {

// Lets one thread or process wait for another to reach a point. To a program, it can be a pidfd, a lifeline or a
// signalfd, which become readable.
class Pipe {
  public:
    Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
    ~Pipe() {
        for (const int end : ends_)
            if (end >= 0) ::close(end);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    // For the process that only waits, so that wait() also returns when the other process is gone.
    int read_end() const { return ends_[0]; }
    void close_write_end() { ::close(std::exchange(ends_[1], -1)); }
    void notify() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
    void wait() const {
        char byte = 0;
        EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
    }

  private:
    std::array<int, 2> ends_{};
};

}  // namespace offramp::test
