#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/app/settings/effect.hpp"
#include "common/app/settings/run_config.hpp"
#include "common/app/settings/setting_value.hpp"
#include "common/app/settings/toml.hpp"

namespace offramp {

// Where help lists a setting: in --help, in --help-all alone (for measurements, tests and few users), or nowhere, as it
// is what a launcher gives its programs.
enum class Listing { Help, FullHelp, Nowhere };

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
    Listing listing = Listing::Help;
    bool command_line_only = false;  // an action, not part of a configuration

    // Puts the text into the member; what is wrong with it ("is not a whole number") when it cannot.
    std::function<std::optional<std::string>(RunConfig& config, const std::string& text)> set;
    std::function<SettingValue(const RunConfig& config)> get;

    // The part of a text that counts in a comparison of two programs' settings; none: all of it.
    std::function<std::string(const std::string& text)> counting;

    // The same text for a program in another folder; none: as it is.
    std::function<std::string(const std::string& text)> anywhere;
    std::string zero;  // of a whole number: the word that 0 means, as "auto"

    std::string environment_name() const;
    // True of a text that leaves the value to the program.
    bool leaves_unset(const std::string& text) const;
    // The value as it is compared. Of a path: perhaps with a look at links.
    std::string compared(const RunConfig& config) const;
};

// Every setting: section by section, and in each what is declared for its group last.
std::vector<Setting> make_settings();

// From / on; where there is no working folder any more, as written.
std::string whole_path(const std::string& path);

}  // namespace offramp
