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
// `config`: whole, since each processor finds there what it declares for itself. Errors: those of RunOutput.

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work);

// An output folder belongs to one piece of work. Errors: ConfigError for other processors than the previous run's.
void require_same_processors(const PreviousRun& previous, const ResultSettings& config);

}  // namespace offramp
