#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

enum class TomlType { String, Integer, Float, Boolean };
std::string_view to_string(TomlType type);  // "a string", "an integer", ...

// One `key = value` of a file. `text`: a string's characters, an integer in decimal, a float, "true" or
// "false".
struct TomlEntry {
    std::string key;
    TomlType type = TomlType::String;
    std::string text;
    std::size_t line = 0;
};

// The entries of one `[[name]]`.
struct TomlTable {
    std::size_t line = 0;
    std::vector<TomlEntry> entries;
};

struct TomlDocument {
    std::vector<TomlEntry> top;     // what stands above the first table
    std::vector<TomlTable> tables;  // in their order
};

// Reads the part of TOML 1.0 that settings need: `key = value` lines with strings of one line, integers,
// floats and booleans, and comments. `name` is what errors call the file. Errors: ConfigError (exit code
// Config) "name:line: ..." for tables, arrays, dates, a key that comes twice, and bad syntax.
std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& name);

// The same, and below it any number of tables `[[table]]` of this one name, flat as well. Errors: also for tables of
// other names.
TomlDocument read_toml_of_tables(std::string_view text, const std::string& name, std::string_view table);

// A TOML string, quoted and escaped. `text` is UTF-8.
std::string quote_toml(std::string_view text);

}  // namespace offramp
