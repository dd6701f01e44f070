#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// Distinguishes states of a picture's file: a hash of its size, of its last change, and of the picture's place in it.
// Blocks: on the file system. 0: the file does not exist.
std::uint64_t stamp_of(const PicturePlace& place);

// The stamps of the pictures of a run with tiles, as they were when the run began, in a file of the run's directory
// (run_files::kPictureStamps): consumers write them into the working files of masks, and a producer that recovers the
// run holds pictures to them.
//
//   "OFFRSTMP", then for each picture 16 bytes, little-endian: a hash of its key, its stamp; ascending by the hash
class PictureStamps {
  public:
    void add(std::string_view key, std::uint64_t stamp);
    // 0: none is known.
    std::uint64_t of(std::string_view key) const;

    // `readable_by_group`: consumers of another user are let in. Errors: SystemError (CannotWrite).
    void keep(const std::string& path, bool readable_by_group);
    // Empty for a run that has stored none. Errors: ProtocolError where the file is damaged.
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
