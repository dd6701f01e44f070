#include "common/base/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <type_traits>

namespace offramp {
namespace {

static_assert(!std::is_copy_constructible_v<UniqueFd> && !std::is_copy_assignable_v<UniqueFd>);
static_assert(std::is_nothrow_move_constructible_v<UniqueFd> && std::is_nothrow_move_assignable_v<UniqueFd>);

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open_now(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, HoldsNothingByDefault) {
    const UniqueFd none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.get(), -1);
}

TEST(UniqueFd, ClosesAtTheEndOfItsLife) {
    const int raw = open_null();
    {
        const UniqueFd fd(raw);
        EXPECT_TRUE(fd);
        EXPECT_TRUE(is_open_now(raw));
    }
    EXPECT_FALSE(is_open_now(raw));
}

TEST(UniqueFd, MovesItsDescriptorAndClosesTheOneItReplaces) {
    const int first = open_null();
    const int second = open_null();
    UniqueFd from(first);
    UniqueFd to(second);
    to = std::move(from);
    EXPECT_EQ(to.get(), first);
    EXPECT_EQ(from.get(), -1);  // NOLINT(bugprone-use-after-move): the empty state is tested
    EXPECT_FALSE(is_open_now(second));
    UniqueFd built(std::move(to));
    EXPECT_EQ(built.get(), first);
    EXPECT_EQ(to.get(), -1);  // NOLINT(bugprone-use-after-move): the empty state is tested
    EXPECT_TRUE(is_open_now(first));
}

TEST(UniqueFd, SurvivesBeingMovedToItself) {
    const int raw = open_null();
    UniqueFd fd(raw);
    UniqueFd& same = fd;
    fd = std::move(same);
    EXPECT_EQ(fd.get(), raw);
    EXPECT_TRUE(is_open_now(raw));
}

TEST(UniqueFd, ReleasesWithoutClosingAndResetsByClosing) {
    UniqueFd fd(open_null());
    const int raw = fd.release();
    EXPECT_FALSE(fd);
    EXPECT_TRUE(is_open_now(raw));
    UniqueFd again(raw);
    again.reset();
    EXPECT_FALSE(is_open_now(raw));
    again.reset();
    EXPECT_EQ(again.get(), -1);
}

}  // namespace
}  // namespace offramp
