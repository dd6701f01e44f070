#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <offramp_processor.h>
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

}  // namespace offramp
