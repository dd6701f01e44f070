#pragma once

#include <functional>
#include <string>

#include "common/app/settings/sections/result_settings.hpp"
#include "consumer/processors/results/previous_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {

struct RunConfig;

// The steps on outputs that a run's processors append to, before and after the run: the parts of prepare_run(),
// finish_run() and their counterparts for a custom program's run. Each may be killed, and is made again.
// `config`: whole, since each processor finds there what it declares for itself. `next_place`: where the run's results
// lie (common/app/program/next_place.hpp); empty: in place. Errors: those of RunOutput.

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work);

// The results of the run, in the folders of its next place or in place.
void finish_outputs(const RunConfig& config, const std::string& next_place);

// Finishes a run that has ended. If this is killed anywhere, the checkpoint still records that the run ended and its
// next place, and the next run begins with the rest of this: moved files are skipped. The note goes before the folders,
// so that no run writes into them again.
void put_in_place(const RunConfig& config, const std::string& next_place);

// A previous run that had ended and was killed while its results were put in their place: the rest of that.
void complete_previous(const RunConfig& config, const PreviousRun& previous);

// Next places that no checkpoint leads to: of runs that were given up for another, which has had its first result
// since.
void remove_unreachable(const RunConfig& config, const std::string& reachable);

// A folder has one checkpoint, the last run's. Another one's would remove the only record that results are finished,
// and of what an unfinished run has done. Files that are appended to identify their owner themselves. Errors:
// ConfigError.
void require_no_other_work(const PreviousRun& previous, const ResultSettings& config);

}  // namespace offramp
