#pragma once

#include <functional>
#include <memory>

#include "common/config/run_config.hpp"
#include "consumer/processors/processor.hpp"
#include "common/base/end_signals.hpp"

namespace offramp {

// Attaches one consumer to the run in config.run_dir, serves it to the end, and cleans up after the run when
// nobody else is left to do it. Returns the program's exit code.
//
// Borrows: config, signals, processor. Thread: main's. Blocks: for the length of the run. Errors: Error with
// its exit code.
int serve_run(const RunConfig& config, const EndSignals& signals, Processor& processor);

// Runs a program's body and turns what it throws into one line of log and its exit code.
int exit_code_of(const std::function<int()>& body) noexcept;

}  // namespace offramp
