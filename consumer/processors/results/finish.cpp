#include "consumer/processors/results/finish.hpp"

#include <algorithm>

#include "common/app/program/next_place.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/own_run.hpp"
#include "consumer/processors/results/previous_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {
namespace {

constexpr const char* kHowToContinue = "Give --resume to compute missing and new items, ";
constexpr const char* kNoCheckpoint = "There is no checkpoint that --resume could continue. Give ";
constexpr const char* kOtherwise =
    "--overwrite to replace these results once this run has some, or another place (--output, --write-path, "
    "--sink-table)";

// `previous`: the run that made them, if that is known.
[[noreturn]] void refuse(const std::string& what, const PreviousRun* previous, const ResultSettings& config) {
    const std::string whose = previous && previous->finished ? "run " + previous->run_id + ", which has finished"
                                                             : "an earlier run that may be finished";
    throw ConfigError(what + " holds the results of " + whose,
                      std::string(config.resume || previous == nullptr ? kNoCheckpoint : kHowToContinue) + kOtherwise);
}

// True if there are files where this run's results go. Errors: ConfigError if they may not be replaced.
bool look_at_previous(const RunConfig& config, const std::optional<PreviousRun>& previous) {
    const auto made_by_previous = [&](const std::string& processor) {
        return previous && std::ranges::find(previous->processors, processor) != previous->processors.end();
    };
    if (previous && !config.overwrite) require_no_other_work(*previous, config);
    bool anything = false;
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        const PreviousOutput found = output.look(own);
        anything = anything || found.state != PreviousOutput::State::None;
        const bool unfinished = made_by_previous(own.processor) && !previous->finished && previous->next_place.empty();
        if (config.overwrite) return;
        if (found.state == PreviousOutput::State::Ended ||
            (found.state == PreviousOutput::State::Results && !unfinished))
            refuse(found.what, made_by_previous(own.processor) ? &*previous : nullptr, config);
    });
    if (!config.overwrite && previous && previous->finished)
        for (const std::string& processor : config.processors())
            if (made_by_previous(processor) && has_results_in_folder(processor, previous->write_path))
                refuse("--output " + config.output, &*previous, config);
    return anything;
}

// Where this run's results lie until it has ended; empty: where they belong.
std::string next_place_for(const RunConfig& config, const std::optional<PreviousRun>& previous) {
    if (config.resume && previous) return previous->ended ? std::string() : previous->next_place;
    // Canvases of tiles do not say whose they are: a run that begins where another one may be continued, which has none
    // now, must not leave its own where that one would look for them.
    const bool makes_canvases =
        previous && config.tile > 0 && std::ranges::any_of(config.processors(), [](const std::string& name) {
            const ProcessorResults* const results = ProcessorResults::of(name);
            return results && results->puts_tiles_together;
        });
    return look_at_previous(config, previous) || makes_canvases ? new_next_place() : std::string();
}

}  // namespace

void finish_run(const RunConfig& config) {
    const std::string next_place = config.output.empty() ? std::string() : next_place_of(config.output);
    if (!config.output.empty()) remove_leftovers(config.output);
    finish_outputs(config, next_place);
    if (config.output.empty()) return;
    const auto run = read_previous_run(config.output);
    if (!run) return;
    const bool is_other_run = run->next_place != next_place || (!config.run_id.empty() && run->run_id != config.run_id);
    if (is_other_run)  // this one has done nothing
        note_next_place(config.output, run->ended ? std::string() : run->next_place);
    else if (run->ended)
        put_in_place(config, next_place);
    else
        for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
            output.note_broken_off(own, folder_in(own.output, next_place));
        });
    remove_unreachable(config, run->next_place);
}

void prepare_run(const RunConfig& config) {
    if (config.resume && config.overwrite)
        throw ConfigError("--resume and --overwrite contradict each other",
                          "Give --resume to continue the results in --output, --overwrite to replace them");
    if (config.output.empty()) return;
    const auto previous = read_previous_run(config.output);
    if (previous) complete_previous(config, *previous);
    if (config.resume && !previous && has_checkpoint(config.output)) return;  // the producer reports the damage
    const std::string next_place = next_place_for(config, previous);
    forget_own_run(config.output);
    note_next_place(config.output, next_place);
}

}  // namespace offramp
