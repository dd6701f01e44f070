#include "producer/runner/inference/compute_turn.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

class ComputeTurnTest : public testing::Test {
  protected:
    std::string path() const { return folder_ + "/turn"; }
    // True if no process holds it.
    bool is_free() const {
        const UniqueFd file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
        return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
    }

    test::ScratchFolder scratch_;
    std::string folder_ = scratch_.path();
};

bool always() { return true; }

// Waits for this number of checks, then gives up.
auto until_asked(int times) {
    return [left = std::make_shared<int>(times)] { return (*left)-- > 0; };
}

TEST_F(ComputeTurnTest, OneProcessHoldsItAtATime) {
    ComputeTurn one(path());
    ComputeTurn another(path());
    EXPECT_TRUE(is_free()) << "no process computes yet";
    auto held = one.take(always);
    ASSERT_TRUE(held);
    EXPECT_EQ(one.waited_seconds(), 0);
    bool was_waiting = false;
    EXPECT_FALSE(another.take([&, asked = until_asked(2)] {
        was_waiting = another.is_waiting();
        return asked();
    }));
    EXPECT_TRUE(was_waiting);
    EXPECT_FALSE(another.is_waiting());
    EXPECT_GT(another.waited_seconds(), 0);
    EXPECT_FALSE(is_free()) << "the first one still holds it";
}

TEST_F(ComputeTurnTest, AWaiterGetsItAsSoonAsItIsReleased) {
    ComputeTurn one(path());
    ComputeTurn another(path());
    auto held = one.take(always);
    const auto next = another.take([&, asked = until_asked(3)] {
        if (!asked()) held.reset();
        return true;
    });
    EXPECT_TRUE(next);
    EXPECT_FALSE(is_free());
    EXPECT_FALSE(one.is_shared()) << "it is granted once";
}

TEST_F(ComputeTurnTest, AnExceptionReleasesIt) {
    ComputeTurn one(path());
    try {
        const auto held = one.take(always);
        EXPECT_FALSE(is_free());
        throw 1;
    } catch (int) {
    }
    EXPECT_TRUE(is_free());
}

TEST_F(ComputeTurnTest, AKilledHolderReleasesIt) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t holder = ::fork();
    if (holder == 0) {
        ComputeTurn other(path());
        const auto held = other.take(always);
        static_cast<void>(::write(ends[1], "h", 1));
        for (;;) ::pause();
    }
    char word = 0;
    ASSERT_EQ(::read(ends[0], &word, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ComputeTurn own(path());
    const auto held = own.take([&, asked = until_asked(2)] {
        if (!asked()) ::kill(holder, SIGKILL);
        return true;
    });
    EXPECT_TRUE(held);
    int status = 0;
    EXPECT_EQ(::waitpid(holder, &status, 0), holder);
    EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(ComputeTurnTest, AChildDoesNotInheritIt) {
    ComputeTurn own(path());
    auto held = own.take(always);
    const pid_t child = ::fork();
    if (child == 0)
        for (;;) ::pause();
    held.reset();
    EXPECT_TRUE(is_free());
    ::kill(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(ComputeTurnTest, DoesNotWaitWithoutAFile) {
    ComputeTurn one("");
    ComputeTurn another("");
    const auto held = one.take(always);
    EXPECT_TRUE(held);
    EXPECT_TRUE(another.take([] { return false; }));
    EXPECT_FALSE(one.is_shared());
}

TEST_F(ComputeTurnTest, ReportsAnUnlockableFileImmediately) {
    EXPECT_THAT(test::error_of<SystemError>([&] { ComputeTurn none(folder_ + "/not there/turn"); }, ErrorKind::System),
                HasSubstr("opening the file of --turn, " + folder_ + "/not there/turn"));
    EXPECT_THROW(ComputeTurn{folder_}.take(always), SystemError) << "a folder cannot be locked as the turn";
}

}  // namespace
}  // namespace offramp
