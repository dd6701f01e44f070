#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/app/settings/declared_setting.hpp"
#include "common/app/settings/effects.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/toml.hpp"

namespace offramp {

// Where help lists a setting: in --help, only in --help-all (for measurements, tests and few users), or nowhere,
// because only a launcher uses it.
enum class Listing { Help, FullHelp, Nowhere };

// One setting of RunConfig. A table of settings drives command line, environment, file, --help and both printers.
struct Setting {
    Effect effect;           // what another value changes
    std::string flag;        // "image-size": --image-size, OFFRAMP_IMAGE_SIZE, image-size = in the file
    std::string group;       // heading in --help
    std::string value_name;  // "N", "FOLDER" in --help; empty: a switch
    std::string help;
    std::string accepted;              // "32 to 8192, or 0 for auto"
    std::vector<std::string> words;    // the accepted words, if there are only a few
    std::vector<TomlType> toml_types;  // accepted in the file; the first is used for printing
    Listing listing = Listing::Help;
    bool command_line_only = false;  // an action, not part of a configuration
    bool repeated = false;           // the flag may be repeated: the text has a line for each

    // Stores the text in the member. Returns the problem ("is not a whole number") if it cannot.
    std::function<std::optional<std::string>(RunConfig& config, const std::string& text)> set;
    std::function<SettingValue(const RunConfig& config)> get;

    // The part of a text that counts in a comparison of two programs' settings; null: the whole text.
    std::function<std::string(const std::string& text)> counting;

    // The text for a program in another folder; null: unchanged.
    std::function<std::string(const std::string& text)> anywhere;
    std::string zero;  // for a whole number: the word that 0 means, such as "auto"

    std::string environment_name() const;
    // True if the text leaves the value to the program.
    bool leaves_unset(const std::string& text) const;
    // The value for comparisons. Links in a path may be resolved.
    std::string compared(const RunConfig& config) const;
};

// All settings, section by section. In a section, settings that plug-ins declare for it come last.
std::vector<Setting> make_settings();

// The absolute path; unchanged if the working folder no longer exists.
std::string whole_path(const std::string& path);

// The accepted whole numbers. With `zero`, 0 is accepted too and means that word.
struct WholeRange {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::string zero;

    std::string describe() const;  // "1 to 64, or 0 for auto"
};

using TextCheck = std::function<std::optional<std::string>(const std::string& text)>;

// The place of a setting's value: a member of a section, or a declaration of a plug-in.
template <class T>
struct Storage {
    std::function<void(RunConfig& config, T value)> put;
    std::function<T(const RunConfig& config)> take;

    template <class Section>
    Storage(T Section::*member)  // NOLINT(google-explicit-constructor): a section's member is named as it is
        : put([member](RunConfig& config, T value) { config.*member = std::move(value); }),
          take([member](const RunConfig& config) { return config.*member; }) {}
    // Storage for the declared setting `flag`, whose preset must be a T.
    static Storage declared(const std::string& flag) { return Storage(flag); }

  private:
    explicit Storage(const std::string& flag)
        : put([flag](RunConfig& config, T value) { config.catalogue.put(flag, std::move(value)); }),
          take([flag](const RunConfig& config) { return std::get<T>(config.catalogue.at(flag)); }) {}
};

// Creates the settings of one group and appends them to a table. Appending may move earlier settings. Borrows the
// table.
class SettingGroup {
  public:
    SettingGroup(std::vector<Setting>& table, std::string name, Listing listing = Listing::Help)
        : table_(table), name_(std::move(name)), listing_(listing) {}

    // The same group, for settings that only --help-all lists.
    SettingGroup advanced() const { return {table_, name_, Listing::FullHelp}; }
    // The same group, for settings that only a launcher uses.
    SettingGroup of_the_launcher() const { return {table_, name_, Listing::Nowhere}; }

    void whole(std::string flag, Storage<std::uint32_t> storage, Effect effect, WholeRange range, std::string help);
    void whole(std::string flag, Storage<std::uint64_t> storage, Effect effect, WholeRange range, std::string help);
    void whole(std::string flag, Storage<int> storage, Effect effect, WholeRange range, std::string help);
    void whole(std::string flag, Storage<std::int64_t> storage, Effect effect, WholeRange range, std::string help);
    // A number, or MIN..MAX, whose first number is the value. The part that scales between them reads the given text.
    void whole_or_bounds(std::string flag, Storage<std::uint32_t> storage, Effect effect, const WholeRange& range,
                         std::string help);
    // A number of bytes, which may end in KB, MB, GB (powers of 1000) or KiB, MiB, GiB (of 1024).
    void bytes(std::string flag, Storage<std::uint64_t> storage, Effect effect, WholeRange range, std::string help);
    void seconds(std::string flag, Storage<double> storage, Effect effect, double least, double most, std::string help);
    void decimal(std::string flag, Storage<double> storage, Effect effect, double least, double most, std::string help);
    void on_off(std::string flag, Storage<bool> storage, Effect effect, std::string help);
    void action(std::string flag, Storage<bool> storage, std::string help);  // for a single program
    void word(std::string flag, Storage<std::string> storage, Effect effect, const std::vector<std::string>& words,
              std::string help);
    void log_format(std::string flag, Storage<LogFormat> storage, Effect effect, std::string help);
    // Any text without NUL that passes `check`.
    Setting& text(std::string flag, Storage<std::string> storage, Effect effect, std::string value_name,
                  std::string accepted, std::string help, TextCheck check = {});
    // The same for a file or a folder.
    Setting& path(std::string flag, Storage<std::string> storage, Effect effect, std::string value_name,
                  std::string accepted, std::string help, TextCheck check = {});

  private:
    Setting& add(std::string flag, Effect effect, std::string help, std::string value_name, std::string accepted,
                 std::vector<TomlType> toml_types);
    template <class Number, class Parse>
    Setting& add_whole(std::string flag, Storage<Number> storage, Effect effect, const WholeRange& range,
                       std::string help, Parse parse);

    std::vector<Setting>& table_;
    std::string name_;
    Listing listing_;
};

}  // namespace offramp
