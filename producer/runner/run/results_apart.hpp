#pragma once

#include "common/app/settings/run_config.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// Refuses results inside the input folder, where the next run would read them, and results with the name of an input
// file. Checks names only: results of an item are KEY.SOMETHING in the output folder (with several processors, in the
// folder of each). Cheap if no item is in there. `config` is resolved. Errors: ConfigError naming both.
void require_results_apart(const RunConfig& config, const BatchSource& source);

}  // namespace offramp
