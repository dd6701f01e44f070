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

// Makes the error for an errno. The caller knows the file's purpose and the fix.
using WriteFailure = std::function<SystemError(int errno_value)>;

// Writes everything, however little of it the kernel takes at a time. Blocks: on the file. Errors: what `failure` gives
// is thrown.
void write_all(int fd, std::span<const std::byte> bytes, const WriteFailure& failure);

// A file that appears whole or not at all: written as PATH.new, then renamed over PATH. For folders in which one
// process at a time writes a path. Consumers, of which several may write the same path, use unique temporary files
// (AtomicFile in consumer/sinks).
//
// Owns the file. A link at PATH.new is not followed; what a death left there is overwritten. Thread: one at a time.
// Blocks: on the disk. Errors: what `failure` gives is thrown.
class WholeFile {
  public:
    WholeFile(std::string path, mode_t mode, WriteFailure failure);
    // For a folder of several hosts, which may write the path concurrently: the temporary file has a unique name.
    static WholeFile among_others(std::string path, mode_t mode, WriteFailure failure);
    // `file`: open for writing under the name `temporary`, beside `path`.
    WholeFile(std::string path, std::string temporary, UniqueFd file, WriteFailure failure);
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    // Removes the file unless it was put in place.
    ~WholeFile();

    // Gives it `mode` whatever the umask is.
    void set_mode(mode_t mode);
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    // Sets the length: bytes after the written ones read as zeros, and use no space.
    void set_size(std::uint64_t bytes);
    // The bytes are on the disk when this returns.
    void flush();
    // The file has its name when this returns: given back open, for those who append to it (O_APPEND).
    UniqueFd put_in_place();
    // Instead: nothing that has the name is replaced. False: something has it, and this file is gone.
    bool put_in_place_if_none();
    // The name is on the disk when this returns.
    void flush_name();

  private:
    void ask_for_late_errors();

    std::string path_, temporary_;
    WriteFailure failure_;
    UniqueFd file_;
};

// The failures that a committed result and its record survive.
enum class Durability {
    Process,   // the death of every process
    PowerCut,  // and that of the machine: file, then folder, are flushed to the disk before the commit returns
};

// Opens a file of the user's for reading at any place, links followed, and refuses what is none: a folder, a pipe
// (whose writer is not waited for), a device. It is read, not mapped: a file that shrinks gives a short result, not a
// SIGBUS. Owns the open file. Thread: any, and several concurrently. Blocks: on the disk. Units: bytes. Errors: Error
// with the reason alone, without the path, so that the caller adds the file's purpose: "cannot be opened: ..." NoInput,
// "a folder, not a file" and "not a regular file" BadInput, "cannot be read: ..." NoInput.
class RegularFile {
  public:
    explicit RegularFile(const std::string& path);

    std::uint64_t size() const noexcept { return size_; }  // when it was opened
    // Fills `to` from `offset` on, as far as the file goes. Returns how much was there.
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;

  private:
    UniqueFd fd_;
    std::uint64_t size_ = 0;
};

// Reads a whole file through a private mapping. Owns the mapping. Thread: any. Errors: SystemError with the path.
class MappedFile {
  public:
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::span<const std::byte> bytes_;  // empty: nothing is mapped
};

}  // namespace offramp
