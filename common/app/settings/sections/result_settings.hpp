#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace offramp {

class SettingGroup;

// The results and their location, as far as producer and consumers must know them. A single processor's settings are
// declared in its file, and are in RunConfig::catalogue.
struct ResultSettings {
    std::string processor = "auto";   // a processor's name, or several separated by commas
    std::string output;               // folder
    std::string samples_folder;       // folder for results of single samples; empty: `output`
    std::string sink;                 // a database for rows: postgres:// or libpq's key words
    std::string sink_table = "auto";  // the table in the database, or SCHEMA.NAME; "auto": each processor's own
    std::string scores =
        "auto";  // of a one-channel network: "probability", "logit"; auto: the model's metadata, else "probability"
    double threshold = 0.5;  // the minimum probability of a foreground pixel of a one-channel network
    bool durable = false;    // results and checkpoint also survive a power cut
    bool resume = false;     // process only items that are not in the output folder's checkpoint
    bool overwrite = false;  // rename an earlier run's results, and begin anew

    const std::string& folder_of_samples() const { return samples_folder.empty() ? output : samples_folder; }
    // The names in `processor`.
    std::vector<std::string> processors() const;
    bool has_processor(std::string_view name) const;
    // True if `sink` has the form of a database.
    bool has_database() const;
    // The database table of a processor whose default table is `preset`.
    std::string table_for(std::string_view preset) const {
        return sink_table == "auto" ? std::string(preset) : sink_table;
    }

    bool operator==(const ResultSettings&) const = default;
};

void describe_results(SettingGroup& group);

}  // namespace offramp
