#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

enum class TomlType { String, Integer, Float, Boolean };
std::string_view to_string(TomlType type);  // "a string", "an integer", ...

// One `key = value` of a file. `text`: a string's characters, a decimal integer, a float's shortest text, "true" or
// "false".
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

// Reads settings from a text of TOML 1.0: strings, integers, floats and booleans at the top level. `name` is the file's
// name in errors. Errors: ConfigError (of kind Config) "name:line: ..." for invalid TOML, for tables, arrays, dates and
// dotted keys, which are not settings, and for a text of more than 128 KiB or a key of more than 1,000 parts.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name);

// Also accepts any number of flat tables `[[table]]`, and at most one flat table `[single]`; an empty name: no such
// table is accepted. Errors: also for tables with other names.
TomlDocument read_toml_of_tables(std::string_view text, const std::string& name, std::string_view table,
                                 std::string_view single = {});

// A TOML string, quoted and escaped. `text` must be UTF-8.
std::string quote_toml(std::string_view text);

}  // namespace offramp
