#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/toml.hpp"

// Reads the tables of declaration files. declared_setting.hpp and processor_results.hpp interpret them.
namespace offramp {

// A TOML file beside the code that reads its settings. It has tables [[setting]] (declared_setting.hpp) and, for a
// processor, [results] (processor_results.hpp). CMake compiles all these files into every program
// (offramp_settings_files).
struct CatalogueSource {
    std::string_view file;     // "consumer/processors/plugins/image.toml"
    std::string_view plug_in;  // "image"; empty: not the file of a plug-in
    std::string_view text;     // TOML

    static std::span<const CatalogueSource> all();
};

// Reads the tables [[setting]], and at most one [results]. Errors: ConfigError with file and line, for other tables and
// for keys above the first table.
TomlDocument declarations_of(const CatalogueSource& source);

// Splits "mask-png, npy" into the two names.
std::vector<std::string> names_in(std::string_view text);

// Throws ConfigError with file, line, problem, and the page about declarations.
[[noreturn]] void refuse_declaration(const CatalogueSource& source, std::size_t line, const std::string& problem);

// Takes the text of one key of a table. Returns false if the text is invalid.
template <class Of>
using TakeKey = bool (*)(Of& declared, const std::string& text);
template <class Of>
using KeysOf = std::map<std::string, TakeKey<Of>, std::less<>>;

template <class Of, std::string Of::*kMember>
bool take_text(Of& declared, const std::string& text) {
    declared.*kMember = text;
    return !text.empty();
}

// Takes the entry. Errors: ConfigError if `keys` lacks its key ("is not a key of WHAT"), or refuses its text.
template <class Of>
void take_entry(Of& declared, const KeysOf<Of>& keys, const TomlEntry& entry, const CatalogueSource& source,
                const std::string& what) {
    const auto key = keys.find(entry.key);
    if (key == keys.end()) refuse_declaration(source, entry.line, "'" + entry.key + "' is not a key of " + what);
    if (!key->second(declared, entry.text))
        refuse_declaration(source, entry.line, entry.key + " is '" + entry.text + "'");
}

}  // namespace offramp
