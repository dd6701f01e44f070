#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace offramp {

// One ordinary file in a tar archive.
struct TarMember {
    std::string name;          // as stored: may be absolute, and contain ".." and any bytes except NUL
    std::uint64_t offset = 0;  // of its data in the archive
    std::uint64_t bytes = 0;
};

// Counts the members that are not ordinary files with their data in the archive.
struct TarLeftOut {
    std::uint64_t links = 0;           // hard or symbolic, to other members
    std::uint64_t sparse = 0;          // files with holes, as GNU tar writes them
    bool continues_after_end = false;  // another archive follows
};

// Reads the headers of a tar archive and passes its ordinary files to `take`, in order. Formats: ustar, pax (path and
// size) and GNU (long names, large sizes). Skips folders, links and devices; does not read files' data. `left_out`, if
// not null, counts skipped members. Returns the problem in one line: where the archive ends too early, or is damaged.
// Returns nothing if the archive is complete, that is, has an end mark (a block of zeros). The last member passed to
// `take` may reach beyond the archive's end. `read_at` must read as many bytes as requested, or fewer at the archive's
// end. Errors: those of `read_at` and `take`.
std::optional<std::string> index_tar(
    const std::function<std::size_t(std::uint64_t offset, char* to, std::size_t bytes)>& read_at,
    const std::function<void(const TarMember& member)>& take, TarLeftOut* left_out = nullptr);

}  // namespace offramp
