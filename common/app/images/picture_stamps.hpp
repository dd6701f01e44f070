#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// Identifies a version of a picture's file: a hash of the file's size, its modification time, and the picture's
// position in it. 0 if the file does not exist. Blocks: on the file system.
std::uint64_t stamp_of(const PicturePlace& place);

// The stamps of a tiled run's pictures at the start of the run, in a file of the run directory
// (run_files::kPictureStamps). Consumers write them into masks' working files. A producer that recovers the run
// compares pictures with them.
//
//   "OFFRSTMP", then for each picture 16 bytes, little-endian: a hash of its key, its stamp; ascending by the hash
class PictureStamps {
  public:
    void add(std::string_view key, std::uint64_t stamp);
    // 0: unknown.
    std::uint64_t of(std::string_view key) const;

    // `readable_by_group`: consumers of another user may read the file. Errors: SystemError (CannotWrite).
    void keep(const std::string& path, bool readable_by_group);
    // Reads the file; empty if the run has stored none. Errors: ProtocolError if the file is damaged.
    static PictureStamps kept(const std::string& path);

  private:
    struct Entry {
        std::uint64_t key_hash;
        std::uint64_t stamp;
        auto operator<=>(const Entry&) const = default;
    };
    std::vector<Entry> entries_;
};

}  // namespace offramp
