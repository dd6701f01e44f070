#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

enum class TomlType { String, Integer, Float, Boolean };
std::string_view to_string(TomlType type);  // "a string", "an integer", ...

// One `key = value` of a file. `text`: a string's characters, an integer in decimal, the shortest text of a float,
// "true" or "false".
struct TomlEntry {
    std::string key;
    TomlType type = TomlType::String;
    std::string text;
    std::size_t line = 0;
};

// The entries of one `[[name]]` or `[name]`.
struct TomlTable {
    std::size_t line = 0;
    std::vector<TomlEntry> entries;
};

// Each list is in the order of the file.
struct TomlDocument {
    std::vector<TomlEntry> top;
    std::vector<TomlTable> tables;
    std::optional<TomlTable> single;
};

// The settings in a text of TOML 1.0: strings, integers, floats and booleans at the top level. `name` is what errors
// call the file. Errors: ConfigError (of kind Config) "name:line: ..." for what is not TOML, for tables, arrays,
// dates and dotted keys, which no setting is, and for a text of more than 128 KiB or a key of more than 1,000 parts.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name);

// The same, and any number of tables `[[table]]` of this one name, and at most one table `[single]`, also flat; empty:
// no such table is known. Errors: also for tables of other names.
TomlDocument read_toml_of_tables(std::string_view text, const std::string& name, std::string_view table,
                                 std::string_view single = {});

// A TOML string, quoted and escaped. `text` is UTF-8.
std::string quote_toml(std::string_view text);

}  // namespace offramp
