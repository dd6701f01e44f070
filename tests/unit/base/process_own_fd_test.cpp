#include "common/base/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

namespace offramp {
namespace {

class ProcessOwnFdTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "offramp-own-fd-XXXXXX";
        const UniqueFd made(::mkstemp(pattern.data()));
        ASSERT_TRUE(made);
        path_ = pattern;
    }
    void TearDown() override { ::unlink(path_.c_str()); }

    UniqueFd opened() const { return UniqueFd(::open(path_.c_str(), O_RDWR | O_CLOEXEC)); }

    std::string path_;
};

// A child that lives until the test releases it.
class Child {
  public:
    // Runs `body` first; its return value is the exit status.
    template <typename Body>
    explicit Child(Body body) {
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(ends[1]);
            const int status = body();
            char none = 0;
            static_cast<void>(::read(ends[0], &none, 1));
            ::_exit(status);
        }
        ::close(ends[0]);
        held_ = UniqueFd(ends[1]);
    }
    int end() {
        held_.reset();
        int status = 0;
        EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    pid_t pid_ = 0;
    UniqueFd held_;
};

TEST_F(ProcessOwnFdTest, ReleasesALockAlthoughAChildLivesOn) {
    ProcessOwnFd held(opened());
    ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
    Child child([] { return 0; });
    const UniqueFd another = opened();
    EXPECT_NE(::flock(another.get(), LOCK_EX | LOCK_NB), 0) << "the parent holds it";
    held = ProcessOwnFd();
    EXPECT_EQ(::flock(another.get(), LOCK_EX | LOCK_NB), 0) << "the child holds it";
    EXPECT_EQ(child.end(), 0);
}

TEST_F(ProcessOwnFdTest, AChildsCopyOwnsNothing) {
    auto held = std::make_unique<ProcessOwnFd>(opened());
    const int number = held->get();
    Child child([&] {
        const int reused = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);  // the lowest free number
        held.reset();
        return reused == number && ::fcntl(reused, F_GETFD) != -1 ? 0 : 1;
    });
    EXPECT_EQ(child.end(), 0);
    EXPECT_NE(::fcntl(number, F_GETFD), -1) << "the parent's is still open";
}

// The child's lock would get the number that was closed there, and the copy's end would release it.
TEST_F(ProcessOwnFdTest, AChildsCopyDoesNotTouchTheChildsLock) {
    auto held = std::make_unique<ProcessOwnFd>(opened());
    auto another = std::make_unique<ProcessOwnFd>(opened());
    Child child([&] {
        UniqueFd file = opened();
        if (file.get() != held->get()) return 1;  // the lowest free number
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return 2;
        const ProcessOwnFd own(std::move(file));
        held.reset();
        another.reset();
        if (::fcntl(own.get(), F_GETFD) != FD_CLOEXEC) return 3;
        return ::flock(opened().get(), LOCK_EX | LOCK_NB) != 0 ? 0 : 4;  // still locked, through another open file
    });
    EXPECT_EQ(child.end(), 0);
}

TEST_F(ProcessOwnFdTest, AGrandchildHoldsNoInheritedLock) {
    const ProcessOwnFd held(opened());
    Child child([&] {
        ProcessOwnFd own(opened());
        if (::flock(own.get(), LOCK_EX | LOCK_NB) != 0) return 1;
        Child grandchild([] { return 0; });
        own = ProcessOwnFd();
        const bool is_free = ::flock(opened().get(), LOCK_EX | LOCK_NB) == 0;
        return grandchild.end() == 0 && is_free ? 0 : 2;
    });
    EXPECT_EQ(child.end(), 0);
}

TEST_F(ProcessOwnFdTest, AMoveTransfersOwnership) {
    ProcessOwnFd first(opened());
    const int number = first.get();
    ProcessOwnFd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT: the moved-from state is tested
    EXPECT_EQ(second.get(), number);
    second = ProcessOwnFd(opened());
    EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "replacing closes it";
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST_F(ProcessOwnFdTest, ClosesALibrarysDescriptorInAChild) {
    const auto open = [&] { return ::open(path_.c_str(), O_RDWR | O_CLOEXEC); };
    const int fd = open_process_own(open);
    ASSERT_TRUE(is_open(fd));
    Child child([&] {
        if (is_open(fd)) return 1;
        // The number is free in the child: its library may have reused it.
        const int own = open_process_own(open);
        if (own != fd || !is_open(own)) return 2;
        Child grandchild([&] { return is_open(own) ? 1 : 0; });
        if (grandchild.end() != 0 || !is_open(own)) return 3;
        return close_process_own(own) == 0 && !is_open(own) ? 0 : 4;
    });
    EXPECT_EQ(child.end(), 0);
    EXPECT_TRUE(is_open(fd)) << "the parent's is still open";
    EXPECT_EQ(close_process_own(fd), 0);
    EXPECT_FALSE(is_open(fd));
}

TEST_F(ProcessOwnFdTest, AChildDoesNotCloseADescriptorTwice) {
    const int fd = open_process_own([&] { return ::open(path_.c_str(), O_RDWR | O_CLOEXEC); });
    ASSERT_EQ(close_process_own(fd), 0);
    const UniqueFd hosts = opened();
    ASSERT_EQ(hosts.get(), fd) << "the lowest free number";
    Child child([&] { return is_open(hosts.get()) ? 0 : 1; });
    EXPECT_EQ(child.end(), 0);
}

TEST_F(ProcessOwnFdTest, ALibraryReceivesTheSystemsError) {
    errno = 0;
    EXPECT_EQ(open_process_own([] { return ::open("/no/such/file", O_RDONLY | O_CLOEXEC); }), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(close_process_own(-1), -1);
    EXPECT_EQ(errno, EBADF);
}

TEST_F(ProcessOwnFdTest, ALocksCopyIgnoresALibrarysReusedNumber) {
    auto held = std::make_unique<ProcessOwnFd>(opened());
    const int number = held->get();
    Child child([&] {
        const int own = open_process_own([&] { return ::open(path_.c_str(), O_RDWR | O_CLOEXEC); });
        if (own != number) return 1;
        held.reset();
        if (!is_open(own)) return 2;
        Child grandchild([&] { return is_open(own) ? 1 : 0; });
        return grandchild.end() == 0 ? 0 : 3;
    });
    EXPECT_EQ(child.end(), 0);
}

}  // namespace
}  // namespace offramp
