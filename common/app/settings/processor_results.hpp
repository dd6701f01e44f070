#pragma once

#include <cstddef>
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

// The part of a run's input that a processor reads again. Items: each item's columns, and whether it was skipped.
enum class LooksAt { Nothing, Pictures, Items };

// The names of an item's files. Shortest: KEY.ENDING if only one output suits the processor, else KEY.OUTPUT.ENDING.
enum class FileNames { Shortest, Key, KeyAndOutput };

// Describes a processor's results to programs that do not create the processor. Before computing anything, the producer
// rejects a run that would write no results, or replace another run's results. Each processor declares its results in
// the TOML file of its settings (declared_setting.hpp); a test checks consumer/processors/plugins against it:
//
//     [results]
//     reads = "masks"
//     endings = ".png"
//     names = "key"
//
// The keys are the members below, with '-' for '_', unless a comment names another key.
struct ProcessorResults {
    std::string processor;          // key `of`; default in a plug-in's file: that plug-in
    Reads reads = Reads::Anything;  // masks, pictures, vectors
    LooksAt looks_at =
        LooksAt::Nothing;              // pictures, items; independent of settings (see DeclaredSetting::reads_pictures)
    std::vector<std::string> endings;  // of an item's files, separated by commas; empty: no files of items
    FileNames names = FileNames::Shortest;  // key, key-output
    std::string whole;                      // the single file for the whole run; empty: none
    std::string table;                      // default table in the database of --sink (see --sink-table); empty: none
    bool kept_by_key = false;               // kept-by = "key"; otherwise by item number, which every run counts anew
    bool puts_tiles_together = false;       // tiles = "together": an item's file is that of the whole picture
    bool is_for_vectors = false;  // chosen-for = "vectors": a default for vectors; one processor with a table,
                                  // one without
    std::vector<std::string> shared_settings;  // key `settings`: settings in shared files on which its results depend

    // In the order of the sources. Errors: those of read_results(); ConfigError for two declarations of one processor,
    // and for two defaults for vectors.
    static std::span<const ProcessorResults> all();
    // Returns null for a custom processor, which declares nothing. "auto" stands for the processor that it selects:
    // masks, or arrays.
    static const ProcessorResults* of(std::string_view processor);

    bool has_files_of_items() const { return !endings.empty(); }
};

// The source's declaration of its processor's results, if it has one. Errors: ConfigError with file, line and key, for
// an invalid declaration.
std::optional<ProcessorResults> read_results(const CatalogueSource& source);

bool may_end_result(std::string_view processor, std::string_view file);
// The tables that the processors of a run fill in the database of --sink, in their order.
std::vector<std::string> tables_of(const ResultSettings& run);
// The default processor of a run of vectors, with --sink or without.
const std::string& processor_for_vectors(const ResultSettings& run);
// The endings of items' file names, for any processor.
std::span<const std::string> endings_of_items();

// A custom processor, as --processor names it: "so:./mine.so", "exec:'./tool --flag'", "python:post.py:save",
// "python:package.module:Class", or "post.py:save" for short.
struct ProcessorSpec {
    enum class Kind { SharedObject, Python, Executable };
    Kind kind{};
    std::string what;  // the text after the kind: a path, PATH:NAME, a command
    std::string
        folder;  // the name of its results folder if a run has several processors: "mine.so", "post.py-save", "tool"

    // Returns nothing if `name` is a built-in processor, or unknown. Errors: ConfigError if the kind is followed by an
    // invalid text.
    static std::optional<ProcessorSpec> of(std::string_view name);
};

}  // namespace offramp
