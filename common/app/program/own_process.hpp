#pragma once

#include <string>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Turns SIGTERM and SIGINT into a readable descriptor, so that the thread that waits for messages also waits for
// signals, and no work is interrupted. Ignores SIGPIPE and SIGXFSZ: a closed log or sink, and a file at its size limit,
// are errors and do not kill the process.
//
// Owns: the descriptor. The signals stay blocked in this thread, and in threads that it starts afterwards: construct it
// first in main. Thread: one. Blocks: never. Errors: SystemError.
class EndSignals {
  public:
    EndSignals();

    int fd() const { return fd_.get(); }

  private:
    UniqueFd fd_;
};

// Raises this process's descriptor limit to the system's maximum. If that fails, the limit does not change.
void raise_descriptor_limit() noexcept;

// Makes this process keep freed memory for later allocations. A program that does the same work for each batch then
// takes page faults only once. By default, glibc returns large blocks with each free(), and the kernel zeroes them
// again. The process keeps its peak memory.
// Thread: any; call it before the work begins. Errors: none.
void keep_freed_memory() noexcept;

// The folder of files that the programs need at run time (weights shipped with a model, the tokenizer's server): share/
// beside this program's folder. Errors: SystemError without /proc.
std::string data_folder();

}  // namespace offramp
