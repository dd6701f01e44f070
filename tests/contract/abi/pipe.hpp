#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace offramp::test {

// Two processes say to one another how far they are.
class Pipe {
  public:
    Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
    ~Pipe() {
        for (const int end : ends_)
            if (end >= 0) ::close(end);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    // In the process that only hears: it hears an end, too, where the other one is gone.
    void close_write_end() { ::close(std::exchange(ends_[1], -1)); }
    void tell() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
    void hear() const {
        char heard = 0;
        EXPECT_EQ(::read(ends_[0], &heard, 1), 1);
    }

  private:
    std::array<int, 2> ends_{};
};

}  // namespace offramp::test
