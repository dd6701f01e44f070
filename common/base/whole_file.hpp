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

}  // namespace offramp
