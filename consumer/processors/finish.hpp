#pragma once

#include "common/config/run_config.hpp"

namespace offramp {

// Does what is to be done once, when all consumers of a run are gone: finishes what its processors appended to (RunOutput::finish), and what processors of an earlier
// run left in their folders; removes the temporary files of dead consumers. May be killed and called again. Errors: those of RunOutput::finish() and
// remove_stale_temporaries().
void finish_run(const RunConfig& config);

// Does what is to be done once, before the programs of a run that continues no other: what earlier runs left of outputs that are
// appended to is no part of this one's. Files of their own stay until they are replaced. The manifest goes first, for it must not
// promise what is gone. May be killed and called again. Errors: those of RunOutput::require_replaceable(), before anything is
// removed; SystemError with CannotWrite.
void start_over(const RunConfig& config);

}  // namespace offramp
