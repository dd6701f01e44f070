#pragma once

#include <offramp_processor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {

// Makes the processor that a ProcessorSpec names: from a shared object, from an executable, or with `python`, which is
// null outside an interpreter. Borrows: `python`, which outlives the processor. Errors: ConfigError.
std::unique_ptr<Processor> make_hosted(const ProcessorSpec& spec, const ProcessorOptions& options,
                                       const offramp_processor* python);

// Checks before a run that each of the run's custom processors can be made. Errors: ConfigError.
void check_hosted(const RunConfig& config, const offramp_processor* python);

// Parses --processor-option, "KEY=VALUE,KEY=VALUE"; a backslash escapes a comma in a value. Errors: ConfigError.
std::vector<std::pair<std::string, std::string>> processor_options(std::string_view text);

// Opens a shared object with a processor: `--processor so:PATH`. Owns: the opened object, for the rest of the process,
// because its threads may still run its code. Errors: ConfigError with the path, if it does not exist, cannot be
// loaded, does not export offramp_processor_v1(), or has another version.
const offramp_processor& open_processor(const std::string& path);

// True if one of the run's processors is written in Python.
bool needs_interpreter(const RunConfig& config);

// Replaces this program with the interpreter of --consumer-python, running the module offramp.worker with the same
// command line. Process and descriptors stay the same. Returns only by an error: ConfigError if the interpreter does
// not exist, or its package and library are not beside this program.
[[noreturn]] void become_interpreter(const RunConfig& config, int argc, const char* const* argv);

}  // namespace offramp
