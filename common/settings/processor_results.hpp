#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/settings/catalogue_source.hpp"

namespace offramp {

class CatalogueValues;
struct ResultSettings;

// What a processor reads of a model's outputs.
enum class Reads { Anything, Masks, Pictures, Vectors };

// What of a run's input a processor looks at again. Items: the columns of each, and whether it was skipped.
enum class LooksAt { Nothing, Pictures, Items };

// How the files of an item are called. Shortest: KEY.ENDING where one output alone fits, else KEY.OUTPUT.ENDING.
enum class FileNames { Shortest, Key, KeyAndOutput };

// Where results lie that another run could replace. WritePath: where that is a folder; a device or a FIFO keeps
// nothing.
enum class ResultPlace { Output, WritePath, Elsewhere };

// What a processor leaves, for whoever must know it without making one: the producer, which refuses what would come to
// nothing, or replace what is not its run's, before anything is computed. Each processor declares it in its own file,
// as text that every program has (catalogue.md has the keys); consumer/processors/plugins are held to it by a test.
struct ProcessorResults {
    std::string processor;
    Reads reads = Reads::Anything;
    LooksAt looks_at = LooksAt::Nothing;  // whatever its settings are; DeclaredSetting::reads_pictures: with one value
    std::vector<std::string> endings;     // of the files of an item; none: it makes no such files
    FileNames names = FileNames::Shortest;
    std::string ending_from;  // the setting whose words say which of `endings` it is, by their order; empty: the first
    std::string whole;        // the one file of the run; empty: none
    ResultPlace place = ResultPlace::Output;
    std::string table;         // in the database of --sink, unless --sink-table says another; empty: it writes to none
    bool kept_by_key = false;  // what consumers append to together; else by the items' numbers, which each run counts
    bool puts_tiles_together = false;  // of --tile: its file of an item is that of the whole picture
    bool is_for_vectors = false;  // what a run of vectors gets that names no processor: one with `table`, one without
    std::vector<std::string> shared_settings;  // declared in files that several share, and followed by its results

    // In the order of the sources. Errors: of read_results(); ConfigError for two of one processor, and for two that a
    // run of vectors would get.
    static std::span<const ProcessorResults> all();
    // Null: a processor of the user's own that declares nothing, and of which nothing is known. "auto" is what it
    // becomes: masks, or arrays.
    static const ProcessorResults* of(std::string_view processor);

    bool has_files_of_items() const { return !endings.empty(); }
    // Of its files of items, with these settings; there are some.
    const std::string& ending(const CatalogueValues& values) const;
};

// What the source says of its processor's results, if anything. Errors: ConfigError names file, line and key, for what
// says nothing that can be used.
std::optional<ProcessorResults> read_results(const CatalogueSource& source);

// Whether its results lie in a folder of the run's, where another run could replace them. `write_path`: of that run;
// one that is not there yet holds nothing. Of one that is not known, anything may be.
bool has_results_in_folder(std::string_view processor, const std::string& write_path);
// Files of single items in such a folder.
bool makes_files_of_items(std::string_view processor, const std::string& write_path);
bool may_end_result(std::string_view processor, std::string_view file);
// The tables that the processors of a run fill in the database of --sink, in their order.
std::vector<std::string> tables_of(const ResultSettings& run);
// What a run of vectors gets that names no processor, with --sink or without.
const std::string& processor_for_vectors(const ResultSettings& run);
// What a name of an item's file ends with, whatever the processor.
std::span<const std::string> endings_of_items();

}  // namespace offramp
