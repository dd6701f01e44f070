#pragma once

#include <limits>
#include <string>
#include <vector>

#include "common/app/settings/catalogue_values.hpp"
#include "common/app/settings/declarations.hpp"

namespace offramp {

class CatalogueValues;
class SettingGroup;

// A setting that a plug-in or room declares in a TOML file beside its source. Every program has all of these files, so
// the producer, which knows no processor, checks, prints, keeps and compares the settings as well:
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
    std::string value_name;                                            // "FILE" in --help; empty: the kind's
    std::string accepted;                                              // of a text: the text after "Accepted:"
    std::vector<std::string> words;                                    // of a word, separated by commas
    double least = 0, most = std::numeric_limits<double>::infinity();  // of numbers
    std::string zero;                                                  // the word that 0 means, such as "auto"
    bool needed = false;                                               // a text must not be empty
    SettingValue preset;                                               // required for whole, decimal and word
    std::string changes;  // results: what processors make; place: where it goes; memory: slabs; conduct: no results
    std::string plug_in;  // in whose file it is declared; empty: in a shared file (ProcessorResults::shared_settings)
    std::string reads_pictures;   // with this value processors read the input's pictures; empty: with none
    std::string reads_texts;      // with this value they read the input's table of texts; empty: with none
    bool advanced = false;        // --help-all alone lists it
    bool names_egress = false;    // its value names how outputs leave the device (ChosenEgress); at most one setting
    std::string memory_per_slab;  // with this value each slab's memory is made when it is filled; empty: with none

    // In the order of the sources. Errors: of read_declarations().
    static const std::vector<DeclaredSetting>& all();
};

// Errors: ConfigError names file, line and key, for a text that declares nothing that can be used.
std::vector<DeclaredSetting> read_declarations(const CatalogueSource& source);

// A setting declares it (memory_per_slab): consumers then map each slab anew, and nothing outlives the producer.
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
