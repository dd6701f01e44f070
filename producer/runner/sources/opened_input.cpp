#include "producer/runner/sources/opened_input.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "common/app/images/item_keys.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/settings/sections.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/texts/listed_texts.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "producer/runner/sources/npy_file.hpp"
#include "producer/runner/sources/text/text_lines.hpp"

namespace offramp {
namespace {

bool has_arrays(const std::string& folder) {
    std::error_code problem;
    for (std::filesystem::directory_iterator entry(folder, std::filesystem::directory_options::skip_permission_denied,
                                                   problem);
         !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem))
        if (entry->path().extension() == ".npy") return true;
    return false;
}

void require_arrays(const std::string& input) {
    if (!std::filesystem::is_directory(input)) return static_cast<void>(NpyFile(input));
    if (!has_arrays(input))
        throw ConfigError("--input '" + printable(input) + "': no .npy file in this folder",
                          "Give a .npy file, or a folder that has one for each of the model's inputs",
                          ErrorKind::NoInput);
}

constexpr std::size_t kNamesLookedAt = 10'000;

// Searches the folder that should contain `path`.
std::optional<std::string> nearest_beside(const std::filesystem::path& path) {
    std::vector<std::string> names;
    std::error_code failure;
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    for (std::filesystem::directory_iterator entry(folder, failure);
         !failure && entry != std::filesystem::directory_iterator{}; entry.increment(failure)) {
        const std::string name = entry->path().filename().string();
        if (is_utf8(name)) names.push_back(name);
        if (names.size() == kNamesLookedAt) break;
    }
    const auto nearest = nearest_word(path.filename().string(), names);
    if (!nearest) return std::nullopt;
    return (path.has_parent_path() ? path.parent_path() / *nearest : std::filesystem::path(*nearest)).string();
}

}  // namespace

OpenedInput open_input(const InputSettings& config, const StillWanted& still_wanted) {
    if (gives_pictures(config.source)) {
        try {
            return {.pictures = open_pictures(config.source, config.input, still_wanted, config.input_list,
                                              share_of_list(config)),
                    .texts = nullptr};
        } catch (const ConfigError& problem) {
            if (problem.kind() != ErrorKind::NoInput || !has_arrays(config.input)) throw;
        }
    }
    if (gives_text_tables(config.source)) return {.pictures = nullptr, .texts = open_texts(config, still_wanted)};
    if (config.source == "text" && !config.input.empty()) require_lines(config.input);
    if (config.source == "npy" && !config.input.empty()) require_arrays(config.input);
    return {};
}

const SourceEntry& source_named(const std::string& name) {
    std::vector<std::string> known;
    std::string list;
    for (const SourceEntry& entry : SourceEntry::all()) {
        if (entry.name == name) return entry;
        known.emplace_back(entry.name);
        list += (list.empty() ? "" : ", ") + known.back();
    }
    const auto nearest = nearest_word(name, known);
    throw ConfigError("--source '" + name + "' is unknown",
                      (nearest ? "Did you mean " + *nearest + "? " : "") + "Known: " + list);
}

void require_input(const std::string& input) {
    std::filesystem::path path = input;
    std::error_code failure;
    if (std::filesystem::exists(path, failure)) return;
    if (!path.has_filename()) path = path.parent_path();  // a folder's name may end in '/'
    const auto nearest = nearest_beside(path);
    throw ConfigError("--input '" + input + "': " + std::strerror(failure ? failure.value() : ENOENT),
                      nearest ? "Did you mean " + *nearest + "?" : "Give an existing file, or folder of images",
                      ErrorKind::NoInput);
}

}  // namespace offramp
