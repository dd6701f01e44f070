#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Writes bytes one after another to something that is not a regular file: a character device (/dev/null) or a FIFO.
// Nothing written can be taken back, and several writers' bytes are mixed: it serves to measure and to feed another
// program.
//
// Owns the open descriptor. Thread: one at a time. Blocks: write() while a FIFO is full.
// Errors: ConfigError for what is neither device nor FIFO; Error with SinkUnavailable when a FIFO has no
// reader (at first or any more; no SIGPIPE is left behind); SystemError with CannotWrite for anything else.
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
