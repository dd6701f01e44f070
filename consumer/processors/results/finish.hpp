#pragma once

namespace offramp {

struct RunConfig;

// Does what is to be done once, before the programs of a run: looks at what earlier runs left in its outputs, and
// with --overwrite renames a table that is there (RunOutput::set_aside). The launcher has done so with the folder. Of
// results it removes none. May be killed and called again. Errors: ConfigError where results are not Offramp's, or of
// another run, unless --resume continues it; those of RunOutput::look().
void prepare_run(const RunConfig& config);

// Does what is to be done once, when all consumers of a run are gone (`config.run_id`; empty: the one of the checkpoint
// there): finishes what its processors appended to (RunOutput::finish), and removes temporary files of dead consumers.
// May be killed and called again, with the same settings. Errors: those of RunOutput and remove_stale_temporaries().
void finish_run(const RunConfig& config);

}  // namespace offramp
