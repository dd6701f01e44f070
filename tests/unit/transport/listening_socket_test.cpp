#include "common/transport/listening_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <optional>

#include "common/base/error.hpp"
#include "common/transport/endpoint.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using support::TemporaryFolder;

UniqueFd stream_socket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

// A bound socket; closing it leaves its file.
UniqueFd bind_to(const std::string& path) {
    const sockaddr_un address = address_of(path);
    UniqueFd fd = stream_socket();
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    return fd;
}

bool can_connect(const std::string& path) {
    const sockaddr_un address = address_of(path);
    const UniqueFd fd = stream_socket();
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

mode_t mode_of_file(const std::string& path) {
    struct stat found = {};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

ErrorKind kind_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& problem) {
        return problem.kind();
    }
    return ErrorKind::None;
}

TEST(BoundSocketPath, ListensInAFreePlaceOrOverADeadSocket) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    for (const bool dead : {false, true}) {
        if (dead) bind_to(path).reset();
        EXPECT_EQ(exists(path), dead);
        const UniqueFd fd = stream_socket();
        const BoundSocketPath bound(fd.get(), path, false);
        EXPECT_TRUE(can_connect(path));
    }
}

// A dead producer's socket keeps listening in a child that it forked.
TEST(BoundSocketPath, TakesASocketThatALivingProcessInherited) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    const auto inherited = bind_to(path);
    ASSERT_TRUE(can_connect(path));
    const UniqueFd fd = stream_socket();
    const BoundSocketPath bound(fd.get(), path, false);
    ASSERT_TRUE(can_connect(path));
    const UniqueFd peer(::accept(fd.get(), nullptr, nullptr));
    EXPECT_TRUE(peer) << "a new connection reaches the new socket";
}

TEST(BoundSocketPath, KeepsOtherKindsOfFiles) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("s")) << "precious";
    const UniqueFd fd = stream_socket();
    EXPECT_EQ(kind_of([&] { BoundSocketPath(fd.get(), folder.file("s"), false); }), ErrorKind::System);
    EXPECT_TRUE(exists(folder.file("s")));
}

TEST(BoundSocketPath, KeepsAnotherUsersSocket) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can create one";
    const TemporaryFolder folder;
    const auto other = bind_to(folder.file("s"));
    ASSERT_EQ(::chown(folder.file("s").c_str(), 1234, 1234), 0);
    const UniqueFd fd = stream_socket();
    EXPECT_EQ(kind_of([&] { BoundSocketPath(fd.get(), folder.file("s"), false); }), ErrorKind::NotPermitted);
    EXPECT_TRUE(can_connect(folder.file("s")));
}

TEST(BoundSocketPath, HasItsModeWithAnyUmask) {
    const TemporaryFolder folder;
    for (const mode_t mask : {0000, 0022, 0077, 0777})
        for (const bool group_may_connect : {false, true}) {
            const mode_t before = ::umask(mask);
            const UniqueFd fd = stream_socket();
            const BoundSocketPath bound(fd.get(), folder.file("s"), group_may_connect);
            EXPECT_EQ(::umask(before), mask) << "the process's umask is unchanged";
            EXPECT_EQ(mode_of_file(folder.file("s")), group_may_connect ? 0660U : 0600U);
        }
}

TEST(BoundSocketPath, DetectsATakeoverAndARemoval) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    const UniqueFd fd = stream_socket();
    const BoundSocketPath bound(fd.get(), path, false);
    EXPECT_NO_THROW(bound.require_still_ours());
    ASSERT_EQ(::unlink(path.c_str()), 0);
    EXPECT_THROW(bound.require_still_ours(), SystemError);
    const auto thief = bind_to(path);
    EXPECT_THROW(bound.require_still_ours(), SystemError);
}

TEST(BoundSocketPath, RemovesOnlyItsOwnFile) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    const UniqueFd first = stream_socket();
    { const BoundSocketPath bound(first.get(), path, false); }
    EXPECT_FALSE(exists(path));

    const UniqueFd second = stream_socket();
    std::optional<BoundSocketPath> bound(std::in_place, second.get(), path, false);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    const auto thief = bind_to(path);
    bound.reset();
    EXPECT_TRUE(exists(path));
}

TEST(ServingLock, IsHeldByOneProcess) {
    const TemporaryFolder folder;
    {
        const ServingLock lock(folder.path());
        EXPECT_EQ(kind_of([&] { ServingLock second(folder.path()); }), ErrorKind::RunInUse);
    }
    EXPECT_NO_THROW(ServingLock(folder.path()));
    EXPECT_EQ(kind_of([&] { ServingLock(folder.file("none")); }), ErrorKind::System);
}

}  // namespace
}  // namespace offramp
