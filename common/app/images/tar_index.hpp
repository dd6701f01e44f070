#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace offramp {

// One ordinary file in a tar archive.
struct TarMember {
    std::string name;          // as stored: may be absolute, hold ".." and any bytes but NUL
    std::uint64_t offset = 0;  // of its bytes in the archive
    std::uint64_t bytes = 0;
};

// Counts of the members of an archive that are not ordinary files with bytes there.
struct TarLeftOut {
    std::uint64_t links = 0;           // hard or symbolic, to other members
    std::uint64_t sparse = 0;          // files with holes, as GNU tar writes them
    bool continues_after_end = false;  // another archive was put behind it
};

// Reads the headers of a tar archive, from one to the next, and hands out its ordinary files in their order: ustar, pax
// (path and size) and GNU (long names, large sizes). Folders, links and devices are passed over. Its bytes are not
// read. `left_out`, if any, counts skipped members. Returns the problem, in one line: where it ends too early, or is
// not a tar any more; nothing if it is whole, which its end mark shows (a block of zeros). The last member passed to
// `take` may be partly beyond the archive's end. `read_at` reads as many bytes as it is asked for, or fewer at the
// archive's end. Errors: what `read_at` and `take` throw.
std::optional<std::string> index_tar(
    const std::function<std::size_t(std::uint64_t offset, char* to, std::size_t bytes)>& read_at,
    const std::function<void(const TarMember& member)>& take, TarLeftOut* left_out = nullptr);

}  // namespace offramp
