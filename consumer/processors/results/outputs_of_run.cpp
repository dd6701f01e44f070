#include "consumer/processors/results/outputs_of_run.hpp"

#include <algorithm>

#include "common/app/settings/processor_spec.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {
namespace {

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

void require_same_processors(const PreviousRun& previous, const ResultSettings& config) {
    if (std::ranges::is_permutation(previous.processors, config.processors())) return;
    std::string names;
    for (const std::string& name : previous.processors) names += (names.empty() ? "" : ",") + name;
    throw ConfigError("--output " + config.output + " holds the results of run " + previous.run_id +
                          " of --processor " + names + ", and this run has --processor " + config.processor,
                      "Name the same processors, or give this run another --output");
}

}  // namespace offramp
