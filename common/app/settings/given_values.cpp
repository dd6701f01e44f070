#include "common/app/settings/given_values.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/toml.hpp"
#include "common/base/version.hpp"

namespace offramp {
namespace {

constexpr const char* kConfigFlag = "config";
constexpr const char* kConfigVariable = "OFFRAMP_CONFIG";
constexpr const char* kVariablePrefix = "OFFRAMP_";
// Variables that are not settings of a run: those of the launcher and the Python package, and those for tests and
// measurements.
constexpr std::array<std::string_view, 13> kOtherVariables{
    "OFFRAMP_BIN_DIR",       "OFFRAMP_BUILD_DIR", "OFFRAMP_CUDA_DIR",         "OFFRAMP_LIBRARY",
    "OFFRAMP_PDB",           "OFFRAMP_PYTHON",    "OFFRAMP_REVISION",         "OFFRAMP_SHARD_INDEX",
    "OFFRAMP_SKIP_PACKAGES", "OFFRAMP_TORCH_DIR", "OFFRAMP_TOKENIZER_PYTHON", "OFFRAMP_UPLOADER",
    "OFFRAMP_WORK"};
constexpr std::array<std::string_view, 5> kOtherPrefixes{"OFFRAMP_TEST_", "OFFRAMP_BENCH_", "OFFRAMP_CRASH_",
                                                         "OFFRAMP_FAILPOINT", "OFFRAMP_FUZZ_"};

std::vector<std::string> flags_of(const std::vector<Setting>& settings) {
    std::vector<std::string> flags{kConfigFlag};
    for (const Setting& setting : settings)
        if (setting.listing != Listing::Nowhere) flags.push_back(setting.flag);
    return flags;
}

std::string suggestion(const std::string& typed, const std::vector<std::string>& known, const std::string& before) {
    const auto nearest = nearest_word(typed, known);
    return nearest ? "Did you mean " + before + *nearest + "? " : std::string();
}

// "samples in a batch", then on a separate line the accepted values and the default.
std::string help_of(const Setting& setting) {
    if (setting.value_name.empty()) return setting.help;
    std::ostringstream preset;
    std::visit([&](const auto& value) { preset << value; }, setting.get(RunConfig{}));
    return setting.help + "\n" + setting.accepted + (preset.str().empty() ? "" : "; default " + preset.str());
}

[[noreturn]] void refuse_argument(const std::string& argument, const std::vector<Setting>& settings) {
    if (!argument.starts_with('-'))
        throw ConfigError(
            "'" + argument + "' is neither a flag nor a command: a command comes first, followed by its arguments",
            "Every setting is a flag: --name value; see --help");
    std::vector<std::string> known = flags_of(settings);
    known.insert(known.end(), {"help", "help-all", "version"});
    const std::size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
    const std::string name = argument.substr(dashes, argument.find('=') - dashes);
    throw ConfigError("unknown flag " + argument.substr(0, argument.find('=')),
                      suggestion(name, known, "--") + "See --help for all");
}

// Reads the command line; returns nothing after --help or --version. CLI11 only splits and describes the arguments: it
// would rank the file above the environment, and its reader cuts strings at '#' and at commas.
std::optional<GivenValues> read_command_line(int argc, const char* const* argv, const std::string& program,
                                             const std::vector<Setting>& settings) {
    CLI::App app(
        "Takes large model outputs off the GPU. Every flag may also be set in the environment (OFFRAMP_IMAGE_SIZE) or "
        "in the file of --config (image-size = 512); the command line wins, then the environment.",
        program);
    const bool lists_all = std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--help-all"; });
    app.set_help_flag("-h,--help", "Print this and exit");
    app.set_help_all_flag("--help-all", "Print every flag, also those that few users need, and exit");
    app.set_version_flag("--version", program + " " + std::string(program_version()), "Print the version and exit");
    app.allow_extras();

    std::map<std::string, std::string> texts;  // a map, because CLI11 needs stable addresses
    app.add_option("--config", texts[kConfigFlag], "Read settings from this TOML file")->type_name("FILE");
    for (const Setting& setting : settings) {
        std::string& text = texts[setting.flag];
        CLI::Option* const option = setting.value_name.empty()
                                        ? app.add_flag("--" + setting.flag, text, help_of(setting))
                                        : app.add_option("--" + setting.flag, text, help_of(setting));
        const bool is_listed = setting.listing == Listing::Help || (lists_all && setting.listing == Listing::FullHelp);
        option->group(is_listed ? setting.group : "")
            ->multi_option_policy(setting.repeated ? CLI::MultiOptionPolicy::Join : CLI::MultiOptionPolicy::TakeLast);
        if (!setting.value_name.empty()) option->type_name(setting.value_name);
    }

    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForVersion& version) {
        std::cout << version.what() << '\n';
        return std::nullopt;
    } catch (const CLI::Success&) {  // --help or --help-all
        std::cout << app.help();
        return std::nullopt;
    } catch (const CLI::ParseError& problem) {
        throw ConfigError(problem.what(), "See --help");
    }
    if (const auto extras = app.remaining(); !extras.empty()) refuse_argument(extras.front(), settings);

    GivenValues given;
    for (const auto& [flag, text] : texts)
        if (app.count("--" + flag) > 0) given[flag] = {text, "--" + flag};
    return given;
}

// A misspelt variable would have no effect. Do not show its value: it may be a secret.
void refuse_unknown_variable(const std::string& name, const std::vector<Setting>& settings) {
    if (std::ranges::find(kOtherVariables, name) != kOtherVariables.end() ||
        std::ranges::any_of(kOtherPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }))
        return;
    std::vector<std::string> known{kConfigVariable};
    for (const Setting& setting : settings) {
        if (!setting.command_line_only) known.push_back(setting.environment_name());
        if (name != known.back() && name == setting.environment_name())
            throw ConfigError("the environment variable " + name + " has no effect",
                              "Give --" + setting.flag + " on the command line");
    }
    if (std::ranges::find(known, name) != known.end()) return;
    known.insert(known.end(), kOtherVariables.begin(), kOtherVariables.end());
    throw ConfigError(
        "the environment variable " + name + " is not a setting",
        suggestion(name, known, "") + "Most flags have a variable, such as OFFRAMP_BATCH for --batch. Unset this one");
}

void refuse_unknown_variables(const std::vector<Setting>& settings) {
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t end = text.find('=');
        if (text.starts_with(kVariablePrefix) && end != std::string_view::npos && end + 1 < text.size())
            refuse_unknown_variable(std::string(text.substr(0, end)), settings);
    }
}

// An empty variable counts as unset.
GivenValues read_environment(const std::vector<Setting>& settings) {
    refuse_unknown_variables(settings);
    GivenValues given;
    const auto take = [&given](const std::string& flag, const std::string& variable) {
        const char* const text = std::getenv(variable.c_str());
        if (text != nullptr && *text != '\0') given[flag] = {text, variable + " (--" + flag + ")"};
    };
    take(kConfigFlag, kConfigVariable);
    for (const Setting& setting : settings)
        if (!setting.command_line_only) take(setting.flag, setting.environment_name());
    return given;
}

std::string read_whole_file(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    // A folder can be opened, but not read.
    if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
    if (!file.is_open() || file.bad())
        throw ConfigError(
            "configuration file '" + path + "' cannot be read: " + std::strerror(errno == 0 ? EIO : errno),
            "Check --config", ErrorKind::Config);
    return text.str();
}

const Setting& setting_for(const TomlEntry& entry, const std::string& place, const std::vector<Setting>& settings) {
    std::vector<std::string> keys;
    for (const Setting& setting : settings) {
        if (!setting.command_line_only) keys.push_back(setting.flag);
        if (setting.flag != entry.key) continue;
        if (setting.command_line_only)
            throw ConfigError(place + " is not a setting of a file", "Give --" + entry.key + " on the command line",
                              ErrorKind::Config);
        return setting;
    }
    throw ConfigError(place + " is an unknown key",
                      suggestion(entry.key, keys, "") + "Keys are flags without the leading dashes; see --help",
                      ErrorKind::Config);
}

}  // namespace

GivenValues read_file(const std::string& path, const std::vector<Setting>& settings) {
    GivenValues given;
    for (const TomlEntry& entry : read_toml(read_whole_file(path), path)) {
        const std::string place = path + ":" + std::to_string(entry.line) + ": " + entry.key;
        const Setting& setting = setting_for(entry, place, settings);
        const auto& types = setting.toml_types;
        if (std::find(types.begin(), types.end(), entry.type) == types.end())
            throw ConfigError(place + " (--" + setting.flag + ") is " + std::string(to_string(entry.type)) + " ('" +
                                  entry.text + "'), expected " + std::string(to_string(types.front())),
                              "Accepted: " + setting.accepted, ErrorKind::Config);
        given[setting.flag] = {entry.text, place + " (--" + setting.flag + ")", ErrorKind::Config};
    }
    return given;
}

std::optional<GivenValues> read_given(int argc, const char* const* argv, const std::string& program,
                                      const std::vector<Setting>& settings) {
    auto given = read_command_line(argc, argv, program, settings);
    if (!given) return std::nullopt;
    given->merge(read_environment(settings));  // merge() keeps existing values
    if (const auto file = given->find(kConfigFlag); file != given->end())
        given->merge(read_file(file->second.text, settings));
    return given;
}

void apply(const Setting& setting, const GivenValues& given, RunConfig& config) {
    const auto found = given.find(setting.flag);
    if (found == given.end()) return;
    const auto& [text, origin, kind] = found->second;
    if (const auto problem = setting.set(config, text))
        throw ConfigError(origin + " '" + text + "' " + *problem,
                          suggestion(text, setting.words, "") + "Accepted: " + setting.accepted, kind);
}

}  // namespace offramp
