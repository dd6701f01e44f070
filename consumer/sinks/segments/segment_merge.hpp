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
    std::size_t kept = 0;  // items kept from the previous output
    std::size_t items = 0;
    std::size_t repeats = 0;    // items found again with the same lines
    std::size_t conflicts = 0;  // items found again with other lines: the latest segment's are kept
};

// A record of a segment: a line, or another form that the series uses.
struct SegmentRecord {
    std::uint64_t item = 0;
    std::size_t bytes = 0;
    const char* damage = nullptr;  // the fault, if it is not a valid record
};

// The records of the next item, each item once, in ascending order of item numbers; empty at the end. Valid until the
// next call.
using NextRecords = std::function<std::string_view()>;

// The form of a series' records and of the merged file; by default both consist of lines.
struct SegmentForm {
    // Reads the first record of `text`.
    SegmentRecord (*first)(std::string_view text);
    // The path of a file with the records of a merged file: `merged` itself, or `scratch`, which it then creates.
    std::string (*records_of)(const std::string& merged, const std::string& scratch);
    // Writes all records; replaces the merged file as AtomicFile does.
    void (*write)(const std::string& merged, const NextRecords& next, Durability durability);
};
const SegmentForm& lines_form();

// Reads the record at `begin`, which is before the file's end.
class RecordFile;
SegmentRecord record_at(RecordFile& file, std::uint64_t begin, const SegmentForm& form);

// Merges all segments of a series into one file, with every item once, sorted by number. Then removes these segments,
// but none that were added since. `output_file` may hold an earlier merge of the same work: its items stay unless a
// segment has them. Without segments, `output_file` stays unchanged. Repeated and differently grouped deliveries of the
// same samples merge to the same bytes.
//
// May be killed at any point and called again, with the same result: it replaces the file whole, then removes one
// segment after the other, and merging the remaining segments again has no effect. Call it when no process writes
// segments any more.
//
// Memory: an index of 32 to 64 bytes an item, the largest segment, and for each of 16 files a mebibyte or its longest
// item. It reads segments twice. Errors: SystemError with CannotWrite; Error for a segment that cannot be read;
// ProtocolError, with the name, for a damaged one.
MergeOutcome merge_segments(const std::string& folder, std::string_view name, const std::string& output_file,
                            Durability durability = Durability::Process, const SegmentForm& form = lines_form());
bool has_segments(const std::string& folder, std::string_view name);

// The folder of a job's shard, and the range of items whose results count.
struct ShardPart {
    std::string folder;
    ItemRange items;
    std::vector<std::string> files;  // names of the files that the shard left there: they must exist
    std::string to_do_again{};       // how to redo the shard, for errors

    // True if the shard left that file. Errors: Error with BadInput if it did and the file is gone.
    bool has(const std::string& file) const;
    // A unique name for a file beside `file`.
    std::string scratch(const std::string& file) const;
};

// Joins the files FOLDER/`file` that the shards' own runs merged, into what merge_segments() would have made of all
// shards' segments. `parts`: in the order of their items; parts without the file are skipped. Does nothing if no part
// has one. The parts stay. May be killed at any point and called again, with the same result. Memory: the longest item,
// and a mebibyte. Errors: as merge_segments().
void join_parts(std::span<const ShardPart> parts, const std::string& file, const std::string& output_file,
                Durability durability = Durability::Process, const SegmentForm& form = lines_form());

}  // namespace offramp
