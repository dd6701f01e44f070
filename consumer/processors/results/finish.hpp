#pragma once

namespace offramp {

struct RunConfig;

// Does what is to be done once, before the programs of a run: looks at what earlier runs left in its output, and
// settles where its own results go (common/app/program/next_place.hpp): on from where the run is that it continues,
// beside the results of another, or in place where there are none. Of results it removes none; those of a run that had
// come to its end and was killed while they were put in their place get there now. May be killed and called again.
// Errors: ConfigError where results are not Offramp's, or of a run that came to its end, unless --overwrite asks for
// their replacement or --resume continues it; those of RunOutput::look() and put_in_place().
void prepare_run(const RunConfig& config);

// Does what is to be done once, when all consumers of a run are gone (`config.run_id`; empty: the one of the checkpoint
// there): finishes what its processors appended to (RunOutput::finish); when the run has come to its end, puts it in
// the place of a previous run's; removes what cannot be continued any more, and temporary files of dead consumers. May
// be killed and called again, with the same settings or by the next run's prepare_run(). Errors: those of RunOutput and
// remove_stale_temporaries().
void finish_run(const RunConfig& config);

}  // namespace offramp
