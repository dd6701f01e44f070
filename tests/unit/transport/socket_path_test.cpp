#include "common/transport/socket_path.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <optional>

#include "common/base/error.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using support::TemporaryFolder;

// A bound socket; closing it leaves its file.
UniqueFd bind_to(const std::string& path, bool listening) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
    if (listening) {
        EXPECT_EQ(::listen(fd.get(), 1), 0);
    }
    return fd;
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

TEST(SocketPath, IsFreeWhenNothingOrADeadSocketIsThere) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    EXPECT_NO_THROW(require_free_socket_path(path));
    bind_to(path, true).reset();
    ASSERT_TRUE(exists(path));
    EXPECT_NO_THROW(require_free_socket_path(path));
}

TEST(SocketPath, IsInUseWhileSomeoneListens) {
    const TemporaryFolder folder;
    const auto listener = bind_to(folder.file("s"), true);
    EXPECT_EQ(kind_of([&] { require_free_socket_path(folder.file("s")); }), ErrorKind::RunInUse);
    // Also when its queue of connections is full.
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(kind_of([&] { require_free_socket_path(folder.file("s")); }), ErrorKind::RunInUse);
}

TEST(SocketPath, IsNotTakenFromAnotherKindOfFile) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("s")) << "precious";
    EXPECT_EQ(kind_of([&] { require_free_socket_path(folder.file("s")); }), ErrorKind::System);
    EXPECT_TRUE(exists(folder.file("s")));
}

TEST(BoundSocketPath, SeesATheftAndARemoval) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    const auto owner = bind_to(path, true);
    const BoundSocketPath bound(path);
    EXPECT_NO_THROW(bound.require_still_ours());
    ASSERT_EQ(::unlink(path.c_str()), 0);
    EXPECT_THROW(bound.require_still_ours(), SystemError);
    const auto thief = bind_to(path, true);
    EXPECT_THROW(bound.require_still_ours(), SystemError);
}

TEST(BoundSocketPath, RemovesItsOwnFileOnly) {
    const TemporaryFolder folder;
    const std::string path = folder.file("s");
    const auto first = bind_to(path, true);
    { const BoundSocketPath bound(path); }
    EXPECT_FALSE(exists(path));

    const auto second = bind_to(path, true);
    std::optional<BoundSocketPath> bound(std::in_place, path);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    const auto thief = bind_to(path, true);
    bound.reset();
    EXPECT_TRUE(exists(path));
}

TEST(RunDirectoryLock, IsHeldByOne) {
    const TemporaryFolder folder;
    {
        const RunDirectoryLock lock(folder.path());
        EXPECT_EQ(kind_of([&] { RunDirectoryLock second(folder.path()); }), ErrorKind::RunInUse);
    }
    EXPECT_NO_THROW(RunDirectoryLock(folder.path()));
    EXPECT_EQ(kind_of([&] { RunDirectoryLock(folder.file("none")); }), ErrorKind::System);
}

}  // namespace
}  // namespace offramp
