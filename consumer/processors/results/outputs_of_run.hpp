#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/app/settings/sections/result_settings.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {

// The record in OUTPUT/.offramp-checkpoint (producer/runner/checkpoint/checkpoint_file.hpp) of the last run with a
// result: the owners and places of results.
struct PreviousRun {
    std::string run_id;
    std::vector<std::string> processors;
    bool ended = false;           // it came to its end by itself
    bool of_own_program = false;  // begun by a custom program (finish.hpp)
};

// Nothing if the checkpoint is missing or unreadable: then the run cannot be continued, either. Never follows a link.
std::optional<PreviousRun> read_previous_run(const std::string& output);
bool has_checkpoint(const std::string& output);  // whether it can be read or not

// The steps on outputs that a run's processors append to, before and after the run: the parts of prepare_run(),
// finish_run() and their counterparts for a custom program's run. Each may be killed, and is made again.
// `config`: whole, since each processor finds there what it declares for itself. Errors: those of RunOutput.

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work);

// An output folder belongs to one piece of work. Errors: ConfigError for other processors than the previous run's.
void require_same_processors(const PreviousRun& previous, const ResultSettings& config);

// Checks of config.processor before a run starts: that each name is one of the table's or of `made_besides`, occurs
// once, has the --sink that it needs, and only valid addresses. "auto" is the producer's to choose. Errors: ConfigError
// suggests the nearest name.
void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides = {});

}  // namespace offramp
