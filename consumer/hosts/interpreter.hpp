#pragma once

#include <string>

#include "common/app/settings/run_config.hpp"

namespace offramp {

// Whether one of the run's processors is written in Python.
bool needs_interpreter(const RunConfig& config);

// Becomes the interpreter of --consumer-python, which goes on with the same command line, as the module offramp.worker:
// the same process, with the same descriptors. Returns only by an error: ConfigError if the interpreter does not exist,
// or its package and library are not beside this program.
[[noreturn]] void become_interpreter(const RunConfig& config, int argc, const char* const* argv);

}  // namespace offramp
