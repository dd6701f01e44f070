#include "common/app/settings/declared_setting.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "common/app/settings/declarations.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"
#include "common/base/error.hpp"
#include "common/base/redacted_url.hpp"

namespace offramp {
namespace {

template <class Value>
const Value& as(const SettingValue& value) {
    const auto* const held = std::get_if<Value>(&value);
    expect(held != nullptr, "a declared setting is read as what it is");
    return *held;
}

using Kind = DeclaredSetting::Kind;

const std::map<std::string, Kind, std::less<>>& kinds() {
    static const std::map<std::string, Kind, std::less<>> known{
        {"whole", Kind::Whole}, {"decimal", Kind::Decimal}, {"on-off", Kind::OnOff}, {"word", Kind::Word},
        {"text", Kind::Text},   {"path", Kind::Path},       {"url", Kind::Url},      {"header", Kind::Header}};
    return known;
}

std::optional<double> number_in(const std::string& text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return number;
}

template <std::vector<std::string> DeclaredSetting::*kMember>
bool take_names(DeclaredSetting& setting, const std::string& text) {
    setting.*kMember = names_in(text);
    return !text.empty();
}
template <double DeclaredSetting::*kMember>
bool take_number(DeclaredSetting& setting, const std::string& text) {
    const auto number = number_in(text);
    setting.*kMember = number.value_or(0);
    return number.has_value();
}
template <bool DeclaredSetting::*kMember>
bool take_yes_or_no(DeclaredSetting& setting, const std::string& text) {
    setting.*kMember = text == "true";
    return text == "true" || text == "false";
}
bool take_kind(DeclaredSetting& setting, const std::string& text) {
    const auto found = kinds().find(text);
    if (found != kinds().end()) setting.kind = found->second;
    return found != kinds().end();
}
bool take_changes(DeclaredSetting& setting, const std::string& text) {
    setting.changes = text;
    return text == "results" || text == "place" || text == "memory" || text == "conduct";
}

// All keys except `preset`, whose form depends on the others.
const KeysOf<DeclaredSetting>& keys_of_settings() {
    static const KeysOf<DeclaredSetting> known{
        {"flag", take_text<DeclaredSetting, &DeclaredSetting::flag>},
        {"kind", take_kind},
        {"group", take_text<DeclaredSetting, &DeclaredSetting::group>},
        {"help", take_text<DeclaredSetting, &DeclaredSetting::help>},
        {"value-name", take_text<DeclaredSetting, &DeclaredSetting::value_name>},
        {"accepted", take_text<DeclaredSetting, &DeclaredSetting::accepted>},
        {"words", take_names<&DeclaredSetting::words>},
        {"least", take_number<&DeclaredSetting::least>},
        {"most", take_number<&DeclaredSetting::most>},
        {"zero", take_text<DeclaredSetting, &DeclaredSetting::zero>},
        {"needed", take_yes_or_no<&DeclaredSetting::needed>},
        {"changes", take_changes},
        {"reads-pictures", take_text<DeclaredSetting, &DeclaredSetting::reads_pictures>},
        {"reads-texts", take_text<DeclaredSetting, &DeclaredSetting::reads_texts>},
        {"advanced", take_yes_or_no<&DeclaredSetting::advanced>},
        {"names-egress", take_yes_or_no<&DeclaredSetting::names_egress>},
        {"memory-per-slab", take_text<DeclaredSetting, &DeclaredSetting::memory_per_slab>}};
    return known;
}

std::optional<SettingValue> preset_of(Kind kind, const std::string& text) {
    if (kind == Kind::OnOff)
        return text == "true" || text == "false" ? std::optional<SettingValue>(text == "true") : std::nullopt;
    if (kind != Kind::Whole && kind != Kind::Decimal) return SettingValue(text);
    const auto number = number_in(text);
    if (!number) return std::nullopt;
    return kind == Kind::Decimal ? SettingValue(*number) : SettingValue(static_cast<std::int64_t>(*number));
}

DeclaredSetting read_setting(const TomlTable& table, const CatalogueSource& source) {
    const auto fail = [&](std::size_t line, const std::string& problem) { refuse_declaration(source, line, problem); };
    DeclaredSetting setting{.plug_in = std::string(source.plug_in)};
    const TomlEntry* preset = nullptr;
    for (const TomlEntry& entry : table.entries) {
        if (entry.key == "preset") {
            preset = &entry;
            continue;
        }
        take_entry(setting, keys_of_settings(), entry, source, "a setting");
    }
    const bool has_kind = std::ranges::find(table.entries, "kind", &TomlEntry::key) != table.entries.end();
    if (setting.flag.empty() || !has_kind || setting.help.empty() || setting.changes.empty())
        fail(table.line, "a setting needs flag, kind, help and changes");
    const bool has_number = setting.kind == Kind::Whole || setting.kind == Kind::Decimal;
    setting.preset = setting.kind == Kind::OnOff ? SettingValue(false) : SettingValue(std::string());
    if (preset != nullptr) {
        const auto value = preset_of(setting.kind, preset->text);
        if (!value) fail(preset->line, "preset does not fit the kind: '" + preset->text + "'");
        setting.preset = *value;
    } else if (has_number || setting.kind == Kind::Word) {
        fail(table.line, "--" + setting.flag + " needs a preset");
    }
    if (setting.kind == Kind::Decimal && std::isinf(setting.most))
        fail(table.line, "--" + setting.flag + " needs most");
    if (setting.kind == Kind::Word && setting.words.empty()) fail(table.line, "--" + setting.flag + " needs words");
    return setting;
}

Effect effect_of(const DeclaredSetting& declared) {
    if (declared.changes == "results") return of_processing(has_reader_of(declared));
    return declared.changes == "place" ? kPlace : declared.changes == "memory" ? kMemory : kRuntime;
}

// The printed form goes into files and logs. A note replaces a header in the clear, and a URL is printed without its
// query and credentials.
void keep_secret(const DeclaredSetting& declared, Setting& setting) {
    const std::string& flag = declared.flag;
    if (declared.kind == Kind::Url) {
        setting.get = [flag](const RunConfig& config) { return kept_url(config.catalogue.text(flag)); };
        setting.counting = redacted_url;  // a key in its query may change
    } else {
        setting.get = [flag](const RunConfig& config) { return kept_header(config.catalogue.text(flag)); };
        setting.anywhere = [](const std::string& text) {
            return text.starts_with('@') ? "@" + whole_path(text.substr(1)) : text;
        };
    }
}

void describe_text(const DeclaredSetting& declared, SettingGroup& group) {
    const auto storage = Storage<std::string>::declared(declared.flag);
    const Effect effect = effect_of(declared);
    const TextCheck check = declared.kind == Kind::Url ? check_url : declared.needed ? check_not_empty : TextCheck();
    const std::string name =
        declared.value_name.empty() ? (declared.kind == Kind::Path ? "FILE" : "TEXT") : declared.value_name;
    const std::string accepted =
        declared.accepted.empty() ? (declared.kind == Kind::Path ? "a path" : "a text") : declared.accepted;
    if (declared.kind == Kind::Path) {
        group.path(declared.flag, storage, effect, name, accepted, declared.help, check);
        return;
    }
    Setting& setting = group.text(declared.flag, storage, effect, name, accepted, declared.help, check);
    if (declared.kind != Kind::Text) keep_secret(declared, setting);
}

}  // namespace

CatalogueValues::CatalogueValues() {
    for (const DeclaredSetting& setting : DeclaredSetting::all()) values_[setting.flag] = setting.preset;
}

const SettingValue& CatalogueValues::at(std::string_view flag) const {
    const auto found = values_.find(flag);
    expect(found != values_.end(), "the setting is declared");
    return found->second;
}

const std::string& CatalogueValues::text(std::string_view flag) const { return as<std::string>(at(flag)); }
std::int64_t CatalogueValues::number(std::string_view flag) const { return as<std::int64_t>(at(flag)); }
bool CatalogueValues::on(std::string_view flag) const { return as<bool>(at(flag)); }

void CatalogueValues::put(std::string_view flag, SettingValue value) {
    const auto found = values_.find(flag);
    expect(found != values_.end() && found->second.index() == value.index(), "a declared setting keeps its kind");
    found->second = std::move(value);
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

std::vector<DeclaredSetting> read_declarations(const CatalogueSource& source) {
    std::vector<DeclaredSetting> settings;
    const TomlDocument document = declarations_of(source);
    for (const TomlTable& table : document.tables) settings.push_back(read_setting(table, source));
    return settings;
}

const std::vector<DeclaredSetting>& DeclaredSetting::all() {
    static const std::vector<DeclaredSetting> settings = [] {
        std::vector<DeclaredSetting> all;
        for (const CatalogueSource& source : CatalogueSource::all())
            for (DeclaredSetting& setting : read_declarations(source)) {
                if (std::ranges::find(all, setting.flag, &DeclaredSetting::flag) != all.end())
                    throw ConfigError("--" + setting.flag + " of " + std::string(source.file) + " is declared twice",
                                      "Give it another name", ErrorKind::Config);
                all.push_back(std::move(setting));
            }
        return all;
    }();
    return settings;
}

bool makes_memory_per_slab(const CatalogueValues& values) {
    return std::ranges::any_of(DeclaredSetting::all(), [&](const DeclaredSetting& setting) {
        return !setting.memory_per_slab.empty() && values.text(setting.flag) == setting.memory_per_slab;
    });
}

ChosenEgress ChosenEgress::in(const CatalogueValues& values) {
    const auto& settings = DeclaredSetting::all();
    const auto found = std::ranges::find(settings, true, &DeclaredSetting::names_egress);
    expect(found != settings.end(), "some setting names the way off the device");
    return {
        .flag = found->flag, .name = values.text(found->flag), .is_preset = values.at(found->flag) == found->preset};
}

void describe_declared(const DeclaredSetting& declared, SettingGroup& group) {
    constexpr double kBeyondAll = 9.2e18;
    const std::string& flag = declared.flag;
    switch (declared.kind) {
        case Kind::Whole: {
            WholeRange range{.least = static_cast<std::int64_t>(declared.least), .most = 0, .zero = declared.zero};
            range.most = declared.most > kBeyondAll ? std::numeric_limits<std::int64_t>::max()
                                                    : static_cast<std::int64_t>(declared.most);
            group.whole(flag, Storage<std::int64_t>::declared(flag), effect_of(declared), range, declared.help);
            break;
        }
        case Kind::Decimal:
            group.decimal(flag, Storage<double>::declared(flag), effect_of(declared), declared.least, declared.most,
                          declared.help);
            break;
        case Kind::OnOff:
            group.on_off(flag, Storage<bool>::declared(flag), effect_of(declared), declared.help);
            break;
        case Kind::Word:
            group.word(flag, Storage<std::string>::declared(flag), effect_of(declared), declared.words, declared.help);
            break;
        default:
            describe_text(declared, group);
    }
}

}  // namespace offramp
