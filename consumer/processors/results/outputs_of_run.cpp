#include "consumer/processors/results/outputs_of_run.hpp"

#include <algorithm>
#include <filesystem>

#include "common/app/program/next_place.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/processor_spec.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/reserved_prefix.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

void remove_tree(const std::string& folder) {
    std::error_code failure;
    fs::remove_all(folder, failure);
    if (failure) throw write_error("removing " + folder, failure.value());
}

// Where next places of this output lie, also those of runs with other processors. A folder into which another run goes
// by itself is that one's.
std::vector<std::string> folders_with_next_places(const RunConfig& config) {
    const std::string& output = config.output;
    std::vector<std::string> folders{output};
    std::vector<std::string> names;
    for (const ProcessorEntry& entry : ProcessorEntry::all()) names.emplace_back(entry.name);
    for (const std::string& name : config.processors())
        if (ProcessorSpec::of(name)) names.push_back(name);
    constexpr std::size_t kSeveral = 2;
    for (const std::string& name : names) {
        const std::string folder = results_folder(output, name, kSeveral);
        std::error_code unknown;
        const bool has_note =
            fs::symlink_status(folder + "/" + std::string(kReservedPrefix) + "next", unknown).type() !=
            fs::file_type::not_found;
        if (!has_checkpoint(folder) && !has_note) folders.push_back(folder);
    }
    return folders;
}

// Null: it appends to nothing.
std::unique_ptr<RunOutput> output_of(const std::string& processor, const CatalogueValues& settings) {
    if (ProcessorSpec::of(processor)) return records_of_others();
    const auto entries = ProcessorEntry::all();
    // For "auto", its possible choice that appends to a file.
    const auto entry = std::ranges::find(entries, processor == "auto" ? "mask-png" : processor, &ProcessorEntry::name);
    return entry == entries.end() ? nullptr : entry->run_output(settings);
}

}  // namespace

void for_each_output(const RunConfig& config,
                     const std::function<void(const RunOutput& output, const ResultSettings& own)>& work) {
    for (const ResultSettings& own : own_results(config))
        if (const auto output = output_of(own.processor, config.catalogue)) work(*output, own);
}

void finish_outputs(const RunConfig& config, const std::string& next_place) {
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        output.finish(own, folder_in(own.output, next_place), next_place);
    });
}

void put_in_place(const RunConfig& config, const std::string& next_place) {
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        output.note_end(own, folder_in(own.output, next_place), next_place);
    });
    if (next_place.empty()) return;
    for_each_output(config, [&](const RunOutput& output, const ResultSettings& own) {
        failpoint("place.swap");
        output.put_in_place(own, folder_in(own.output, next_place), next_place);
    });
    failpoint("place.swapped");
    note_next_place(config.output, {});
    for (const ResultSettings& own : own_results(config)) remove_tree(folder_in(own.output, next_place));
}

void complete_previous(const RunConfig& config, const PreviousRun& previous) {
    if (!previous.ended || previous.next_place.empty()) return;
    RunConfig ended = config;
    ended.processor.clear();
    for (const std::string& processor : previous.processors)
        ended.processor += (ended.processor.empty() ? "" : ",") + processor;
    finish_outputs(ended, previous.next_place);
    put_in_place(ended, previous.next_place);
}

void remove_unreachable(const RunConfig& config, const std::string& reachable) {
    for (const std::string& output : folders_with_next_places(config))
        for (const std::string& name : next_places_in(output)) {
            if (name == reachable) continue;
            const std::string folder = folder_in(output, name);
            bool is_removed = true;
            for (const ProcessorEntry& entry : ProcessorEntry::all())
                if (const auto made = entry.run_output(config.catalogue))
                    is_removed = made->remove_next(config, folder, name) && is_removed;
            if (is_removed) remove_tree(folder);
        }
}

void require_no_other_work(const PreviousRun& previous, const ResultSettings& config) {
    const std::vector<std::string> own = config.processors();
    if (std::ranges::is_permutation(previous.processors, own)) return;
    std::string names;
    for (const std::string& name : previous.processors) names += (names.empty() ? "" : ",") + name;
    const char* const elsewhere = "give this run another --output, or --overwrite to discard them";
    const bool is_unfinished = !previous.ended || previous.left > 0;
    const auto has_results = [&](const std::string& processor) {
        return has_results_in_folder(processor, previous.write_path);
    };
    const auto has_files = [&](const std::string& processor) {
        return makes_files_of_items(processor, previous.write_path);
    };
    if (is_unfinished && std::ranges::any_of(previous.processors, has_results))
        throw ConfigError(
            "--output " + config.output + " holds results of the unfinished run " + previous.run_id +
                " of --processor " + names +
                (previous.left > 0 ? ": " + std::to_string(previous.left) + " of its items are left" : std::string()),
            std::string("Finish that with --resume and its own settings, ") + elsewhere);
    if (previous.ended && std::ranges::any_of(previous.processors, has_files))
        throw ConfigError("--output " + config.output + " holds the results of run " + previous.run_id +
                              " of --processor " + names + ", which has finished",
                          std::string("Name all processors in one run, ") + elsewhere);
}

}  // namespace offramp
