#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/regular_file.hpp"
#include "consumer/sinks/files/atomic_file.hpp"

namespace offramp {

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
