#include "producer/runner/checkpoint/result_folders.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/app/settings/processor_spec.hpp"

namespace offramp {

ResultFolders::ResultFolders(const ResultSettings& config, const std::string& write_path) {
    const std::vector<std::string> names = config.processors();
    if (!config.samples_folder.empty()) await(config.samples_folder, "the output folder");
    for (const std::string& name : names)
        for (const std::string& folder : {config.output, config.samples_folder})
            if (names.size() > 1 && !folder.empty())
                await(results_folder(folder, name, names.size()), "the folder of processor " + name + ",");
    if (config.has_processor("write")) await(write_path, "the folder of --write-path,");
}

void ResultFolders::await(const std::string& folder, const std::string& what) { awaited_.emplace_back(folder, what); }

void ResultFolders::require_in_place() {
    for (const HeldFolder& folder : held_) folder.require_in_place();
    std::erase_if(awaited_, [this](const auto& each) {
        std::error_code unknown;
        if (!std::filesystem::is_directory(each.first, unknown)) return false;
        held_.emplace_back(each.first, each.second);
        return true;
    });
}

}  // namespace offramp
