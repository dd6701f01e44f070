#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Writes a stream of bytes to a character device (/dev/null) or a FIFO. Written bytes cannot be withdrawn, and bytes of
// several writers mix. Use it to measure, or to feed another program.
//
// Owns the open descriptor. Thread: one at a time. Blocks: write() while a FIFO is full. Errors: ConfigError if the
// path is neither a device nor a FIFO; Error with SinkUnavailable when a FIFO has no reader, initially or later (no
// SIGPIPE stays pending); SystemError with CannotWrite for anything else.
class StreamFile {
  public:
    explicit StreamFile(std::string path);

    void write(std::span<const std::byte> bytes);

  private:
    std::string path_;
    UniqueFd file_;
    bool fifo_ = false;
};

}  // namespace offramp
