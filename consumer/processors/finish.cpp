#include "consumer/processors/finish.hpp"

#include <filesystem>
#include <functional>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/run_output.hpp"
#include "consumer/sinks/cannot_write.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

// What may lie in each processor's folder: its own, and what others left there.
void for_each_output(const RunConfig& config, const std::function<void(const RunOutput& output, const RunConfig& own)>& work) {
    for (const RunConfig& own : configs_of(config))
        for (const ProcessorEntry& entry : ProcessorEntry::all())
            if (const auto output = entry.run_output(); output && (output->in_any_folder() || entry.name == own.processor)) work(*output, own);
}

}  // namespace

void finish_run(const RunConfig& config) {
    for_each_output(config, [](const RunOutput& output, const RunConfig& own) { output.finish(own); });
    if (!config.output.empty()) remove_leftovers(config.output);
}

void start_over(const RunConfig& config) {
    if (config.output.empty()) return;
    for_each_output(config, [](const RunOutput& output, const RunConfig& own) { output.require_replaceable(own); });
    const std::string manifest = config.output + "/" + std::string(kReservedPrefix) + "manifest";
    std::error_code failure;
    std::filesystem::remove(manifest, failure);
    if (failure) throw cannot_write("removing " + manifest, failure.value());
    for_each_output(config, [](const RunOutput& output, const RunConfig& own) { output.remove(own); });
}

}  // namespace offramp
