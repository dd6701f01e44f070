#include "common/config/setting.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

#include "common/base/utf8.hpp"

namespace offramp {
namespace {

using Problem = std::optional<std::string>;

// The number, or what is wrong with the text.
std::variant<std::int64_t, std::string> parse_whole(const std::string& text) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ptr != end || text.empty() || result.ec == std::errc::invalid_argument)
        return "is not a whole number";
    if (result.ec == std::errc::result_out_of_range) return "is out of range";
    return number;
}

std::variant<std::int64_t, std::string> parse_bytes(const std::string& text) {
    struct Unit {
        std::string_view name;
        std::int64_t bytes;
    };
    static constexpr std::array<Unit, 7> kUnits{{{"KiB", 1LL << 10},
                                                 {"MiB", 1LL << 20},
                                                 {"GiB", 1LL << 30},
                                                 {"KB", 1'000},
                                                 {"MB", 1'000'000},
                                                 {"GB", 1'000'000'000},
                                                 {"B", 1}}};
    for (const Unit& unit : kUnits) {
        if (!text.ends_with(unit.name)) continue;
        const auto count = parse_whole(text.substr(0, text.size() - unit.name.size()));
        const auto* const number = std::get_if<std::int64_t>(&count);
        std::int64_t bytes = 0;
        if (number == nullptr) return "is not a number of bytes";
        if (__builtin_mul_overflow(*number, unit.bytes, &bytes)) return "is out of range";
        return bytes;
    }
    const auto count = parse_whole(text);
    if (count == decltype(count)("is not a whole number")) return "is not a number of bytes";
    return count;
}

Problem check_text(const std::string& text) {
    if (!is_utf8(text)) return "is not valid UTF-8";
    if (text.find('\0') != std::string::npos) return "has a NUL character";
    return std::nullopt;
}

Problem set_switch(bool& member, const std::string& text) {
    if (text == "true" || text == "1")
        member = true;
    else if (text == "false" || text == "0")
        member = false;
    else
        return "is neither true nor false";
    return std::nullopt;
}

std::string in_words(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.15g", number);
    return text.data();
}

std::string joined(const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
    return list;
}

}  // namespace

std::string Setting::environment_name() const {
    std::string name = "OFFRAMP_" + flag;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return name;
}

std::string WholeRange::describe() const {
    std::string text = std::to_string(least);
    if (most == std::numeric_limits<std::int64_t>::max())
        text += " or more";
    else
        text += " to " + std::to_string(most);
    return zero.empty() ? text : text + ", or 0 for " + zero;
}

Setting& SettingGroup::add(std::string flag, std::string help, std::string value_name, std::string accepted,
                           std::vector<TomlType> toml_types) {
    Setting setting;
    setting.flag = std::move(flag);
    setting.group = name_;
    setting.value_name = std::move(value_name);
    setting.help = std::move(help);
    setting.accepted = std::move(accepted);
    setting.toml_types = std::move(toml_types);
    return table_.emplace_back(std::move(setting));
}

template <class Number, class Parse>
Setting& SettingGroup::add_whole(std::string flag, Number RunConfig::*member, const WholeRange& range,
                                 std::string help, Parse parse) {
    Setting& setting = add(std::move(flag), std::move(help), "N", range.describe(), {TomlType::Integer});
    setting.set = [member, range, parse](RunConfig& config, const std::string& text) -> Problem {
        const auto parsed =
            text == range.zero ? std::variant<std::int64_t, std::string>(std::int64_t{0}) : parse(text);
        if (const auto* const problem = std::get_if<std::string>(&parsed)) return *problem;
        const auto number = std::get<std::int64_t>(parsed);
        const bool zero = number == 0 && !range.zero.empty();
        if (!zero && (number < range.least || number > range.most)) return "is out of range";
        config.*member = static_cast<Number>(number);
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) { return static_cast<std::int64_t>(config.*member); };
    return setting;
}

void SettingGroup::whole(std::string flag, std::uint32_t RunConfig::*member, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), member, range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, std::uint64_t RunConfig::*member, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), member, range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, int RunConfig::*member, WholeRange range, std::string help) {
    add_whole(std::move(flag), member, range, std::move(help), parse_whole);
}

void SettingGroup::bytes(std::string flag, std::uint64_t RunConfig::*member, WholeRange range,
                         std::string help) {
    Setting& setting = add_whole(std::move(flag), member, range, std::move(help), parse_bytes);
    setting.value_name = "BYTES";
    setting.accepted += "; KB, MB, GB, KiB, MiB and GiB may follow the number";
    setting.toml_types = {TomlType::Integer, TomlType::String};
}

void SettingGroup::seconds(std::string flag, double RunConfig::*member, double least, double most, std::string help) {
    decimal(std::move(flag), member, least, most, std::move(help));
    table_.back().value_name = "SECONDS";
}

void SettingGroup::decimal(std::string flag, double RunConfig::*member, double least, double most,
                           std::string help) {
    Setting& setting = add(std::move(flag), std::move(help), "NUMBER",
                           in_words(least) + " to " + in_words(most), {TomlType::Float, TomlType::Integer});
    setting.set = [member, least, most](RunConfig& config, const std::string& text) -> Problem {
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, number);
        if (result.ptr != end || text.empty() || result.ec == std::errc::invalid_argument)
            return "is not a number";
        if (!(number >= least && number <= most)) return "is out of range";
        config.*member = number;
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) { return config.*member; };
}

void SettingGroup::on_off(std::string flag, bool RunConfig::*member, std::string help) {
    Setting& setting = add(std::move(flag), std::move(help), "", "true, false, 1, 0", {TomlType::Boolean});
    setting.set = [member](RunConfig& config, const std::string& text) {
        return set_switch(config.*member, text);
    };
    setting.get = [member](const RunConfig& config) { return config.*member; };
}

void SettingGroup::action(std::string flag, bool RunConfig::*member, std::string help) {
    on_off(std::move(flag), member, std::move(help));
    table_.back().command_line_only = true;
}

void SettingGroup::word(std::string flag, std::string RunConfig::*member,
                        const std::vector<std::string>& words, std::string help) {
    text(std::move(flag), member, "WORD", joined(words), std::move(help),
         [words](const std::string& typed) -> Problem {
             if (std::find(words.begin(), words.end(), typed) == words.end()) return "is unknown";
             return std::nullopt;
         })
        .words = words;
}

void SettingGroup::log_format(std::string flag, LogFormat RunConfig::*member, std::string help) {
    Setting& setting = add(std::move(flag), std::move(help), "WORD", "text, json", {TomlType::String});
    setting.set = [member](RunConfig& config, const std::string& text) -> Problem {
        if (text != "text" && text != "json") return "is unknown";
        config.*member = parse_log_format(text);
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) -> SettingValue {
        return std::string(config.*member == LogFormat::Json ? "json" : "text");
    };
}

Setting& SettingGroup::text(std::string flag, std::string RunConfig::*member, std::string value_name,
                            std::string accepted, std::string help, TextCheck check) {
    Setting& setting =
        add(std::move(flag), std::move(help), std::move(value_name), std::move(accepted), {TomlType::String});
    setting.set = [member, check](RunConfig& config, const std::string& text) -> Problem {
        if (auto problem = check_text(text)) return problem;
        if (check)
            if (auto problem = check(text)) return problem;
        config.*member = text;
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) { return config.*member; };
    return setting;
}

}  // namespace offramp
