#pragma once

#include <limits>
#include <string>
#include <vector>

#include "common/settings/catalogue_source.hpp"
#include "common/settings/setting_value.hpp"

namespace offramp {

class CatalogueValues;
class SettingGroup;

// A setting that is declared in the file of the plug-in or room that reads it, as text that every program has
// (catalogue.md has the keys). So a processor with a setting is one file, and the producer, which knows no processor,
// checks, prints, keeps and compares the setting all the same.
struct DeclaredSetting {
    enum class Kind { Whole, Decimal, OnOff, Word, Text, Path, Url, Header };

    std::string flag;
    Kind kind = Kind::Text;
    std::string group = "Consumers";  // a section's heading in --help
    std::string help;
    std::string value_name;                                            // "FILE" in --help; empty: the kind's
    std::string accepted;                                              // of a text, for errors
    std::vector<std::string> words;                                    // of Word
    double least = 0, most = std::numeric_limits<double>::infinity();  // of numbers
    std::string zero;                                                  // the word that 0 means
    bool needed = false;                                               // a text must not be empty
    SettingValue preset;
    std::string changes;  // "results", "place", "memory", "conduct": Effect::On
    std::string
        plug_in;  // in whose file it stands; empty: it is of those who say so (ProcessorResults::shared_settings)
    std::string reads_pictures;   // with this value they look at the input's pictures; empty: with none
    std::string reads_texts;      // with this value they look at the input's table of texts; empty: with none
    bool names_egress = false;    // its value is what the way off the device is called (ChosenEgress)
    std::string memory_per_slab;  // with this value each slab's memory is made when it is filled; empty: with none

    // In the order of the sources. Errors: of read_declarations().
    static const std::vector<DeclaredSetting>& all();
};

// Errors: ConfigError names file, line and key, for a text that declares nothing that can be used.
std::vector<DeclaredSetting> read_declarations(const CatalogueSource& source);

// A setting says so (memory_per_slab): consumers then map each slab anew, and nothing outlives the producer.
bool makes_memory_per_slab(const CatalogueValues& values);

// How outputs leave the device, as far as all programs know it.
struct ChosenEgress {
    std::string flag;  // of the setting that names it
    std::string name;
    bool is_preset = true;

    static ChosenEgress in(const CatalogueValues& values);
};

void describe_declared(const DeclaredSetting& declared, SettingGroup& group);

}  // namespace offramp
