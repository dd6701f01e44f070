#include "common/transport/peer_connections.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

// Both ends of a connection of this process with itself.
struct Pair {
    Pair() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
        accepted_end = UniqueFd(ends[0]);
        far_end = UniqueFd(ends[1]);
    }
    UniqueFd accepted_end;
    UniqueFd far_end;
};

TEST(ConnectionLimit, LimitsConnectionsOfOneProcess) {
    ConnectionLimit limit(1000);
    std::vector<Pair> pairs(ConnectionLimit::kMostOfOneProcess + 1);
    for (std::size_t i = 0; i + 1 < pairs.size(); ++i) EXPECT_TRUE(limit.accepted(pairs[i].accepted_end.get()));
    EXPECT_FALSE(limit.accepted(pairs.back().accepted_end.get()));
    EXPECT_EQ(limit.refused(), 1U);
    EXPECT_EQ(limit.connections(), ConnectionLimit::kMostOfOneProcess);
}

TEST(ConnectionLimit, LimitsAllConnections) {
    ConnectionLimit limit(2);
    std::vector<Pair> pairs(3);
    EXPECT_TRUE(limit.accepted(pairs[0].accepted_end.get()) && limit.accepted(pairs[1].accepted_end.get()));
    EXPECT_FALSE(limit.accepted(pairs[2].accepted_end.get()));
}

TEST(ConnectionLimit, ADisconnectionMakesRoom) {
    ConnectionLimit limit(1);
    std::vector<Pair> pairs(3);
    EXPECT_TRUE(limit.accepted(pairs[0].accepted_end.get()));
    EXPECT_FALSE(limit.accepted(pairs[1].accepted_end.get()));
    limit.disconnected(pairs[1].accepted_end.get());
    EXPECT_EQ(limit.connections(), 1U) << "a refused one was never counted";
    limit.disconnected(pairs[0].accepted_end.get());
    limit.disconnected(pairs[0].accepted_end.get());  // twice has no further effect
    EXPECT_TRUE(limit.accepted(pairs[2].accepted_end.get()));
    EXPECT_EQ(limit.connections(), 1U);
}

TEST(ConnectionLimit, IgnoresTheHostProgramsConnections) {
    ConnectionLimit limit(1000);
    const Pair hosts;
    limit.disconnected(hosts.accepted_end.get());
    std::vector<Pair> pairs(ConnectionLimit::kMostOfOneProcess + 8);
    for (const Pair& pair : pairs) limit.accepted(pair.accepted_end.get());
    for (const Pair& pair : pairs) {
        char byte = 0;
        EXPECT_EQ(::recv(pair.far_end.get(), &byte, 1, MSG_DONTWAIT), -1) << "it only counts, and closes no connection";
    }
}

TEST(ConnectionLimit, LeavesHalfOfTheDescriptorsToOthers) {
    EXPECT_GE(ConnectionLimit::most_by_descriptors(), 8U);
    EXPECT_LE(ConnectionLimit::most_by_descriptors(), static_cast<std::size_t>(::sysconf(_SC_OPEN_MAX)) / 2);
}

}  // namespace
}  // namespace offramp
