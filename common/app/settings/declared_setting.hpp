#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/app/settings/declarations.hpp"

namespace offramp {

// A setting's value.
using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

// The value without quotes: "true", "4", "0.5", "mask-png".
std::string to_text(const SettingValue& value);

// The values of the settings that plug-ins and rooms declare in their own files (declared_setting.hpp), by flag. Always
// holds all of them; a new object holds their presets. The code that declares a setting reads its value from here into
// its own struct. Errors: an undeclared flag, or a value of the wrong kind, is a bug (expect).
class CatalogueValues {
  public:
    CatalogueValues();

    const SettingValue& at(std::string_view flag) const;
    const std::string& text(std::string_view flag) const;
    std::int64_t number(std::string_view flag) const;
    bool on(std::string_view flag) const;

    // Does not check the value: Setting::set does.
    void put(std::string_view flag, SettingValue value);

    bool operator==(const CatalogueValues&) const = default;

  private:
    std::map<std::string, SettingValue, std::less<>> values_;
};

class CatalogueValues;
class SettingGroup;

// A setting that a plug-in or room declares in a TOML file beside its source. Every program contains all of these
// files, so the producer, which does not know processors, can also check, print, store and compare the settings:
//
//     # plugins/brightest.toml, beside plugins/brightest.cpp
//     [[setting]]
//     flag = "brightest-base"
//     kind = "word"
//     words = "10, 16"
//     preset = "10"
//     changes = "results"
//     help = "Processor `brightest`: base of the numbers"
//
// The keys are the members below, with '-' for '_'. A setting in a plug-in's file belongs to that plug-in; one in
// another file belongs to the plug-ins whose `[results]` name it (processor_results.hpp).
struct DeclaredSetting {
    enum class Kind { Whole, Decimal, OnOff, Word, Text, Path, Url, Header };

    std::string flag;  // "brightest-base": also OFFRAMP_BRIGHTEST_BASE, and a key of --config
    Kind kind =
        Kind::Text;  // whole, decimal, on-off, word, text, path, url (printed without its query), header (hidden)
    std::string group = "Consumers";  // a section's heading in --help
    std::string help;
    std::string value_name;          // "FILE" in --help; empty: the kind's
    std::string accepted;            // for a text: the text after "Accepted:"
    std::vector<std::string> words;  // for a word: the accepted words, separated by commas
    double least = 0, most = std::numeric_limits<double>::infinity();  // for numbers
    std::string zero;                                                  // the word that 0 means, such as "auto"
    bool needed = false;                                               // the text must not be empty
    SettingValue preset;                                               // required for whole, decimal and word
    std::string
        changes;  // results: contents of results; place: their location; memory: slabs; conduct: nothing of these
    std::string
        plug_in;  // the plug-in whose file declares it; empty: a shared file (ProcessorResults::shared_settings)
    std::string reads_pictures;   // with this value, processors read the input's pictures; empty: never
    std::string reads_texts;      // with this value, processors read the input's text table; empty: never
    bool advanced = false;        // listed by --help-all only
    bool names_egress = false;    // its value names the egress strategy (ChosenEgress); at most one setting
    std::string memory_per_slab;  // with this value, each slab's memory is created when it is filled; empty: never

    // In the order of the sources. Errors: those of read_declarations().
    static const std::vector<DeclaredSetting>& all();
};

// Errors: ConfigError with file, line and key, for an invalid declaration.
std::vector<DeclaredSetting> read_declarations(const CatalogueSource& source);

// True if a setting has its `memory_per_slab` value. Consumers then map each slab anew, and the slabs' memory ends with
// the producer.
bool makes_memory_per_slab(const CatalogueValues& values);

// The chosen egress strategy (how outputs leave the device).
struct ChosenEgress {
    std::string flag;  // the flag of the setting that names it
    std::string name;
    bool is_preset = true;

    static ChosenEgress in(const CatalogueValues& values);
};

void describe_declared(const DeclaredSetting& declared, SettingGroup& group);

}  // namespace offramp
