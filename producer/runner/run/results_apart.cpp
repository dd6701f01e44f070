#include "producer/runner/run/results_apart.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/processor_spec.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

std::string_view whole_of(std::string_view processor) {
    const ProcessorResults* const known = ProcessorResults::of(processor);
    return known == nullptr ? std::string_view() : known->whole;
}

// A file's path within a folder, both without links; nothing if it is outside.
class WithinFolder {
  public:
    explicit WithinFolder(const std::string& folder) : folder_(real(folder)) {}

    std::optional<std::string> name_of(const std::string& file) {
        const fs::path path(file);
        const std::string& parent = real_parent(path.parent_path().string());
        if (parent == folder_) return path.filename().string();
        if (!parent.starts_with(folder_ == "/" ? folder_ : folder_ + "/")) return std::nullopt;
        return parent.substr(folder_ == "/" ? 1 : folder_.size() + 1) + "/" + path.filename().string();
    }

  private:
    static std::string real(const std::string& folder) {
        std::error_code problem;
        const fs::path found = fs::weakly_canonical(folder.empty() ? "." : folder, problem);
        return (problem ? fs::path(folder) : found).string();
    }
    const std::string& real_parent(const std::string& folder) {
        const auto [found, added] = parents_.try_emplace(folder);
        if (added) found->second = real(folder);
        return found->second;
    }

    std::string folder_;
    std::unordered_map<std::string, std::string> parents_;
};

[[noreturn]] void refuse(const std::string& input, const std::string& folder, const std::string& processor) {
    throw ConfigError("--output " + printable(folder) + ": '" + printable(input) +
                          "' is read from there, and results of " + processor + " could replace it",
                      "Give --output another folder");
}

void require_apart(const std::string& folder, const std::string& processor, const RunConfig& config,
                   const BatchSource& source) {
    std::error_code ignored;
    if (!config.input.empty() && fs::is_directory(config.input, ignored) &&
        WithinFolder(config.input).name_of(folder + "/result"))
        throw ConfigError("--output: results in " + printable(folder) + " are in the --input folder " +
                              printable(config.input) +
                              ": they could replace what they are made from, and would be input of the next run",
                          "Give --output a folder beside it");
    WithinFolder within(folder);
    if (!config.input.empty() && !whole_of(processor).empty() && within.name_of(config.input) == whole_of(processor))
        refuse(config.input, folder, processor);
    if (!source.has_files()) return;
    std::vector<std::string> read;
    for (std::uint64_t item = 0; item < source.items(); ++item)
        if (const std::string file = source.file(item); !file.empty())
            if (auto name = within.name_of(file); name && may_end_result(processor, *name))
                read.push_back(std::move(*name));
    if (read.empty()) return;
    std::sort(read.begin(), read.end());
    const ProcessorResults* const known = ProcessorResults::of(processor);
    const bool is_of_whole = known != nullptr && known->puts_tiles_together;
    for (std::uint64_t item = 0; item < source.items(); ++item) {
        const std::string begin = std::string(is_of_whole ? source.key_of_whole(item) : source.key(item)) + ".";
        const auto found = std::lower_bound(read.begin(), read.end(), begin);
        if (found != read.end() && found->starts_with(begin)) refuse(*found, folder, processor);
    }
}

}  // namespace

void require_results_apart(const RunConfig& config, const BatchSource& source) {
    if (config.output.empty()) return;
    const std::vector<std::string> processors = config.processors();
    for (const std::string& processor : processors)
        require_apart(results_folder(config.folder_of_samples(), processor, processors.size()), processor, config,
                      source);
}

}  // namespace offramp
