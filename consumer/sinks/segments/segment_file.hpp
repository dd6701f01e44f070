#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/files.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {

// The folder of one series' segments below an output folder: ".offramp-segments/NAME".
std::string segment_folder(const std::string& folder, std::string_view name);

// Collects the lines of one delivery and commits them as one immutable file, for formats that are appended to. A line
// is "item<TAB>field<TAB>field...", or {"item":N,...}; the item's number in the source replaces batch and row.
//
// The file is named BATCH-ROW-CONTENT.tsv: the position of its first sample in the run's input, and the XXH3 of its
// bytes. The same samples, delivered again, replace the file with itself. Grouped differently, they make another file
// and hide no line; segment_merge.hpp merges all files into one.
//
// Thread: one. Blocks: commit(), on the file system. Errors: commit() throws SystemError with CannotWrite.
class SegmentFile {
  public:
    SegmentFile(const std::string& folder, std::string_view name, Durability durability = Durability::Process)
        : folder_(segment_folder(folder, name)), durability_(durability) {}

    // Discards the collected lines. `row` counts in the batch, not in the slab.
    void begin(std::uint64_t batch, std::uint32_t row);
    // Adds a line. Fields may hold any bytes: tabs, newlines and backslashes are escaped. Add all lines of an item
    // consecutively.
    void add_line(std::uint64_t item, std::initializer_list<std::string_view> fields);
    // Adds a line of JSON: an object that begins with "item", followed by `members`, such as "key":"a","size":[2,3]. No
    // newlines.
    void add_json(std::uint64_t item, std::string_view members);
    // Adds a record of another form, which the merge must know (SegmentForm).
    void add_record(std::string_view record) { text_ += record; }
    // Does nothing without lines.
    void commit();

  private:
    std::string folder_;
    Durability durability_;
    std::string text_;
    std::uint64_t batch_ = 0;
    std::uint32_t row_ = 0;
};

// How a line of JSON begins, before the item's number.
inline constexpr std::string_view kJsonLine = "{\"item\":";

// The name of a segment file with this content; and whether a name has that form.
std::string segment_file_name(std::uint64_t batch, std::uint32_t row, std::string_view text);
bool is_segment_name(std::string_view file_name);

// Reads a file of records through a window in memory: reads near the last one cost no system call. Owns the open file
// and the window: a mebibyte, or more if a longer piece was requested. Thread: one. Blocks: on the disk. Units: bytes.
// Errors: Error with the path when the file cannot be opened or read, or has shrunk since it was opened.
class RecordFile {
  public:
    explicit RecordFile(std::string path);

    std::uint64_t size() const noexcept { return file_.size(); }
    // The file's bytes from `at` on: at least `least` bytes, fewer only at its end. Valid until the next call.
    std::string_view from(std::uint64_t at, std::uint64_t least);

  private:
    void read_window(std::uint64_t at, std::uint64_t bytes);

    std::string path_;
    RegularFile file_;
    std::string window_;
    std::uint64_t window_at_ = 0;
};

// Writes a file of records, which appears whole or not at all. It writes to the file system in pieces of a mebibyte.
// Owns an AtomicFile. Thread: one. Blocks and errors: as AtomicFile.
class RecordWriter {
  public:
    explicit RecordWriter(const std::string& path, Durability durability = Durability::Process)
        : file_(path, durability) {}

    void add(std::string_view records);
    // Make no further calls.
    void commit();

  private:
    void write_piece();

    AtomicFile file_;
    std::string piece_;
};

}  // namespace offramp
