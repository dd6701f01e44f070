#include "common/app/settings/sections/result_settings.hpp"

#include <algorithm>

#include "common/app/settings/effects.hpp"
#include "common/app/settings/processor_results.hpp"
#include "common/app/settings/setting_checks.hpp"
#include "common/app/settings/setting_group.hpp"

namespace offramp {
namespace {

// "`embeddings`, `records`": the given field of all processors that write to the database of --sink.
std::string named_of_databases(std::string ProcessorResults::*fact) {
    std::string names;
    for (const ProcessorResults& results : ProcessorResults::all())
        if (!results.table.empty()) names += (names.empty() ? "`" : ", `") + results.*fact + "`";
    return names;
}

}  // namespace

std::vector<std::string> ResultSettings::processors() const {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= processor.size();) {
        const std::size_t end = std::min(processor.find(',', begin), processor.size());
        names.push_back(processor.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

bool ResultSettings::has_processor(std::string_view name) const {
    return std::ranges::any_of(processors(), [name](const std::string& other) { return other == name; });
}

// The value may hold a password, and is never shown.
bool ResultSettings::has_database() const {
    const bool uri = sink.find("://") != std::string::npos;
    return sink.starts_with("postgres://") || sink.starts_with("postgresql://") ||
           (!uri && sink.find('=') != std::string::npos);
}

void describe_results(SettingGroup& group) {
    SettingGroup rare = group.advanced();
    group.text("processor", &ResultSettings::processor, of_processing(always), "NAME[,NAME]",
               "a built-in name (npy, mask-png, ...; --list); or a custom one: FILE.py:FUNCTION, "
               "python:PACKAGE.MODULE:FUNCTION, so:FILE.so, "
               "exec:COMMAND; several with commas",
               "Processor for each slab; with several, each writes to its own folder OUTPUT/NAME", check_plugin_names);
    group.path("output", &ResultSettings::output, kPlace, "PATH", "a path", "Folder for results");
    group.of_the_launcher().path("samples-folder", &ResultSettings::samples_folder, kPlace, "PATH", "a path",
                                 "Folder for results of single samples, shared by the shards of a job; none: --output");
    group.text("sink", &ResultSettings::sink, kPlace, "URI",
               "postgres://USER@HOST/DATABASE, or libpq's key words: 'host=/run/postgresql dbname=vectors'",
               "Processors " + named_of_databases(&ProcessorResults::processor) +
                   ": the database; pass a password in PGPASSWORD or ~/.pgpass");
    rare.text("sink-table", &ResultSettings::sink_table, kPlace, "NAME",
              "lower-case letters, digits and '_', at most 48; before it perhaps a schema and '.'",
              "Table in the database of --sink; auto: " + named_of_databases(&ProcessorResults::table), check_table);
    group.word("scores", &ResultSettings::scores, of_slabs(is_class_map, separates_foreground),
               {"auto", "probability", "logit"},
               "Foreground value per pixel of a network of one channel; auto: from the model's metadata, else "
               "a probability");
    group.decimal("threshold", &ResultSettings::threshold, of_slabs(is_class_map, separates_foreground), 0, 1,
                  "Probability from which a pixel of a network of one channel is foreground");
    group.on_off("durable", &ResultSettings::durable, kPlace,
                 "Flush results, folders and checkpoint to the disk, to survive a power cut");
    group.on_off("resume", &ResultSettings::resume, kProgram,
                 "Continue the run in --output: process only the items missing there");
    group.on_off("overwrite", &ResultSettings::overwrite, kProgram,
                 "Rename what an earlier run left in --output to OUTPUT.before-RUN_ID, and begin anew");
}

}  // namespace offramp
