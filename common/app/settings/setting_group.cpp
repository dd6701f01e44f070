#include "common/app/settings/setting_group.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "common/base/utf8.hpp"

namespace offramp {
namespace {

using Problem = std::optional<std::string>;

// The number, or the problem with the text.
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

// The first of two ordered numbers, both in the range. The caller checks a single number.
std::variant<std::int64_t, std::string> parse_bounds(const std::string& text, const WholeRange& range) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) return parse_whole(text);
    const auto least = parse_whole(text.substr(0, dots));
    const auto most = parse_whole(text.substr(dots + 2));
    if (std::holds_alternative<std::string>(least) || std::holds_alternative<std::string>(most))
        return "is neither a whole number nor MIN..MAX";
    const auto is_within = [&](std::int64_t number) { return number >= range.least && number <= range.most; };
    if (!is_within(std::get<std::int64_t>(least)) || !is_within(std::get<std::int64_t>(most))) return "is out of range";
    if (std::get<std::int64_t>(least) > std::get<std::int64_t>(most)) return "has its larger number first";
    return least;
}

Problem check_text(const std::string& text) {
    if (!is_utf8(text)) return "is not valid UTF-8";
    if (text.find('\0') != std::string::npos) return "has a NUL character";
    return std::nullopt;
}

// "s3://bucket/folder" would be a folder "s3:" below the working folder.
Problem check_local(const std::string& path) {
    for (const char* const store : {"s3:/", "gs:/", "az:/", "abfs:/"})
        if (path.starts_with(store) && !path.starts_with(std::string(store) + "/"))
            return "has one slash, and a URL has two: " + std::string(store) + "/BUCKET/PREFIX";
    const std::size_t end = path.find("://");
    const auto is_in_scheme = [](unsigned char letter) {
        return std::isalnum(letter) != 0 || letter == '+' || letter == '-' || letter == '.';
    };
    if (end == std::string::npos || end == 0 || std::isalpha(static_cast<unsigned char>(path.front())) == 0 ||
        !std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end), is_in_scheme))
        return std::nullopt;
    return "is a URL, and " + path.substr(0, end) +
           ":// is not supported: mount it or copy the files. Results may go to s3://, gs://, az:// and abfs:// "
           "(--output)";
}

// The same text for all spellings of a path.
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
    setting.listing = listing_;
    setting.value_name = std::move(value_name);
    setting.help = std::move(help);
    setting.accepted = std::move(accepted);
    setting.toml_types = std::move(toml_types);
    return table_.emplace_back(std::move(setting));
}

template <class Number, class Parse>
Setting& SettingGroup::add_whole(std::string flag, Storage<Number> storage, Effect effect, const WholeRange& range,
                                 std::string help, Parse parse) {
    Setting& setting =
        add(std::move(flag), std::move(effect), std::move(help), "N", range.describe(), {TomlType::Integer});
    setting.set = [put = storage.put, range, parse](RunConfig& config, const std::string& text) -> Problem {
        const auto parsed = text == range.zero ? std::variant<std::int64_t, std::string>(std::int64_t{0}) : parse(text);
        if (const auto* const problem = std::get_if<std::string>(&parsed)) return *problem;
        const auto number = std::get<std::int64_t>(parsed);
        const bool zero = number == 0 && !range.zero.empty();
        if (!zero && (number < range.least || number > range.most)) return "is out of range";
        put(config, static_cast<Number>(number));
        return std::nullopt;
    };
    setting.get = [take = storage.take](const RunConfig& config) { return static_cast<std::int64_t>(take(config)); };
    setting.zero = range.zero;
    return setting;
}

void SettingGroup::whole(std::string flag, Storage<std::uint32_t> storage, Effect effect, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, Storage<std::uint64_t> storage, Effect effect, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help), parse_whole);
}
void SettingGroup::whole(std::string flag, Storage<int> storage, Effect effect, WholeRange range, std::string help) {
    add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help), parse_whole);
}

void SettingGroup::whole(std::string flag, Storage<std::int64_t> storage, Effect effect, WholeRange range,
                         std::string help) {
    add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help), parse_whole);
}

void SettingGroup::whole_or_bounds(std::string flag, Storage<std::uint32_t> storage, Effect effect,
                                   const WholeRange& range, std::string help) {
    Setting& setting = add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help),
                                 [range](const std::string& text) { return parse_bounds(text, range); });
    setting.value_name = "N|MIN..MAX";
    setting.accepted += "; or two of them, as MIN..MAX";
    setting.toml_types = {TomlType::Integer, TomlType::String};
}

void SettingGroup::bytes(std::string flag, Storage<std::uint64_t> storage, Effect effect, WholeRange range,
                         std::string help) {
    Setting& setting =
        add_whole(std::move(flag), std::move(storage), std::move(effect), range, std::move(help), parse_bytes);
    setting.value_name = "BYTES";
    setting.accepted += "; KB, MB, GB, KiB, MiB and GiB may follow the number";
    setting.toml_types = {TomlType::Integer, TomlType::String};
}

void SettingGroup::seconds(std::string flag, Storage<double> storage, Effect effect, double least, double most,
                           std::string help) {
    decimal(std::move(flag), std::move(storage), std::move(effect), least, most, std::move(help));
    table_.back().value_name = "SECONDS";
}

void SettingGroup::decimal(std::string flag, Storage<double> storage, Effect effect, double least, double most,
                           std::string help) {
    Setting& setting = add(std::move(flag), std::move(effect), std::move(help), "NUMBER",
                           in_words(least) + " to " + in_words(most), {TomlType::Float, TomlType::Integer});
    setting.set = [put = storage.put, least, most](RunConfig& config, const std::string& text) -> Problem {
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, number);
        if (result.ptr != end || text.empty() || result.ec == std::errc::invalid_argument) return "is not a number";
        if (!(number >= least && number <= most)) return "is out of range";
        put(config, number);
        return std::nullopt;
    };
    setting.get = [take = storage.take](const RunConfig& config) { return take(config); };
}

void SettingGroup::on_off(std::string flag, Storage<bool> storage, Effect effect, std::string help) {
    Setting& setting =
        add(std::move(flag), std::move(effect), std::move(help), "", "true, false, 1, 0", {TomlType::Boolean});
    setting.set = [put = storage.put](RunConfig& config, const std::string& text) -> Problem {
        const bool on = text == "true" || text == "1";
        if (!on && text != "false" && text != "0") return "is neither true nor false";
        put(config, on);
        return std::nullopt;
    };
    setting.get = [take = storage.take](const RunConfig& config) { return take(config); };
}

void SettingGroup::action(std::string flag, Storage<bool> storage, std::string help) {
    on_off(std::move(flag), std::move(storage), {.on = Effect::On::Program}, std::move(help));
    table_.back().command_line_only = true;
}

void SettingGroup::word(std::string flag, Storage<std::string> storage, Effect effect,
                        const std::vector<std::string>& words, std::string help) {
    text(std::move(flag), std::move(storage), std::move(effect), "WORD", joined(words), std::move(help),
         [words](const std::string& typed) -> Problem {
             if (std::find(words.begin(), words.end(), typed) == words.end()) return "is unknown";
             return std::nullopt;
         })
        .words = words;
}

void SettingGroup::log_format(std::string flag, Storage<LogFormat> storage, Effect effect, std::string help) {
    Setting& setting =
        add(std::move(flag), std::move(effect), std::move(help), "WORD", "text, json", {TomlType::String});
    setting.set = [put = storage.put](RunConfig& config, const std::string& text) -> Problem {
        if (text != "text" && text != "json") return "is unknown";
        put(config, parse_log_format(text));
        return std::nullopt;
    };
    setting.get = [take = storage.take](const RunConfig& config) -> SettingValue {
        return std::string(take(config) == LogFormat::Json ? "json" : "text");
    };
}

Setting& SettingGroup::text(std::string flag, Storage<std::string> storage, Effect effect, std::string value_name,
                            std::string accepted, std::string help, TextCheck check) {
    Setting& setting = add(std::move(flag), std::move(effect), std::move(help), std::move(value_name),
                           std::move(accepted), {TomlType::String});
    setting.set = [put = storage.put, check](RunConfig& config, const std::string& text) -> Problem {
        if (auto problem = check_text(text)) return problem;
        if (check)
            if (auto problem = check(text)) return problem;
        put(config, text);
        return std::nullopt;
    };
    setting.get = [take = storage.take](const RunConfig& config) { return take(config); };
    return setting;
}

Setting& SettingGroup::path(std::string flag, Storage<std::string> storage, Effect effect, std::string value_name,
                            std::string accepted, std::string help, TextCheck check) {
    const auto check_path = [check = std::move(check)](const std::string& given) -> Problem {
        if (auto problem = check_local(given)) return problem;
        return check ? check(given) : std::nullopt;
    };
    Setting& setting = text(std::move(flag), std::move(storage), std::move(effect), std::move(value_name),
                            std::move(accepted), std::move(help), check_path);
    setting.counting = place_of;
    setting.anywhere = whole_path;
    return setting;
}

std::string whole_path(const std::string& path) {
    if (path.empty()) return path;
    std::error_code problem;
    const std::string whole = std::filesystem::absolute(path, problem).string();
    return problem ? path : whole;
}

std::string Setting::environment_name() const {
    std::string name = "OFFRAMP_" + flag;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return name;
}

bool Setting::leaves_unset(const std::string& text) const {
    if (zero == "auto") return text == "auto" || text == "0";
    return text == "auto" && to_text(get(RunConfig{})) == "auto";
}

std::string Setting::compared(const RunConfig& config) const {
    const std::string text = to_text(get(config));
    return counting ? counting(text) : text;
}

}  // namespace offramp
