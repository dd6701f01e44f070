#pragma once

#include "common/settings/run_config.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Looks whether results would lie in the folder that is the input, where the next run would read them, or one would
// have the name of a file that the run reads. By the names alone: results of an item are KEY.SOMETHING in the output
// folder (with several processors, in the folder of each). Cheap where no item lies in there. `config` is resolved.
// Errors: ConfigError naming both.
void require_results_apart(const RunConfig& config, const BatchSource& source);

}  // namespace offramp
