#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/declarations.hpp"

namespace offramp {

struct ResultSettings;

// The model outputs that a processor reads.
enum class Reads { Anything, Masks, Pictures, Vectors };

// The part of a run's input that a processor reads again. Items: the columns of each, and whether it was skipped.
enum class LooksAt { Nothing, Pictures, Items };

// How the files of an item are called. Shortest: KEY.ENDING where one output alone fits, else KEY.OUTPUT.ENDING.
enum class FileNames { Shortest, Key, KeyAndOutput };

// The results of a processor, for programs that must know them without creating one: the producer refuses what would
// leave nothing, or replace another run's results, before it computes anything. Each processor declares it in the
// TOML file of its settings (declared_setting.hpp); a test checks consumer/processors/plugins against it:
//
//     [results]
//     reads = "masks"
//     endings = ".png"
//     names = "key"
//
// The keys are the members below, with '-' for '_', or as the comments say.
struct ProcessorResults {
    std::string processor;          // key `of`; in a plug-in's file: that plug-in
    Reads reads = Reads::Anything;  // masks, pictures, vectors
    LooksAt looks_at =
        LooksAt::Nothing;              // pictures, items; whatever the settings are (DeclaredSetting::reads_pictures)
    std::vector<std::string> endings;  // of the files of an item, separated by commas; none: it makes no such files
    FileNames names = FileNames::Shortest;  // key, key-output
    std::string whole;                      // the one file of the run; empty: none
    std::string table;                      // in the database of --sink, unless --sink-table names another; empty: none
    bool kept_by_key = false;               // kept-by = "key"; else by the items' numbers, which each run counts anew
    bool puts_tiles_together = false;       // tiles = "together": its file of an item is that of the whole picture
    bool is_for_vectors = false;  // chosen-for = "vectors": what a run of vectors uses by default; one with a table,
                                  // one without
    std::vector<std::string> shared_settings;  // key `settings`: of shared files, that its results depend on

    // In the order of the sources. Errors: of read_results(); ConfigError for two of one processor, and for two that a
    // run of vectors would get.
    static std::span<const ProcessorResults> all();
    // Null: a processor of the user's own that declares nothing, and of which nothing is known. "auto" is what it
    // becomes: masks, or arrays.
    static const ProcessorResults* of(std::string_view processor);

    bool has_files_of_items() const { return !endings.empty(); }
};

// The source's declaration of its processor's results, if anything. Errors: ConfigError names file, line and key, for
// an unusable declaration.
std::optional<ProcessorResults> read_results(const CatalogueSource& source);

bool may_end_result(std::string_view processor, std::string_view file);
// The tables that the processors of a run fill in the database of --sink, in their order.
std::vector<std::string> tables_of(const ResultSettings& run);
// The default processor of a run of vectors, with --sink or without.
const std::string& processor_for_vectors(const ResultSettings& run);
// The endings of items' file names, for any processor.
std::span<const std::string> endings_of_items();

}  // namespace offramp
