#include "common/settings/setting.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
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
    if (result.ptr != end || text.empty() || result.ec == std::errc::invalid_argument) return "is not a whole number";
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

// The same for every way to write the path.
std::string place_of(const std::string& path) {
    if (path.empty()) return path;
    std::error_code problem;
    std::filesystem::path place = std::filesystem::weakly_canonical(whole_path(path), problem);
    if (problem) place = std::filesystem::path(whole_path(path)).lexically_normal();
    std::string text = place.string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    return text;
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

std::string whole_path(const std::string& path) {
    if (path.empty()) return path;
    std::error_code problem;
    const std::string whole = std::filesystem::absolute(path, problem).string();
    return problem ? path : whole;
}

std::string to_text(const SettingValue& value) {
    if (const auto* const text = std::get_if<std::string>(&value)) return *text;
    if (const auto* const on = std::get_if<bool>(&value)) return *on ? "true" : "false";
    if (const auto* const whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
    // The shortest text that reads back as the same double; a TOML float needs a point or an exponent.
    std::array<char, 32> text{};
    const auto result = std::to_chars(text.data(), text.data() + text.size(), std::get<double>(value));
    std::string number(text.data(), result.ptr);
    return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
}

std::string Setting::environment_name() const {
    std::string name = "OFFRAMP_" + flag;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return name;
}

bool Setting::leaves_open(const std::string& text) const {
    if (zero == "auto") return text == "auto" || text == "0";
    return text == "auto" && to_text(get(RunConfig{})) == "auto";
}

std::string Setting::compared(const RunConfig& config) const {
    const std::string text = to_text(get(config));
    return counting ? counting(text) : text;
}

std::string WholeRange::describe() const {
    std::string text = std::to_string(least);
    if (most == std::numeric_limits<std::int64_t>::max())
        text += " or more";
    else
        text += " to " + std::to_string(most);
    return zero.empty() ? text : text + ", or 0 for " + zero;
}

Setting& SettingGroup::add(std::string flag, Effect effect, std::string help, std::string value_name,
                           std::string accepted, std::vector<TomlType> toml_types) {
    Setting setting{.effect = effect};
    setting.flag = std::move(flag);
    setting.group = name_;
    setting.value_name = std::move(value_name);
    setting.help = std::move(help);
    setting.accepted = std::move(accepted);
    setting.toml_types = std::move(toml_types);
    return table_.emplace_back(std::move(setting));
}

template <class Number, class Parse>
Setting& SettingGroup::add_whole(std::string flag, Number RunConfig::*member, Effect effect, const WholeRange& range,
                                 std::string help, Parse parse) {
    Setting& setting = add(std::move(flag), effect, std::move(help), "N", range.describe(), {TomlType::Integer});
    setting.set = [member, range, parse](RunConfig& config, const std::string& text) -> Problem {
        const auto parsed = text == range.zero ? std::variant<std::int64_t, std::string>(std::int64_t{0}) : parse(text);
        if (const auto* const problem = std::get_if<std::string>(&parsed)) return *problem;
        const auto number = std::get<std::int64_t>(parsed);
        const bool zero = number == 0 && !range.zero.empty();
        if (!zero && (number < range.least || number > range.most)) return "is out of range";
        config.*member = static_cast<Number>(number);
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) { return static_cast<std::int64_t>(config.*member); };
    setting.zero = range.zero;
    return setting;
}

void SettingGroup::whole(std::string flag, std::uint32_t RunConfig::*member, Effect effect, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), member, effect, range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, std::uint64_t RunConfig::*member, Effect effect, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), member, effect, range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, int RunConfig::*member, Effect effect, WholeRange range, std::string help) {
    add_whole(std::move(flag), member, effect, range, std::move(help), parse_whole);
}

void SettingGroup::bytes(std::string flag, std::uint64_t RunConfig::*member, Effect effect, WholeRange range,
                         std::string help) {
    Setting& setting = add_whole(std::move(flag), member, effect, range, std::move(help), parse_bytes);
    setting.value_name = "BYTES";
    setting.accepted += "; KB, MB, GB, KiB, MiB and GiB may follow the number";
    setting.toml_types = {TomlType::Integer, TomlType::String};
}

void SettingGroup::seconds(std::string flag, double RunConfig::*member, Effect effect, double least, double most,
                           std::string help) {
    decimal(std::move(flag), member, effect, least, most, std::move(help));
    table_.back().value_name = "SECONDS";
}

void SettingGroup::decimal(std::string flag, double RunConfig::*member, Effect effect, double least, double most,
                           std::string help) {
    Setting& setting = add(std::move(flag), effect, std::move(help), "NUMBER",
                           in_words(least) + " to " + in_words(most), {TomlType::Float, TomlType::Integer});
    setting.set = [member, least, most](RunConfig& config, const std::string& text) -> Problem {
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, number);
        if (result.ptr != end || text.empty() || result.ec == std::errc::invalid_argument) return "is not a number";
        if (!(number >= least && number <= most)) return "is out of range";
        config.*member = number;
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) { return config.*member; };
}

void SettingGroup::on_off(std::string flag, bool RunConfig::*member, Effect effect, std::string help) {
    Setting& setting = add(std::move(flag), effect, std::move(help), "", "true, false, 1, 0", {TomlType::Boolean});
    setting.set = [member](RunConfig& config, const std::string& text) { return set_switch(config.*member, text); };
    setting.get = [member](const RunConfig& config) { return config.*member; };
}

void SettingGroup::action(std::string flag, bool RunConfig::*member, std::string help) {
    on_off(std::move(flag), member, {.on = Effect::On::Program}, std::move(help));
    table_.back().command_line_only = true;
}

void SettingGroup::word(std::string flag, std::string RunConfig::*member, Effect effect,
                        const std::vector<std::string>& words, std::string help) {
    text(std::move(flag), member, effect, "WORD", joined(words), std::move(help),
         [words](const std::string& typed) -> Problem {
             if (std::find(words.begin(), words.end(), typed) == words.end()) return "is unknown";
             return std::nullopt;
         })
        .words = words;
}

void SettingGroup::log_format(std::string flag, LogFormat RunConfig::*member, Effect effect, std::string help) {
    Setting& setting = add(std::move(flag), effect, std::move(help), "WORD", "text, json", {TomlType::String});
    setting.set = [member](RunConfig& config, const std::string& text) -> Problem {
        if (text != "text" && text != "json") return "is unknown";
        config.*member = parse_log_format(text);
        return std::nullopt;
    };
    setting.get = [member](const RunConfig& config) -> SettingValue {
        return std::string(config.*member == LogFormat::Json ? "json" : "text");
    };
}

Setting& SettingGroup::text(std::string flag, std::string RunConfig::*member, Effect effect, std::string value_name,
                            std::string accepted, std::string help, TextCheck check) {
    Setting& setting =
        add(std::move(flag), effect, std::move(help), std::move(value_name), std::move(accepted), {TomlType::String});
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

Setting& SettingGroup::path(std::string flag, std::string RunConfig::*member, Effect effect, std::string value_name,
                            std::string accepted, std::string help, TextCheck check) {
    Setting& setting = text(std::move(flag), member, effect, std::move(value_name), std::move(accepted),
                            std::move(help), std::move(check));
    setting.counting = place_of;
    setting.anywhere = whole_path;
    return setting;
}

}  // namespace offramp
