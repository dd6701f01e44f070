#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.hpp"

namespace offramp {

// A part of a list of pictures. It begins with a line, and ends where the next part begins.
struct ListPart {
    std::uint64_t offset = 0;      // in the list's bytes
    std::uint64_t first_item = 0;  // number of its first item
    std::uint64_t hash = 0;        // XXH3 of its bytes
};

// JOB/input.index: facts about a job's list of pictures, with which a shard reads only its own part of the list:
//
//     offset  bytes
//          0      8  "offrlist"
//          8      8  version
//         16      8  size of the list
//         24      8  its time of modification, in nanoseconds; 0: the job made the list
//         32      8  hash of the folder that keys are relative to
//         40      8  items
//         48      8  hash of all items: source_hash()
//         56      8  bytes of the longest key
//         64      8  size of the items file
//         72 24 * N  the parts
//  72 + 24 * N    8  XXH3 of all bytes before it
//
// Numbers are little-endian. JOB/input.items beside it is the items file of a checkpoint of all items. Only lists of
// independent keys (ItemKeys) have an index: a shard cannot see whether other keys equal its own. Without these files,
// or if they do not match the list, a shard reads the whole list.
//
// Version rule: raised with each change; a program ignores an index of another version.
struct ListFacts {
    std::uint64_t list_bytes = 0;
    std::uint64_t list_changed_ns = 0;
    std::uint64_t folder_hash = 0;
    std::uint64_t items = 0;
    std::uint64_t items_hash = 0;
    std::uint64_t max_key_bytes = 0;
    std::uint64_t items_file_bytes = 0;
};

struct ListIndex : ListFacts {
    static constexpr std::uint64_t kVersion = 1;

    std::vector<ListPart> parts;
    std::string items_file;  // its path; not in the file

    // Who wrote the list. Each job init writes the same one again, so that its time identifies nothing.
    enum class Owner { User, Job };

    // Sets the list's size and time, and the folder's hash. Call it before the list is read. Errors: Error with the
    // reason.
    void describe(const std::string& list, const std::string& folder, Owner owner);
    void write(WholeFile& file) const;

    // The index at `path`. Blocks: on the file system. Errors: Error with the reason that it cannot be used for `list`:
    // missing, damaged, or of another state of the list.
    static std::shared_ptr<const ListIndex> read(const std::string& path, const std::string& list,
                                                 const std::string& folder, Owner owner);

    // The paths of index and items file that job init makes for a list, or keeps as JOB/input.
    static std::string path_for(const std::string& list) { return list + ".index"; }
    static std::string items_path_for(const std::string& list) { return list + ".items"; }
};

}  // namespace offramp
