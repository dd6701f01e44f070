#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.hpp"
#include "common/base/items.hpp"

namespace offramp {

struct MergeOutcome {
    std::size_t segments = 0;
    std::size_t kept = 0;  // items of the previous output
    std::size_t items = 0;
    std::size_t repeats = 0;    // items that were there already, with the same lines
    std::size_t conflicts = 0;  // items that were there with other lines: the latest segment's are kept
};

// A record of a segment: a line, or what a series has instead.
struct SegmentRecord {
    std::uint64_t item = 0;
    std::size_t bytes = 0;
    const char* damage = nullptr;  // what is wrong, when it is not a record
};

// The records of the next item, each item once, in the order of their numbers; empty: there are no more. Valid until
// the next call.
using NextRecords = std::function<std::string_view()>;

// The form of the records of a series, and of the merged file; by default lines for both.
struct SegmentForm {
    // The one that `text` begins with.
    SegmentRecord (*first)(std::string_view text);
    // The path of a file with the records of a merged file: its own, or `scratch`, which is made then.
    std::string (*records_of)(const std::string& merged, const std::string& scratch);
    // Takes all of them; replaces the merged file as AtomicFile does.
    void (*write)(const std::string& merged, const NextRecords& next, Durability durability);
};
const SegmentForm& lines_form();

// The record at `begin`, which is before the file's end.
class RecordFile;
SegmentRecord record_at(RecordFile& file, std::uint64_t begin, const SegmentForm& form);

// Makes one file of all segments of a series: every item once, sorted by number; then removes those segments, and none
// that came since. What `output_file` has is the same work's, of a merge before this one: each item stays, unless a
// segment has it. Without segments it leaves `output_file` as it is. Deliveries of the same samples, however often and
// however grouped, merge to the same bytes.
//
// Killed at any point and called again, the result is the same: the file is replaced whole, then one segment after the
// other is removed, and those that are left are merged into it once more, to no effect. Call it when no process writes
// segments any more. Memory: an index of 32 to 64 bytes an item, the largest segment, and of each of 16 files a
// mebibyte or its longest item; segments are read twice. Errors: SystemError with CannotWrite; Error for a segment that
// cannot be read; ProtocolError for a damaged one, by name.
MergeOutcome merge_segments(const std::string& folder, std::string_view name, const std::string& output_file,
                            Durability durability = Durability::Process, const SegmentForm& form = lines_form());
void remove_segments(const std::string& folder, std::string_view name);
bool has_segments(const std::string& folder, std::string_view name);

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
