#include "common/settings/flat_toml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

bool is_key_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

void append_utf8(std::uint32_t code, std::string& text) {
    const auto put = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6);
        put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3f));
        put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3f));
        put(0x80 | (code >> 6 & 0x3f));
        put(0x80 | (code & 0x3f));
    }
}

// Reads one line. Throws ConfigError with the file's name and the line's number.
class LineReader {
  public:
    LineReader(std::string_view line, const std::string& file, std::size_t number)
        : rest_(line), file_(file), number_(number) {}

    bool at_end() {
        skip_blanks();
        return rest_.empty() || rest_.front() == '#';
    }

    // Whether this is the line `[[table]]`. No table: none is known.
    bool begins(std::string_view table) {
        if (rest_.front() != '[') return false;
        if (table.empty()) fail("tables are not used here", "All settings stand at the top level: key = value");
        const bool of_several = rest_.starts_with("[[");
        rest_.remove_prefix(of_several ? 2 : 1);
        skip_blanks();
        const std::string name = rest_.empty() ? "" : key();
        skip_blanks();
        if (!of_several || name != table || !rest_.starts_with("]]"))
            fail("this begins no table that is known", "Known: [[" + std::string(table) + "]]");
        rest_.remove_prefix(2);
        if (!at_end()) fail("'" + std::string(rest_) + "' is left over behind [[" + std::string(table) + "]]");
        return true;
    }

    TomlEntry entry() {
        TomlEntry entry{.key = key(), .line = number_};
        skip_blanks();
        if (rest_.starts_with('.'))
            fail("'" + entry.key + ".' is a dotted key", "Settings are not grouped: key = value");
        if (!rest_.starts_with('=')) fail("'=' is missing behind '" + entry.key + "'", "Write: key = value");
        rest_.remove_prefix(1);
        skip_blanks();
        value(entry);
        if (!at_end()) fail("'" + std::string(rest_) + "' is left over behind the value of '" + entry.key + "'");
        return entry;
    }

    [[noreturn]] void fail(const std::string& problem, const std::string& hint = {}) const {
        throw ConfigError(file_ + ":" + std::to_string(number_) + ": " + problem, hint, ExitCode::Config);
    }

  private:
    void skip_blanks() {
        while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
    }

    std::string take_while(bool (*accepted)(char)) {
        const auto end = std::find_if_not(rest_.begin(), rest_.end(), accepted);
        const std::string taken(rest_.begin(), end);
        rest_.remove_prefix(taken.size());
        return taken;
    }

    std::string key() {
        if (rest_.front() == '"' || rest_.front() == '\'') return string("a key");
        std::string name = take_while(is_key_character);
        if (name.empty()) fail("a key is expected before '" + std::string(rest_) + "'", "Write: key = value");
        return name;
    }

    void value(TomlEntry& entry) {
        if (rest_.empty() || rest_.front() == '#') fail("'" + entry.key + "' has no value");
        if (rest_.front() == '"' || rest_.front() == '\'') {
            entry.text = string("'" + entry.key + "'");
            return;
        }
        if (rest_.front() == '[' || rest_.front() == '{')
            fail("'" + entry.key + "' is an array or a table",
                 "A setting has one value: a string, a number or a boolean");
        const std::string word = take_while([](char c) { return c != ' ' && c != '\t' && c != '#'; });
        entry.text = word;
        if (word == "true" || word == "false") {
            entry.type = TomlType::Boolean;
        } else if (!number(word, entry)) {
            fail("'" + entry.key + "' has the value " + word + ", which is not a string, number or boolean",
                 "Strings stand in quotes: " + entry.key + " = " + quote_toml(word));
        }
    }

    // Integers become decimal, floats lose their underscores.
    static bool number(std::string_view word, TomlEntry& entry) {
        const auto digit_at = [word](std::size_t i) {
            return i < word.size() && std::isxdigit(static_cast<unsigned char>(word[i])) != 0;
        };
        std::string digits;
        for (std::size_t i = 0; i < word.size(); ++i) {
            if (word[i] != '_')
                digits.push_back(word[i]);
            else if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1))
                return false;
        }
        const auto all_of = [](std::string_view text, auto accepted) {
            return !text.empty() && std::all_of(text.begin(), text.end(), accepted);
        };
        const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
        const bool is_signed = digits.starts_with('+') || digits.starts_with('-');
        const std::string_view magnitude = std::string_view(digits).substr(is_signed ? 1 : 0);
        const bool leading_zero = magnitude.size() > 1 && magnitude[0] == '0' && is_digit(magnitude[1]);
        if (leading_zero) return false;
        if (!is_signed && magnitude.size() > 2 && magnitude[0] == '0') {
            const int base = magnitude[1] == 'x' ? 16 : magnitude[1] == 'o' ? 8 : magnitude[1] == 'b' ? 2 : 0;
            if (base != 0) return prefixed_integer(magnitude.substr(2), base, entry);
        }
        entry.text = digits.starts_with('+') ? std::string(magnitude) : digits;
        entry.type = TomlType::Integer;
        if (all_of(magnitude, is_digit)) return true;
        entry.type = TomlType::Float;
        if (magnitude == "inf" || magnitude == "nan") return true;
        double parsed = 0;
        const char* const end = magnitude.data() + magnitude.size();
        const auto result = std::from_chars(magnitude.data(), end, parsed);
        const std::size_t point = magnitude.find('.');
        const bool digits_around_point = point == std::string_view::npos ||
                                         (point > 0 && point + 1 < magnitude.size() && is_digit(magnitude[point + 1]));
        return result.ptr == end && is_digit(magnitude.empty() ? 'x' : magnitude[0]) && digits_around_point;
    }

    static bool prefixed_integer(std::string_view digits, int base, TomlEntry& entry) {
        std::int64_t parsed = 0;
        const char* const end = digits.data() + digits.size();
        const auto result = std::from_chars(digits.data(), end, parsed, base);
        if (result.ec != std::errc() || result.ptr != end || digits.front() == '-') return false;
        entry.type = TomlType::Integer;
        entry.text = std::to_string(parsed);
        return true;
    }

    std::string string(const std::string& whose) {
        const char quote = rest_.front();
        if (rest_.starts_with("\"\"\"") || rest_.starts_with("'''"))
            fail(whose + " is a string of several lines", "Use one line, with \\n for a line's end");
        rest_.remove_prefix(1);
        std::string text;
        while (!rest_.empty() && rest_.front() != quote) {
            if (is_control(rest_.front()))
                fail(whose + " has a control character in its string", "Write it as \\u0000");
            if (quote == '"' && rest_.front() == '\\') {
                rest_.remove_prefix(1);
                escape(whose, text);
                continue;
            }
            text.push_back(rest_.front());
            rest_.remove_prefix(1);
        }
        if (rest_.empty()) fail(whose + " has a string without its closing " + quote);
        rest_.remove_prefix(1);
        return text;
    }

    // What follows a backslash.
    void escape(const std::string& whose, std::string& text) {
        static constexpr std::string_view kNames = "btnfr\"\\";
        static constexpr std::string_view kCharacters = "\b\t\n\f\r\"\\";
        const char name = rest_.empty() ? '\0' : rest_.front();
        if (const std::size_t known = kNames.find(name); known != std::string_view::npos) {
            text.push_back(kCharacters[known]);
            rest_.remove_prefix(1);
            return;
        }
        const std::size_t digits = name == 'u' ? 4 : name == 'U' ? 8 : 0;
        std::uint32_t code = 0;
        const std::string_view hex = digits == 0 ? std::string_view() : rest_.substr(1, digits);
        const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (digits == 0 || hex.size() != digits || result.ptr != hex.data() + digits || code > 0x10ffff ||
            (code >= 0xd800 && code <= 0xdfff))
            fail(whose + " has an unknown escape \\" + std::string(rest_.substr(0, digits + 1)),
                 "Known: \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX; or put the string in single quotes");
        append_utf8(code, text);
        rest_.remove_prefix(digits + 1);
    }

    std::string_view rest_;
    const std::string& file_;
    std::size_t number_;
};

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

std::vector<TomlEntry> read_flat_toml(std::string_view text, const std::string& name) {
    return read_toml_of_tables(text, name, {}).top;
}

TomlDocument read_toml_of_tables(std::string_view text, const std::string& name, std::string_view table) {
    TomlDocument document;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        LineReader reader(line, name, number);
        if (!is_utf8(line)) reader.fail("the line is not UTF-8");
        if (reader.at_end()) continue;
        if (reader.begins(table)) {
            document.tables.push_back({.line = number, .entries = {}});
            continue;
        }
        std::vector<TomlEntry>& entries = document.tables.empty() ? document.top : document.tables.back().entries;
        TomlEntry entry = reader.entry();
        for (const TomlEntry& earlier : entries)
            if (earlier.key == entry.key)
                reader.fail("'" + entry.key + "' is set a second time",
                            "The first is in line " + std::to_string(earlier.line));
        entries.push_back(std::move(entry));
    }
    return document;
}

std::string quote_toml(std::string_view text) {
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
