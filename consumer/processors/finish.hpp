#pragma once

#include "common/config/run_config.hpp"

namespace offramp {

// Does what is to be done once, when all consumers of a run are gone: merges the checksums' segments to
// OUTPUT/checksums.tsv, and removes the temporary files of dead consumers. May be killed and called again.
// Without an output folder there is nothing to do. Errors: those of merge_segments() and
// remove_stale_temporaries().
void finish_run(const RunConfig& config);

}  // namespace offramp
