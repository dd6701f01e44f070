#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/run_config.hpp"
#include "common/app/settings/sections.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {

// The last run with a result, as OUTPUT/.offramp-checkpoint (producer/runner/checkpoint/checkpoint_file.hpp) records
// it: owners and places of results.
struct PreviousRun {
    std::string run_id;
    std::vector<std::string> processors;
    bool ended = false;           // it ended by itself
    bool of_own_program = false;  // started by a custom program (own_run.hpp)
};

// Returns nothing if the checkpoint is missing or unreadable, which also rules out continuing the run. Never follows a
// link.
std::optional<PreviousRun> read_previous_run(const std::string& output);
bool has_checkpoint(const std::string& output);  // true even if it is unreadable

// Steps before and after a run on outputs that its processors append to. prepare_run(), finish_run() and their
// counterparts for custom programs consist of these steps. Each may be killed and is then repeated. `config`: complete,
// because each processor finds its own settings there. Errors: those of RunOutput.

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work);

// An output folder belongs to one piece of work. Errors: ConfigError if the processors differ from the previous run's.
void require_same_processors(const PreviousRun& previous, const ResultSettings& config);

// Checks config.processor before a run starts. Each name must be in the table or in `made_besides`, occur once, have
// the --sink that it needs, and have valid addresses. The producer chooses the processor for "auto". Errors:
// ConfigError suggests the nearest name.
void require_processors(const RunConfig& config, std::span<const std::string_view> made_besides = {});

// Prepares the outputs, once before the programs of a run start: inspects the results of earlier runs, and with
// --overwrite renames an existing table (RunOutput::set_aside). The launcher has already renamed the folder. Removes no
// results. May be killed and called again. Errors: ConfigError for results that are not Offramp's, or that belong to
// another run which --resume does not continue; those of RunOutput::look().
void prepare_run(const RunConfig& config);

// Finishes the outputs, once after all consumers of a run have ended: those that its processors append to
// (RunOutput::finish). Also removes temporary files of dead consumers. `config.run_id`: the run; empty: the run in the
// output's checkpoint. May be killed and called again, with the same settings. Errors: those of RunOutput and
// remove_stale_temporaries().
void finish_run(const RunConfig& config);

}  // namespace offramp
