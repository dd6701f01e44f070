#include "common/quarantine/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;

[[noreturn]] void fail(const std::string& tried, int problem) {
    throw SystemError(tried, problem, "Make room there, or give the run another --run-dir", ExitCode::CannotWrite);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& tried) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kMostAtOnce));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail(tried, errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

}  // namespace

void write_whole_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
    std::size_t total = 0;
    for (const auto& piece : pieces) total += piece.size();
    const std::string temporary = path + ".new";
    const std::string tried = "writing " + path + ", " + std::to_string(total) + " bytes";
    const UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) fail(tried, errno);
    try {
        for (const auto& piece : pieces) write_all(file.get(), piece, tried);
        if (::fsync(file.get()) != 0) fail(tried, errno);
        if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(tried, errno);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    const UniqueFd directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // A file system that cannot do this for a folder has nothing better to offer.
    if (!directory || (::fsync(directory.get()) != 0 && errno != EINVAL)) fail(tried + ", its folder", errno);
}

void write_whole_file(const std::string& path, std::string_view text) {
    const std::array pieces{std::as_bytes(std::span(text))};
    write_whole_file(path, pieces);
}

}  // namespace offramp
