#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/files.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

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

// A file of records, of which a window is in memory: bytes near the last read ones cost no system call. Owns the open
// file and the window: a mebibyte, or as much more as the longest piece that was asked for. Thread: one. Blocks: on the
// disk. Units: bytes. Errors: Error with the path when it cannot be opened or read, or has become shorter since it was
// opened.
class RecordFile {
  public:
    explicit RecordFile(std::string path);

    std::uint64_t size() const noexcept { return file_.size(); }
    // The file's bytes from `at` on: `least` bytes and perhaps more, fewer only at its end. Valid until the next call.
    std::string_view from(std::uint64_t at, std::uint64_t least);

  private:
    void read_window(std::uint64_t at, std::uint64_t bytes);

    std::string path_;
    RegularFile file_;
    std::string window_;
    std::uint64_t window_at_ = 0;
};

// Writes such a file, which appears whole or not at all; records reach the file system in pieces of a mebibyte.
// Owns an AtomicFile. Thread: one. Blocks and errors: as there.
class RecordWriter {
  public:
    explicit RecordWriter(const std::string& path, Durability durability = Durability::Process)
        : file_(path, durability) {}

    void add(std::string_view records);
    // The last call.
    void commit();

  private:
    void write_piece();

    AtomicFile file_;
    std::string piece_;
};

}  // namespace offramp
