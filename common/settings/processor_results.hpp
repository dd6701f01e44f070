#pragma once

#include <span>
#include <string>
#include <string_view>

namespace offramp {

// What a processor reads of a model's outputs.
enum class Reads { Anything, Masks, Pictures, Vectors };

// What of a run's input a processor looks at again.
enum class LooksAt { Nothing, Pictures, Items };

// What a processor leaves, for whoever must know it without making one: the producer, which refuses what would come to
// nothing, or replace what is not its run's, before anything is computed. The one table of that;
// consumer/processors/plugins are held to it by a test.
struct ProcessorResults {
    std::string_view processor;
    Reads reads = Reads::Anything;
    LooksAt looks_at = LooksAt::Nothing;  // whatever its settings are; DeclaredSetting::reads_pictures: with one value
    // of the files of an item, KEY.ENDING or KEY.OUTPUT.ENDING; none: it makes no such files
    std::span<const std::string_view> endings{};
    std::string_view whole{};          // the one file of the run
    std::string_view ending_from{};    // the setting that says which of `endings` it is; none: the first
    bool one_for_all_outputs = false;  // of an item a single file, KEY.ENDING
    bool output_in_name = false;       // KEY.OUTPUT.ENDING also where one output alone fits
    bool in_output = true;             // false: its results are elsewhere than in --output, or nowhere
    bool in_write_path = false;        // they are files there, where that is a folder; a device or a FIFO keeps nothing

    static std::span<const ProcessorResults> all();
    // Null: a processor of the user's own, of which nothing is known. "auto" is what it becomes: masks, or arrays.
    static const ProcessorResults* of(std::string_view processor);

    bool has_files_of_items() const { return !endings.empty(); }
};

// Whether its results lie in a folder of the run's, where another run could replace them. `write_path`: of that run;
// one that is not there yet holds nothing. Of one that is not known, anything may be.
bool has_results_in_folder(std::string_view processor, const std::string& write_path);
// Files of single items in such a folder.
bool makes_files_of_items(std::string_view processor, const std::string& write_path);
bool may_end_result(std::string_view processor, std::string_view file);
// What a name of an item's file ends with, whatever the processor.
std::span<const std::string_view> endings_of_items();

}  // namespace offramp
