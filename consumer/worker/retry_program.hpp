#pragma once

#include <string>

#include "consumer/session/slab_processor.hpp"

namespace offramp {

// Processes the payload of one dead letter (common/dead_letters), without a run: no shared memory, no messages,
// nobody else to take over. Returns the program's exit code. Killed or thrown out, it has changed nothing but what the
// processor had committed.
//
// Borrows: processor. Thread: main's. Blocks: for as long as the processor takes. Errors: Error with its exit code;
// what the processor throws.
int retry_payload(const std::string& path, SlabProcessor& processor);

}  // namespace offramp
