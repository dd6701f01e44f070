#include "common/transport/connection_limit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

// Two ends of a connection of this process with itself.
struct Pair {
    Pair() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
        ours = UniqueFd(ends[0]);
        theirs = UniqueFd(ends[1]);
    }
    bool cut_off() const {
        char byte = 0;
        return ::recv(theirs.get(), &byte, 1, MSG_DONTWAIT) == 0;
    }
    UniqueFd ours;
    UniqueFd theirs;
};

TEST(ConnectionLimit, CutsOffWhatOneProcessHasTooMany) {
    ConnectionLimit limit(1000);
    std::vector<Pair> pairs(ConnectionLimit::kMostOfOneProcess + 1);
    for (std::size_t i = 0; i + 1 < pairs.size(); ++i) EXPECT_TRUE(limit.accepted(pairs[i].ours.get()));
    EXPECT_FALSE(limit.accepted(pairs.back().ours.get()));
    EXPECT_TRUE(pairs.back().cut_off());
    EXPECT_FALSE(pairs.front().cut_off());
    EXPECT_EQ(limit.refused(), 1U);
}

TEST(ConnectionLimit, CutsOffWhatAllHaveTooMany) {
    ConnectionLimit limit(2);
    std::vector<Pair> pairs(3);
    EXPECT_TRUE(limit.accepted(pairs[0].ours.get()) && limit.accepted(pairs[1].ours.get()));
    EXPECT_FALSE(limit.accepted(pairs[2].ours.get()));
    EXPECT_TRUE(pairs[2].cut_off());
}

TEST(ConnectionLimit, WhatIsDisconnectedMakesRoom) {
    ConnectionLimit limit(1);
    std::vector<Pair> pairs(3);
    EXPECT_TRUE(limit.accepted(pairs[0].ours.get()));
    EXPECT_FALSE(limit.accepted(pairs[1].ours.get()));
    limit.disconnected(pairs[1].ours.get());
    limit.disconnected(pairs[0].ours.get());
    limit.disconnected(pairs[0].ours.get());  // twice is as once
    EXPECT_TRUE(limit.accepted(pairs[2].ours.get()));
    EXPECT_EQ(limit.connections(), 1U);
}

TEST(ConnectionLimit, ADescriptorThatIsUsedAgainIsOneConnection) {
    ConnectionLimit limit(2);
    const Pair pair;
    for (int times = 0; times < 5; ++times) EXPECT_TRUE(limit.accepted(pair.ours.get()));
    EXPECT_EQ(limit.connections(), 1U);
}

TEST(ConnectionLimit, LeavesHalfOfTheDescriptorsToOthers) {
    EXPECT_GE(ConnectionLimit::most_by_descriptors(), 8U);
    EXPECT_LE(ConnectionLimit::most_by_descriptors(), static_cast<std::size_t>(::sysconf(_SC_OPEN_MAX)) / 2);
}

TEST(RequireFreeDescriptors, SaysHowManyThereAre) {
    require_free_descriptors(4, "a small thing");
    try {
        require_free_descriptors(std::size_t{1} << 40, "a large thing");
        FAIL();
    } catch (const SystemError& refused) {
        EXPECT_THAT(refused.what(), testing::StartsWith("a large thing: "));
        EXPECT_THAT(refused.what(), testing::HasSubstr("ulimit -n"));
    }
}

}  // namespace
}  // namespace offramp
