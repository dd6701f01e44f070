#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Creates the error for an errno. The caller knows the file's purpose and the fix.
using WriteFailure = std::function<SystemError(int errno_value)>;

// Writes all bytes, with as many write() calls as needed. Blocks: on the file. Errors: throws the result of `failure`.
void write_all(int fd, std::span<const std::byte> bytes, const WriteFailure& failure);

// A file that appears as a whole or not at all: written as PATH.new, then renamed to PATH. Use it only if one process
// at a time writes a path. Several consumers may write the same path, so they use unique temporary files (AtomicFile in
// consumer/sinks).
//
// Owns the file. Does not follow a link at PATH.new; overwrites the remains of a dead process there. Thread: one at a
// time. Blocks: on the disk. Errors: throws the result of `failure`.
class WholeFile {
  public:
    WholeFile(std::string path, mode_t mode, WriteFailure failure);
    // For a folder that several hosts share, and which may write the path concurrently: the temporary file has a unique
    // name.
    static WholeFile among_others(std::string path, mode_t mode, WriteFailure failure);
    // `file`: open for writing, with the name `temporary` in the folder of `path`.
    WholeFile(std::string path, std::string temporary, UniqueFd file, WriteFailure failure);
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    // Removes the file, unless it was put in place.
    ~WholeFile();

    // Sets the file's mode, independent of the umask.
    void set_mode(mode_t mode);
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    // Sets the length. Bytes after the written data read as zeros, and use no space.
    void set_size(std::uint64_t bytes);
    // Returns once the bytes are on the disk.
    void flush();
    // Gives the file its final name. Returns it open, so that the caller can append (O_APPEND).
    UniqueFd put_in_place();
    // The same, but does not replace an existing file. Returns false, and removes this file, if the name exists.
    bool put_in_place_if_none();
    // Returns once the name is on the disk, and those of the folders above it.
    void flush_name();

  private:
    void ask_for_late_errors();

    std::string path_, temporary_;
    WriteFailure failure_;
    UniqueFd file_;
};

// Returns once the names in the folder are on the disk, and those of the folders above it. Accepts a file system that
// cannot flush a folder. Thread: any. Blocks: on the disk. Errors: throws the result of `failure`.
void flush_names(const std::string& folder, const WriteFailure& failure);

// The failures that a committed result and its record survive.
enum class Durability {
    Process,   // the death of every process
    PowerCut,  // also a power cut: file, then folder, are flushed to the disk before the commit returns
};

// Opens a user's file for random reads. Follows links. Rejects a folder, a device, and a pipe (without waiting for its
// writer). Reads instead of mapping: a file that shrinks gives a short result, not a SIGBUS. Owns the open file.
// Thread: any, concurrently. Blocks: on the disk. Units: bytes. Errors: Error with only the reason, so that the caller
// adds the path and the file's purpose: "cannot be opened: ..." NoInput, "a folder, not a file" and "not a regular
// file" BadInput, "cannot be read: ..." NoInput.
class RegularFile {
  public:
    explicit RegularFile(const std::string& path);

    std::uint64_t size() const noexcept { return size_; }  // when the file was opened
    // Fills `to` from `offset` on, up to the end of the file. Returns the number of bytes read.
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;

  private:
    UniqueFd fd_;
    std::uint64_t size_ = 0;
};

// Maps a whole file privately for reading. Owns the mapping. Thread: any. Errors: SystemError with the path.
class MappedFile {
  public:
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;  // empty: no mapping
};

}  // namespace offramp
