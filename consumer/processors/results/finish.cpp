#include "consumer/processors/results/finish.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/next_place.hpp"
#include "common/base/reserved_prefix.hpp"
#include "common/settings/processor_results.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/previous_run.hpp"
#include "consumer/processors/results/run_output.hpp"
#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kToGoOn = "Give --resume to make what is missing or new, ";
constexpr const char* kNothingToGoOn = "There is no manifest that --resume could continue. Give ";
constexpr const char* kOtherwise =
    "--start-over to replace them once this run has results of its own, or another place (--output, --write-path, "
    "--sink-table)";

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const RunConfig& own)>& work) {
    for (const RunConfig& own : configs_of(config))
        for (const ProcessorEntry& entry : ProcessorEntry::all())
            if (entry.name == own.processor)
                if (const auto output = entry.run_output()) work(*output, own);
}

void remove_tree(const std::string& folder) {
    std::error_code failure;
    fs::remove_all(folder, failure);
    if (failure) throw write_error("removing " + folder, failure.value());
}

// What the run made, in the folders of its next place or in place.
void finish_outputs(const RunConfig& config, const std::string& next_place) {
    for_each_output(config, [&](const RunOutput& output, const RunConfig& own) {
        output.finish(own, folder_in(own.output, next_place), next_place);
    });
}

// Of a run that has come to its end. Killed anywhere in here, the checkpoint still says both, that it ended and what
// its next place is, and the next run begins with the rest of this: what was moved is not there any more, and is passed
// over. The note goes before the folders, so that nobody writes into them again.
void put_in_place(const RunConfig& config, const std::string& next_place) {
    for_each_output(config, [&](const RunOutput& output, const RunConfig& own) {
        output.note_end(own, folder_in(own.output, next_place), next_place);
    });
    if (next_place.empty()) return;
    for_each_output(config, [&](const RunOutput& output, const RunConfig& own) {
        failpoint("place.swap");
        output.put_in_place(own, folder_in(own.output, next_place), next_place);
    });
    failpoint("place.swapped");
    note_next_place(config.output, {});
    for (const RunConfig& own : configs_of(config)) remove_tree(folder_in(own.output, next_place));
}

// The mark of a table that only another --sink leads to.
bool has_table_elsewhere(const std::string& folder) {
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
         entry.increment(failure)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with(std::string(kReservedPrefix) + "made-") && name.ends_with("-postgres")) return true;
    }
    return false;
}

// Where next places of this output lie, also those of runs with other processors. A folder into which another run goes
// by itself is that one's.
std::vector<std::string> folders_with_next_places(const std::string& output) {
    std::vector<std::string> folders{output};
    for (const ProcessorEntry& entry : ProcessorEntry::all()) {
        const std::string folder = output + "/" + std::string(entry.name);
        std::error_code unknown;
        const bool has_note =
            fs::symlink_status(folder + "/" + std::string(kReservedPrefix) + "next", unknown).type() !=
            fs::file_type::not_found;
        if (!has_checkpoint(folder) && !has_note) folders.push_back(folder);
    }
    return folders;
}

// Next places that no checkpoint leads to: of runs that were given up for another, which has had its first result
// since.
void remove_unreachable(const RunConfig& config, const std::string& reachable) {
    for (const std::string& output : folders_with_next_places(config.output))
        for (const std::string& name : next_places_in(output)) {
            if (name == reachable) continue;
            const std::string folder = folder_in(output, name);
            for (const ProcessorEntry& entry : ProcessorEntry::all())
                if (const auto made = entry.run_output()) made->remove_next(config, folder, name);
            if (!has_table_elsewhere(folder)) remove_tree(folder);
        }
}

// `previous`: the run that made them, if that is known.
[[noreturn]] void refuse(const std::string& what, const PreviousRun* previous, const RunConfig& config) {
    const std::string whose = previous && previous->finished
                                  ? "run " + previous->run_id + ", which came to its end"
                                  : "an earlier run, of which nothing says that it did not come to its end";
    throw ConfigError(what + " holds the results of " + whose,
                      std::string(config.resume || previous == nullptr ? kNothingToGoOn : kToGoOn) + kOtherwise);
}

// A folder has one checkpoint, the last run's. Another one's would take from results their only word that they are
// finished, and from an unfinished run what it goes on by. What is appended to says by its own form whose it is.
// Errors: ConfigError.
void require_no_other_work(const PreviousRun& previous, const RunConfig& config) {
    const std::vector<std::string> own = config.processors();
    if (std::ranges::is_permutation(previous.processors, own)) return;
    std::string names;
    for (const std::string& name : previous.processors) names += (names.empty() ? "" : ",") + name;
    const char* const elsewhere = "give this run another --output, or --start-over to give them up";
    const bool is_unfinished = !previous.ended || previous.left > 0;
    const auto has_results = [&](const std::string& processor) {
        return has_results_in_folder(processor, previous.write_path);
    };
    const auto has_files = [&](const std::string& processor) {
        return makes_files_of_items(processor, previous.write_path);
    };
    if (is_unfinished && std::ranges::any_of(previous.processors, has_results))
        throw ConfigError(
            "--output " + config.output + " holds what run " + previous.run_id + " of --processor " + names +
                " has not finished" +
                (previous.left > 0 ? ": " + std::to_string(previous.left) + " of its items are left" : std::string()),
            std::string("Finish that with --resume and its own settings, ") + elsewhere);
    if (previous.ended && std::ranges::any_of(previous.processors, has_files))
        throw ConfigError("--output " + config.output + " holds the results of run " + previous.run_id +
                              " of --processor " + names + ", which came to its end",
                          std::string("Name all processors in one run, ") + elsewhere);
}

// Whether anything lies where this run's results go. Errors: ConfigError when it may not be replaced.
bool look_at_previous(const RunConfig& config, const std::optional<PreviousRun>& previous) {
    const auto made_by_previous = [&](const std::string& processor) {
        return previous && std::ranges::find(previous->processors, processor) != previous->processors.end();
    };
    if (previous && !config.start_over) require_no_other_work(*previous, config);
    bool anything = false;
    for_each_output(config, [&](const RunOutput& output, const RunConfig& own) {
        const PreviousOutput found = output.look(own);
        anything = anything || found.state != PreviousOutput::State::None;
        const bool unfinished = made_by_previous(own.processor) && !previous->finished && previous->next_place.empty();
        if (config.start_over) return;
        if (found.state == PreviousOutput::State::Ended ||
            (found.state == PreviousOutput::State::Results && !unfinished))
            refuse(found.what, made_by_previous(own.processor) ? &*previous : nullptr, config);
    });
    if (!config.start_over && previous && previous->finished)
        for (const std::string& processor : config.processors())
            if (made_by_previous(processor) && has_results_in_folder(processor, previous->write_path))
                refuse("--output " + config.output, &*previous, config);
    return anything;
}

}  // namespace

void finish_run(const RunConfig& config) {
    const std::string next_place = config.output.empty() ? std::string() : next_place_of(config.output);
    if (!config.output.empty()) remove_leftovers(config.output);
    finish_outputs(config, next_place);
    if (config.output.empty()) return;
    const auto run = read_previous_run(config.output);
    if (!run) return;
    const bool is_anothers = run->next_place != next_place || (!config.run_id.empty() && run->run_id != config.run_id);
    if (is_anothers)  // this one has done nothing
        note_next_place(config.output, run->ended ? std::string() : run->next_place);
    else if (run->ended)
        put_in_place(config, next_place);
    remove_unreachable(config, run->next_place);
}

void prepare_run(const RunConfig& config) {
    if (config.resume && config.start_over)
        throw ConfigError("--resume and --start-over contradict each other",
                          "Give --resume to go on with what lies in --output, --start-over to replace it");
    if (config.output.empty()) return;
    const auto previous = read_previous_run(config.output);
    if (previous && previous->ended && !previous->next_place.empty()) {
        RunConfig ended = config;
        ended.processor.clear();
        for (const std::string& processor : previous->processors)
            ended.processor += (ended.processor.empty() ? "" : ",") + processor;
        finish_outputs(ended, previous->next_place);
        put_in_place(ended, previous->next_place);
    }
    if (config.resume && previous)
        return note_next_place(config.output, previous->ended ? std::string() : previous->next_place);
    if (config.resume && has_checkpoint(config.output)) return;  // the producer says what is wrong with it
    note_next_place(config.output, look_at_previous(config, previous) ? new_next_place() : std::string());
}

}  // namespace offramp
