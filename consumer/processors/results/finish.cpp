#include "consumer/processors/results/finish.hpp"

#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/outputs_of_run.hpp"
#include "consumer/processors/results/own_run.hpp"
#include "consumer/processors/results/previous_run.hpp"
#include "consumer/processors/results/run_output.hpp"

namespace offramp {
namespace {

[[noreturn]] void refuse(const std::string& what, bool resumes) {
    throw ConfigError(what + " holds the results of an earlier run",
                      std::string(resumes ? "There is no checkpoint that --resume could continue. Give "
                                          : "Give --resume to compute missing and new items, ") +
                          "--overwrite to keep these results under another name and begin anew, or another place "
                          "(--output, --sink-table)");
}

}  // namespace

void prepare_run(const RunConfig& config) {
    if (config.output.empty()) return;
    remove_leftovers(config.output);
    const auto previous = read_previous_run(config.output);
    if (config.resume && !previous && has_checkpoint(config.output)) return;  // the producer reports the damage
    if (previous && config.resume) require_same_processors(*previous, config);
    if (previous && !config.resume) refuse("--output " + config.output, false);
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        const std::string found = output.look(own);
        if (!found.empty() && !(config.resume && previous) && !config.overwrite) refuse(found, config.resume);
    });
    // Only once all were looked at: a run that is refused renames no table.
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        if (!config.overwrite) return;
        const std::string found = output.look(own);
        if (!found.empty() && !output.set_aside(own, config.run_id)) refuse(found, config.resume);
    });
    forget_own_run(config.output);
}

void finish_run(const RunConfig& config) {
    if (!config.output.empty()) remove_leftovers(config.output);
    for_each_output(config, [](const RunOutput& output, const ResultSettings& own) { output.finish(own); });
    if (config.output.empty()) return;
    const auto run = read_previous_run(config.output);
    const bool is_other_run = run && !config.run_id.empty() && run->run_id != config.run_id;
    if (is_other_run) return;  // this one has done nothing
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        if (!run)
            output.put_back(own, config.run_id);
        else if (run->ended)
            output.note_end(own);
        else
            output.note_broken_off(own);
    });
}

}  // namespace offramp
