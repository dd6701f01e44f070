#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/durability.hpp"

namespace offramp {

// Where the segments of one series lie below an output folder: ".offramp-segments/NAME".
std::string segment_folder(const std::string& folder, std::string_view name);

// Collects the lines of one delivery and commits them as one immutable file, for formats that are appended to. A line
// is "item<TAB>field<TAB>field...", or {"item":N,...}: the item's number in the source replaces its batch and row.
//
// The file is named BATCH-ROW-CONTENT.tsv: the position of its first sample in the run's input, and the XXH3 of its
// bytes. So the same samples, delivered again, replace the file by itself, differently grouped they make another file
// and never hide a line; segment_merge.hpp makes one of all.
//
// Thread: one. Blocks: commit() on the file system. Errors: commit() throws SystemError with CannotWrite.
class SegmentFile {
  public:
    SegmentFile(const std::string& folder, std::string_view name, Durability durability = Durability::Process)
        : folder_(segment_folder(folder, name)), durability_(durability) {}

    // Drops the collected lines; `row` counts in the batch, not in the slab.
    void begin(std::uint64_t batch, std::uint32_t row);
    // Fields may hold anything: tabs, newlines and backslashes are escaped. All lines of an item follow one
    // another.
    void add_line(std::uint64_t item, std::initializer_list<std::string_view> fields);
    // A line of JSON instead: an object that begins with "item", followed by these members, "key":"a","size":[2,3]. No
    // newlines.
    void add_json(std::uint64_t item, std::string_view members);
    // A record of another form, for a merge that knows it (SegmentForm).
    void add_record(std::string_view record) { text_ += record; }
    // Writes nothing without lines.
    void commit();

  private:
    std::string folder_;
    Durability durability_;
    std::string text_;
    std::uint64_t batch_ = 0;
    std::uint32_t row_ = 0;
};

// The prefix of a line of JSON before the item's number.
inline constexpr std::string_view kJsonLine = "{\"item\":";

// The name of a segment file of this content, and whether a name was made so.
std::string segment_file_name(std::uint64_t batch, std::uint32_t row, std::string_view text);
bool is_segment_name(std::string_view file_name);

}  // namespace offramp
