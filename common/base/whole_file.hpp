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

// A file that appears whole or not at all: written as PATH.new, then renamed to PATH, over what was there. For folders
// in which one process at a time writes a path. Consumers, of which many may write one, give it a temporary file of
// their own (AtomicFile in consumer/sinks).
//
// Owns the file. A link at PATH.new is not followed; what a death left there is overwritten. Thread: one at a time.
// Blocks: on the disk. Errors: what `failure` gives is thrown.
class WholeFile {
  public:
    WholeFile(std::string path, mode_t mode, WriteFailure failure);
    // For a folder of several hosts, where a second one may write the path at once: the temporary file's name is its
    // own.
    static WholeFile among_others(std::string path, mode_t mode, WriteFailure failure);
    // `file`: open for writing, and called `temporary`, which lies beside `path`.
    WholeFile(std::string path, std::string temporary, UniqueFd file, WriteFailure failure);
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    // Removes what was not put in place.
    ~WholeFile();

    // Gives it `mode` whatever the umask is.
    void set_mode(mode_t mode);
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    // Its length: what lies behind what was written reads as zeros, and takes no room.
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
