#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace offramp {

class SettingGroup;

// The results of slabs and their place, as far as both sides must know it. Settings of a single processor are declared
// in its file, and are in RunConfig::catalogue.
struct ResultSettings {
    std::string processor = "auto";   // a name of the processors' table, or several with commas
    std::string output;               // folder
    std::string samples_folder;       // of results of single samples; empty: `output`
    std::string sink;                 // a database that rows go to: postgres:// or libpq's key words
    std::string sink_table = "auto";  // there; perhaps SCHEMA.NAME; "auto": each processor's own
    std::string scores =
        "auto";  // of a network of one channel: "probability", "logit"; auto: the model's metadata, else "probability"
    double threshold = 0.5;  // probability from which a pixel of a network of one channel is foreground
    bool durable = false;    // results and checkpoint survive a power cut, too
    bool resume = false;     // do only what the output folder's checkpoint does not hold
    bool overwrite = false;  // what an earlier run left gets another name, and the run begins anew

    const std::string& folder_of_samples() const { return samples_folder.empty() ? output : samples_folder; }
    // The names in `processor`.
    std::vector<std::string> processors() const;
    bool has_processor(std::string_view name) const;
    // `sink` is one, by its form.
    bool has_database() const;
    // The table there of a processor that would fill `preset`.
    std::string table_for(std::string_view preset) const {
        return sink_table == "auto" ? std::string(preset) : sink_table;
    }

    bool operator==(const ResultSettings&) const = default;
};

void describe_results(SettingGroup& group);

}  // namespace offramp
