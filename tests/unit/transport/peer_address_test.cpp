#include "common/transport/peer_connections.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>

namespace offramp {
namespace {

TEST(PeerAddress, IsUidGidPid) {
    const auto peer = parse_peer_address("localhost:1000:100:4711");
    EXPECT_EQ(peer.uid, 1000U);
    EXPECT_EQ(peer.gid, 100U);
    EXPECT_EQ(peer.pid, 4711);
}

TEST(PeerAddress, KeepsTheUserOfAForeignPidNamespace) {
    const auto peer = parse_peer_address("localhost:1000:100:0");
    EXPECT_EQ(peer.uid, 1000U);
    EXPECT_EQ(peer.pid, 0);
}

TEST(PeerAddress, IsEmptyOtherwise) {
    for (const char* text : {"", "localhost", "127.0.0.1:1:2:3", "localhost:1:2", "localhost:1:2:3:4",
                             "localhost:1:2:3 ", "localhost:-1:2:3", "localhost:1::3", "localhost:1:2:x",
                             "localhost:1:2:99999999999", "localhost:1:2:4294967295", "localhost 1:2:3"}) {
        const auto peer = parse_peer_address(text);
        EXPECT_EQ(peer.pid, 0) << text;
        EXPECT_EQ(peer.uid, std::numeric_limits<uid_t>::max()) << text;
        EXPECT_EQ(peer.gid, std::numeric_limits<gid_t>::max()) << text;
    }
}

RC_GTEST_PROP(PeerAddress, IsReadBack, (std::uint32_t uid, std::uint32_t gid)) {
    const auto pid = *rc::gen::inRange<pid_t>(1, std::numeric_limits<pid_t>::max());
    const auto peer =
        parse_peer_address("localhost:" + std::to_string(uid) + ":" + std::to_string(gid) + ":" + std::to_string(pid));
    RC_ASSERT(peer.uid == uid);
    RC_ASSERT(peer.gid == gid);
    RC_ASSERT(peer.pid == pid);
}

}  // namespace
}  // namespace offramp
