#pragma once

#include <string>

#include "consumer/session/slab_processor.hpp"

namespace offramp {

// Processes the payload of one dead letter (common/dead_letters), without a run: no shared memory, no messages,
// no other process to take over. Returns the program's exit code. Killed or thrown out, it has changed nothing but what
// the processor had committed.
//
// Borrows: processor. Thread: main's. Blocks: for as long as the processor takes. Errors: Error with its exit code;
// what the processor throws.
int retry_payload(const std::string& path, SlabProcessor& processor);

// The same, to find out which samples fail: the payload is processed whole, and a part that fails is cut in halves,
// until only single samples fail. Every other sample has its results then.
//
// `report` is a file of JSON lines, which this program appends to and flushes, for the process that started it:
//   {"trying":[FIRST,END]}                    samples FIRST to END-1, by their index in the payload
//   {"done":[FIRST,END]}                      they have their results
//   {"failed":[FIRST,END],"why":"..."}        they have not; a single sample is final
// Started again with the same report, it continues after the last line; a part under way has failed then: the program
// died in it.
//
// Returns the exit code: 0 once every sample is done or has failed alone. Borrows: processor. Thread: main's. Blocks:
// for as long as the processor takes. Errors: as above; SystemError when the report cannot be written.
int retry_samples(const std::string& path, const std::string& report, SlabProcessor& processor);

}  // namespace offramp
