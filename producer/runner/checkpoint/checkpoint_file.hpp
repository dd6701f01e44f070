#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/items.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/runner/sources/item_shapes.hpp"

namespace offramp {

// A JSON object on a line with its own checksum: {"xxh3":"HASH",REST, where HASH is the hash of REST. Reading a torn or
// damaged line returns a discarded value. Pure.

// `body`: an object's text without its opening brace. Returns the line, including its line end.
std::string sealed_line(std::string_view body);
// The object without its hash; a discarded value if the hash does not match. `line`: without its line end.
nlohmann::json opened_line(std::string_view line);
// HASH, in 16 hexadecimal digits; empty if the line has none.
std::string_view seal_of(std::string_view line);

// The shapes of items, in lines as below; no line for no shapes.
std::string shapes_lines(std::span<const std::vector<std::int64_t>> shapes);
// Adds those of an opened_line(). Returns false, and adds nothing, unless they follow `shapes`.
bool add_shapes_line(const nlohmann::json& line, std::vector<std::vector<std::int64_t>>& shapes);
// The form of a sample, as below.
std::string form_line(const SampleForm& form);
// The form of an opened_line(); nothing if it has none.
std::optional<SampleForm> form_in(const nlohmann::json& line);

struct RunConfig;

// The inputs and settings that determine a run's outputs. Two runs with the same identity have the same outputs, so one
// may finish the other's work. Each setting declares whether it counts (common/app/settings/effects.hpp). Pure.
struct CheckpointIdentity {
    static constexpr const char* kItems = "items";
    static constexpr const char* kNamesOfItems = "names of the items";
    // for items without names: the total of which --limit takes the first
    static constexpr const char* kItemsOfTheWhole = "items of the whole input";
    // only with --shard: how its items are numbered. Earlier versions numbered each shard's items by themselves
    static constexpr const char* kNumbersOfItems = "numbers of the items";
    std::map<std::string, std::string>
        facts;  // settings by flag ("--batch"), "items", "names of the items", "weights" (hashes)

    // `config` is resolved. `source`: the fingerprint of the items. Reads the weights. Errors: SystemError when they
    // cannot be read.
    static CheckpointIdentity of(const RunConfig& config, std::uint64_t items, const std::string& source);

    // "--batch was 4 and is 8, ..."; empty when the two are the same.
    std::string difference_from(const CheckpointIdentity& previous) const;

    bool operator==(const CheckpointIdentity&) const = default;
};

// OUTPUT/.offramp-checkpoint: a run's completed items, in a form that outlives the run. Text, one JSON object a line:
//
//   {"xxh3":"HASH","before":0,"identity":{"--batch":"8",...},"checkpoint":2,"named":true,"pid":N,"run":"ID"}
//   {"xxh3":"HASH","from":0,"shapes":[[1,6,10,8],[]]}       if items keep their own; []: unreadable
//   {"xxh3":"HASH","form":{"picture":false,"pixels":false,"shape":[1,-1,-1]}}   if they are arrays; -1: extents differ
//   {"xxh3":"HASH","done":[[0,64],[128,192]]}                any number of lines; items [0, 64) ...
//   {"xxh3":"HASH","ended":true}                             the last line, if the run ended by itself
//
// HASH is the XXH3 of the rest of the line. A line whose hash does not match (torn by a death, a full disk or a power
// cut) is ignored, and its items are processed again. Lines may repeat items. Skipped items are not listed: every run
// tries them again.
//
// "named": the file beside it (items_file.hpp) identifies the items of a source that grew. The shapes keep its batches
// the same (producer/runner/sources/source_items.hpp). With the form, a folder that grew gives the samples of its first
// run. consumer/processors/results/outputs_of_run.cpp also reads parts of the file.
//
// Version rule: raise the number with any change that an earlier reader would misread. A reader refuses any other
// number.
struct Checkpoint {
    std::string run_id;        // the last run that wrote it
    std::uint64_t pid = 0;     // that run's producer
    std::uint64_t before = 0;  // items completed before that run began
    CheckpointIdentity identity;
    bool named = false;  // items have keys: their hashes are in the items file
    std::vector<std::vector<std::int64_t>>
        shapes{};                      // for all items; empty if a line is damaged, or they have one shape
    std::optional<SampleForm> form{};  // of arrays that keep their own shapes
    ItemRanges done;
    std::uint64_t ignored_lines = 0;  // torn or damaged lines
    bool ended = false;               // the run has no work left, except dead letters and dropped or unreadable items

    std::string header_line() const;
    std::string whole_text() const;
    std::uint64_t items() const;  // in the source
    // The items that its runs process: all without --shard, or if the shard's items have their own numbers.
    ItemRange share() const;
};

inline constexpr const char* kCheckpointName = ".offramp-checkpoint";

// Lines of at most some 1,000 ranges each; an empty text for no ranges.
std::string done_lines(std::span<const ItemRange> ranges);
std::string ended_line();

// Returns nothing if the file does not exist. Errors: Error with BadInput when its first line is not a checkpoint
// header of this version; SystemError when the file cannot be read, or is not an ordinary file. Never follows a
// symbolic link.
std::optional<Checkpoint> read_checkpoint(const std::string& path);
// A file that only Offramp writes, open for reading; none if it does not exist. `what` names it in errors. Errors:
// SystemError, as above.
UniqueFd open_own_file(const std::string& path, const char* what);
// The text of one.
std::optional<std::string> text_of_own_file(const std::string& path, const char* what);
// Parses the bytes of such a file; `path` is for errors.
Checkpoint parse_checkpoint(std::string_view text, const std::string& path);

}  // namespace offramp
