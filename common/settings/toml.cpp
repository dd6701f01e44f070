#include "common/settings/toml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

// The only file that includes toml++, which takes seconds to compile. Its errors are values, and become ConfigError.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// toml++ takes a table apart by recursion: of a longer text the dots of one key could fill the stack.
constexpr std::size_t kMostBytes = std::size_t{128} << 10;

[[noreturn]] void fail(const std::string& name, std::size_t line, const std::string& problem, const std::string& hint) {
    throw ConfigError(name + ":" + std::to_string(line) + ": " + problem, hint, ExitCode::Config);
}

std::size_t line_of(const toml::source_region& region) { return region.begin.line; }

// With a point or an exponent, as it is written in TOML.
std::string shortest(double number) {
    std::array<char, 32> text{};
    const std::string digits(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
    return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
}

// "a table", of what no setting is.
std::string_view kind_of(const toml::node& node) {
    if (node.is_array()) return "an array";
    return node.is_table() ? "a table" : "a date or a time";
}

TomlEntry entry_of(const toml::key& key, const toml::node& node, const std::string& name) {
    TomlEntry entry{.key = std::string(key.str()), .line = line_of(key.source())};
    if (const auto* const text = node.as_string()) {
        entry.text = text->get();
    } else if (const auto* const whole = node.as_integer()) {
        entry.type = TomlType::Integer;
        entry.text = std::to_string(whole->get());
    } else if (const auto* const number = node.as_floating_point()) {
        entry.type = TomlType::Float;
        entry.text = shortest(number->get());
    } else if (const auto* const on = node.as_boolean()) {
        entry.type = TomlType::Boolean;
        entry.text = on->get() ? "true" : "false";
    } else {
        fail(name, entry.line, "'" + entry.key + "' is " + std::string(kind_of(node)),
             "A setting has one value: a string in quotes, a number, true or false");
    }
    return entry;
}

using Member = std::pair<const toml::key*, const toml::node*>;

// As they stand in the file: toml++ sorts them by their names.
std::vector<Member> in_order(const toml::table& table) {
    std::vector<Member> members;
    for (auto member = table.begin(); member != table.end(); ++member)
        members.emplace_back(&member->first, &member->second);
    std::ranges::stable_sort(members, {}, [](const Member& one) {
        const toml::source_position& begin = one.first->source().begin;
        return std::pair(begin.line, begin.column);
    });
    return members;
}

std::vector<TomlTable> tables_of(const toml::array& array, const std::string& name) {
    std::vector<TomlTable> tables;
    for (const toml::node& node : array) {
        TomlTable& table = tables.emplace_back(TomlTable{.line = line_of(node.source()), .entries = {}});
        for (const auto& [key, value] : in_order(*node.as_table()))
            table.entries.push_back(entry_of(*key, *value, name));
    }
    return tables;
}

}  // namespace

std::string_view to_string(TomlType type) {
    switch (type) {
        case TomlType::String:
            return "a string";
        case TomlType::Integer:
            return "an integer";
        case TomlType::Float:
            return "a float";
        case TomlType::Boolean:
            return "a boolean";
    }
    return "?";
}

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name) {
    return read_toml_of_tables(text, name, {}).top;
}

TomlDocument read_toml_of_tables(std::string_view text, const std::string& name, std::string_view table) {
    if (text.size() > kMostBytes)
        throw ConfigError(name + " has " + std::to_string(text.size()) + " bytes, which is too much for settings",
                          "Accepted: at most " + std::to_string(kMostBytes), ExitCode::Config);
    const toml::parse_result parsed = toml::parse(text, std::string_view(name));
    if (!parsed)
        fail(name, line_of(parsed.error().source()), "this is not TOML: " + std::string(parsed.error().description()),
             "Write: key = value, with strings in quotes");
    TomlDocument document;
    for (const auto& [key, node] : in_order(parsed.table())) {
        if (!table.empty() && key->str() == table && node->is_array_of_tables())
            document.tables = tables_of(*node->as_array(), name);
        else if (node->is_table() || node->is_array_of_tables())
            fail(name, line_of(key->source()), "'" + std::string(key->str()) + "' is a table that is not known",
                 table.empty() ? "All settings stand at the top level: key = value"
                               : "Known: [[" + std::string(table) + "]]");
        else
            document.top.push_back(entry_of(*key, *node, name));
    }
    return document;
}

std::string quote_toml(std::string_view text) {
    const auto is_control = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; };
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            quoted += '\\';
            quoted += c;
        } else if (is_control(c)) {
            std::array<char, 8> escaped{};
            std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(c));
            quoted += escaped.data();
        } else {
            quoted += c;
        }
    }
    return quoted + '"';
}

}  // namespace offramp
