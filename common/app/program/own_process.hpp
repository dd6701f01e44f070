#pragma once

#include <string>
#include <string_view>

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

// Lets this process open as many descriptors as the system allows it to. Where it may not, it stays with what it has.
void raise_descriptor_limit() noexcept;

// Memory that this process frees stays with it, for what is allocated next: a program that does the same work for each
// batch takes no page fault for it but the first time. glibc would give large pieces back with each free() and have
// them filled with zeros by the kernel anew. The process keeps as much as it once needed at a time.
// Thread: any; before the work begins. Errors: none.
void keep_freed_memory() noexcept;

// Where files lie that the programs need beside themselves (weights that a model is shipped with, the tokenizer's
// server): share/ beside the folder of this program. Errors: SystemError without /proc.
std::string data_folder();

// Records the time ranges of a whole process (--trace-dir). save_recording() writes them to FOLDER/PROCESS-PID.jsonl
// (common/tracing/live_trace.hpp). Thread: before other threads start. Errors: none.
void start_recording(const std::string& folder, std::string_view process, std::string_view strategy);
// Does nothing without start_recording(). Thread: any. Errors: none; a file that cannot be written is a warning.
void save_recording() noexcept;

}  // namespace offramp
