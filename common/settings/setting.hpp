#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/settings/effect.hpp"
#include "common/settings/run_config.hpp"
#include "common/settings/toml.hpp"

namespace offramp {

// A setting's value, as the printers write it.
using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

// Without quotes: "true", "4", "0.5", "mask-png".
std::string to_text(const SettingValue& value);

// One setting of RunConfig. Command line, environment, file, --help and both printers are driven by the table
// of these.
struct Setting {
    Effect effect;           // of another value
    std::string flag;        // "image-size": --image-size, OFFRAMP_IMAGE_SIZE, image-size = in the file
    std::string group;       // heading in --help
    std::string value_name;  // "N", "FOLDER" in --help; empty: a switch
    std::string help;
    std::string accepted;              // "32 to 8192, or 0 for auto"
    std::vector<std::string> words;    // all that are accepted, where these are few words
    std::vector<TomlType> toml_types;  // that the file may use; the first is how it is printed
    bool command_line_only = false;    // an action, not part of a configuration

    // Puts the text into the member; what is wrong with it ("is not a whole number") when it cannot.
    std::function<std::optional<std::string>(RunConfig& config, const std::string& text)> set;
    std::function<SettingValue(const RunConfig& config)> get;

    // What of a text counts where two programs' settings are compared; none: all of it.
    std::function<std::string(const std::string& text)> counting;

    // The same text for a program in another folder; none: as it is.
    std::function<std::string(const std::string& text)> anywhere;
    std::string zero;  // of a whole number: the word that 0 means, as "auto"

    std::string environment_name() const;
    // True of a text that leaves the value to the program.
    bool leaves_open(const std::string& text) const;
    // The value as it is compared. Of a path: perhaps with a look at links.
    std::string compared(const RunConfig& config) const;
};

// Every setting, in the order of RunConfig's members.
std::vector<Setting> make_settings();

// --- kinds of settings, for the table ---

// What whole numbers are accepted. With `zero`, 0 is accepted too and means that word.
struct WholeRange {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::string zero;

    std::string describe() const;  // "1 to 64, or 0 for auto"
};

// From / on; where there is no working folder any more, as it was written.
std::string whole_path(const std::string& path);

using TextCheck = std::function<std::optional<std::string>(const std::string& text)>;

// Makes the settings of one group and appends them to a table. Borrows the table.
class SettingGroup {
  public:
    SettingGroup(std::vector<Setting>& table, std::string name) : table_(table), name_(std::move(name)) {}

    void whole(std::string flag, std::uint32_t RunConfig::*member, Effect effect, WholeRange range, std::string help);
    void whole(std::string flag, std::uint64_t RunConfig::*member, Effect effect, WholeRange range, std::string help);
    void whole(std::string flag, int RunConfig::*member, Effect effect, WholeRange range, std::string help);
    // A number of bytes, which may end in KB, MB, GB (powers of 1000) or KiB, MiB, GiB (of 1024).
    void bytes(std::string flag, std::uint64_t RunConfig::*member, Effect effect, WholeRange range, std::string help);
    void seconds(std::string flag, double RunConfig::*member, Effect effect, double least, double most,
                 std::string help);
    void decimal(std::string flag, double RunConfig::*member, Effect effect, double least, double most,
                 std::string help);
    void on_off(std::string flag, bool RunConfig::*member, Effect effect, std::string help);
    void action(std::string flag, bool RunConfig::*member, std::string help);  // of one program alone
    void word(std::string flag, std::string RunConfig::*member, Effect effect, const std::vector<std::string>& words,
              std::string help);
    void log_format(std::string flag, LogFormat RunConfig::*member, Effect effect, std::string help);
    // Any text without NUL that passes `check`.
    Setting& text(std::string flag, std::string RunConfig::*member, Effect effect, std::string value_name,
                  std::string accepted, std::string help, TextCheck check = {});
    // The same, of a file or a folder.
    Setting& path(std::string flag, std::string RunConfig::*member, Effect effect, std::string value_name,
                  std::string accepted, std::string help, TextCheck check = {});

  private:
    Setting& add(std::string flag, Effect effect, std::string help, std::string value_name, std::string accepted,
                 std::vector<TomlType> toml_types);
    template <class Number, class Parse>
    Setting& add_whole(std::string flag, Number RunConfig::*member, Effect effect, const WholeRange& range,
                       std::string help, Parse parse);

    std::vector<Setting>& table_;
    std::string name_;
};

}  // namespace offramp
