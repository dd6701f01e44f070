#pragma once

#include "common/base/unique_fd.hpp"

namespace offramp {

// Turns SIGTERM and SIGINT into a readable descriptor, so that the one thread which waits for messages waits for them
// too and nothing is interrupted in the middle. Ignores SIGPIPE and SIGXFSZ: a log or a sink that is not read any
// more, and a file that may not become larger, are errors, not deaths.
//
// Owns: the descriptor. The signals stay blocked, in this thread and those it starts afterwards: make it first in main.
// Thread: one. Blocks: never. Errors: SystemError.
class EndSignals {
  public:
    EndSignals();

    int fd() const { return fd_.get(); }

  private:
    UniqueFd fd_;
};

}  // namespace offramp
