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

// Makes what a ProcessorSpec names: a shared object's processor, an executable's, or `python`'s, which is null outside
// of an interpreter. Borrows: `python`, which outlives the processor. Errors: ConfigError.
std::unique_ptr<Processor> make_hosted(const ProcessorSpec& spec, const ProcessorOptions& options,
                                       const offramp_processor* python);

// Before a run: whether each of the run's processors that are not ours could be made. Errors: ConfigError.
void check_hosted(const RunConfig& config, const offramp_processor* python);

// --processor-option, "KEY=VALUE,KEY=VALUE"; a comma in a value has a backslash in front. Errors: ConfigError.
std::vector<std::pair<std::string, std::string>> processor_options(std::string_view text);

// A shared object with a processor: `--processor so:PATH`. Owns: the opened object, for the rest of the process: its
// threads may still run its code. Errors: ConfigError with the path: it does not exist, cannot be loaded, exports no
// offramp_processor_v1(), or another version's.
const offramp_processor& open_processor(const std::string& path);

// Whether one of the run's processors is written in Python.
bool needs_interpreter(const RunConfig& config);

// Becomes the interpreter of --consumer-python, which goes on with the same command line, as the module offramp.worker:
// the same process, with the same descriptors. Returns only by an error: ConfigError if the interpreter does not exist,
// or its package and library are not beside this program.
[[noreturn]] void become_interpreter(const RunConfig& config, int argc, const char* const* argv);

}  // namespace offramp
