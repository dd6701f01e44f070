#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/durability.hpp"
#include "common/base/item_ranges.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

namespace offramp {

// The folder of a job's shard, of which the results of these items count.
struct ShardPart {
    std::string folder;
    ItemRange items;
    std::vector<std::string> files;  // which it left there, by name: they have to be there
    std::string to_do_again{};       // how it is made anew, for errors

    // Whether it left that file. Errors: Error with BadInput where it did, and it is not there any more.
    bool has(const std::string& file) const;
    // A unique name beside its files.
    std::string scratch(const std::string& file) const;
};

// Makes one file of those that the shards' own runs merged, FOLDER/`file` of each part that left one: what
// merge_segments() would have made of all shards' segments. `parts`: in the order of their items. Where no part has
// one, nothing is done. The parts stay. Killed at any point and called again, the result is the same. Memory: the
// longest item, and a mebibyte. Errors: as merge_segments().
void join_parts(std::span<const ShardPart> parts, const std::string& file, const std::string& output_file,
                Durability durability = Durability::Process, const SegmentForm& form = lines_form());

}  // namespace offramp
