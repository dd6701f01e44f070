#include "producer/runner/checkpoint/files_of_run.hpp"

#include <filesystem>
#include <system_error>

#include "common/app/settings/processor_results.hpp"

namespace offramp {

FilesOfRun FilesOfRun::of(const CheckpointIdentity& identity) {
    const auto fact = [&](const char* flag) {
        const auto found = identity.facts.find(flag);
        return found == identity.facts.end() ? std::string() : found->second;
    };
    return {fact("--processor"), fact("--write-path")};
}

std::vector<std::string> FilesOfRun::output_paths(const ResultSettings& config, const std::string& other_path) const {
    ResultSettings of_run;
    of_run.processor = processors;
    std::vector<std::string> names = of_run.processors();
    // with several, each has its own folder
    const bool same_folders = (names.size() > 1) == (config.processors().size() > 1);
    std::error_code unknown;
    const bool same_path = std::filesystem::equivalent(write_path, other_path, unknown);
    std::erase_if(names, [&](const std::string& name) {
        const ProcessorResults* const results = ProcessorResults::of(name);
        return results != nullptr && results->place == ResultPlace::WritePath ? !same_path : !same_folders;
    });
    return names;
}

}  // namespace offramp
