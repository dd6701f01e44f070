#include "common/base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <type_traits>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/scratch_folder.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

static_assert(!std::is_copy_constructible_v<RegularFile> && std::is_nothrow_move_constructible_v<RegularFile>);

struct RegularFileTest : ::testing::Test {
    std::string write(const std::string& name, const std::string& text) const {
        const std::string path = folder / name;
        std::ofstream(path) << text;
        return path;
    }

    static std::string read(const RegularFile& file, std::uint64_t offset, std::size_t bytes) {
        std::string text(bytes, '?');
        text.resize(file.read_at(offset, std::as_writable_bytes(std::span(text))));
        return text;
    }

    static std::string refusal(const std::string& path, ErrorKind code) {
        return test::error_of([&] { const RegularFile file(path); }, code);
    }

    test::ScratchFolder scratch;
    fs::path folder = scratch.path();
};

TEST_F(RegularFileTest, ReadsAtAnyOffset) {
    const RegularFile file(write("a", "0123456789"));
    EXPECT_EQ(file.size(), 10U);
    EXPECT_EQ(read(file, 0, 10), "0123456789");
    EXPECT_EQ(read(file, 3, 4), "3456");
    EXPECT_EQ(read(file, 8, 4), "89");
    EXPECT_EQ(read(file, 10, 4), "");
    EXPECT_EQ(read(file, 1'000'000, 4), "");
    EXPECT_EQ(read(file, 0, 0), "");
    EXPECT_EQ(RegularFile(write("empty", "")).size(), 0U);
}

TEST_F(RegularFileTest, ReturnsFewerBytesWhenTheFileShrinks) {
    const std::string path = write("a", "0123456789");
    const RegularFile file(path);
    fs::resize_file(path, 4);
    EXPECT_EQ(read(file, 0, 10), "0123");
    EXPECT_EQ(file.size(), 10U);
}

TEST_F(RegularFileTest, FollowsLinks) {
    write("a", "behind a link");
    fs::create_symlink("a", folder / "link");
    EXPECT_EQ(read(RegularFile(folder / "link"), 0, 64), "behind a link");
}

TEST_F(RegularFileTest, RefusesANonFileWithoutWaiting) {
    EXPECT_EQ(refusal(folder / "none", ErrorKind::NoInput), "cannot be opened: No such file or directory");
    EXPECT_EQ(refusal(write("a", "") + "/below", ErrorKind::NoInput), "cannot be opened: Not a directory");
    EXPECT_EQ(refusal(folder, ErrorKind::BadInput), "a folder, not a file");
    EXPECT_EQ(refusal("/dev/zero", ErrorKind::BadInput), "not a regular file");
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0644), 0);
    EXPECT_EQ(refusal(folder / "pipe", ErrorKind::BadInput), "not a regular file");
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(refusal(folder / "socket", ErrorKind::BadInput), "not a regular file");  // it cannot even be opened
    fs::create_symlink("loop", folder / "loop");
    EXPECT_EQ(refusal(folder / "loop", ErrorKind::NoInput), "cannot be opened: Too many levels of symbolic links");
}

TEST_F(RegularFileTest, ReportsAMissingPermission) {
    fs::permissions(folder, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
    const std::string file = write("a", "x");
    fs::create_directory(folder / "locked");
    for (const fs::path& path : {fs::path(file), folder / "locked"}) fs::permissions(path, fs::perms::none);
    const auto user = static_cast<uid_t>(::setfsuid(65534));  // only this thread, and only as root
    const std::string file_reason = refusal(file, ErrorKind::NoInput);
    const std::string folder_reason = refusal(folder / "locked", ErrorKind::NoInput);
    ::setfsuid(user);
    EXPECT_EQ(file_reason, "cannot be opened: Permission denied");
    EXPECT_EQ(folder_reason, "a folder that cannot be listed: Permission denied");
}

// /proc/self/mem is a regular file whose first byte is unreadable.
TEST_F(RegularFileTest, ReportsADiskError) {
    const RegularFile memory("/proc/self/mem");
    try {
        read(memory, 0, 8);
        FAIL() << "it was read";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "cannot be read: Input/output error");
        EXPECT_EQ(error.kind(), ErrorKind::NoInput);
    }
}

TEST_F(RegularFileTest, IsNotInheritedAndClosesWithItsOwner) {
    const std::string path = write("a", "x");
    const auto open_here = [&] {
        int found = -1;
        for (int fd = 0; fd < 256; ++fd) {
            std::error_code none;
            if (fs::read_symlink("/proc/self/fd/" + std::to_string(fd), none) == path) found = fd;
        }
        return found;
    };
    {
        const RegularFile file(path);
        ASSERT_GE(open_here(), 0);
        EXPECT_NE(::fcntl(open_here(), F_GETFD) & FD_CLOEXEC, 0);
    }
    EXPECT_EQ(open_here(), -1);
}

}  // namespace
}  // namespace offramp
