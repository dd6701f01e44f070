#include "producer/runner/sources/named_source.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "common/app/settings/nearest_word.hpp"
#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

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
