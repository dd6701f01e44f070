#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "producer/runner/checkpoint/checkpoint_identity.hpp"

namespace offramp {

// OUTPUT/.offramp-manifest: which items of a run are done, in a form that outlives it. Text, one JSON object a line:
//
//   {"xxh3":"HASH","before":0,"identity":{"--batch":"8",...,"items":"1000"},"manifest":1,"pid":N,"run":"ID"}   first,
//   only there
//   {"xxh3":"HASH","from":0,"names":"0123456789abcdef...","results":"0123456789abcdef..."}     16 digits an item
//   (hashes_of_items())
//   {"xxh3":"HASH","done":[[0,64],[128,192]]}                                                  any number; items [0,
//   64) ...
//   {"xxh3":"HASH","ended":true}                                                               last; the run came to
//   its end by itself
//
// By the names a source that grew is known, and which of its items were there
// (producer/runner/sources/source_order.hpp). A name may say more of an item than what its files are called: "results"
// says that (hashes_of_result_names()), and is left out where it would be the same. By it a run's files are known as
// its own, whatever else was said of their items. Who does not know of it knows items by their names alone, as in files
// that were written without it. HASH is the XXH3 of what follows it on the line. A line that does not bear it out -
// torn by a death, a full disk or a power cut - says nothing: what it stood for is made again. Lines may repeat items.
// An item that could not be read is not in it: it is tried again. Where results lie beside a previous run's
// (common/program/next_place.hpp), the first line has "next":"NAME" too, and is of version 2: who does not know of it
// would continue the predecessor's. consumer/processors/results/previous_run.cpp reads some of it, too. Once the run
// that this one goes on with had come to its end, the first line has "finished":true, and is of version 3: who does not
// know of it would replace results that are finished but for the items that joined. Version rule: whatever an older
// reader would misread raises the number; a reader refuses any other.
struct Checkpoint {
    std::string run_id;        // of the last that wrote it
    std::uint64_t pid = 0;     // of its producer
    std::uint64_t before = 0;  // items that were done when that run began
    CheckpointIdentity identity;
    std::vector<std::uint64_t> names;  // of all items, or none: they have no keys, or a line of them is damaged
    // of all items what their results are called by, or none: their names say that
    std::vector<std::uint64_t> results{};
    ItemRanges done;
    std::uint64_t ignored_lines = 0;  // that were torn or damaged
    std::string next_place{};         // empty: its results are in place
    bool ended = false;  // nothing is left to be done, but for dead letters, and what was dropped or could not be read
    bool finished_before = false;  // it had come to its end, and goes on for items that joined
    std::string seal{};            // of the header that was read: no other checkpoint's

    std::string header_line() const;
    std::string names_lines() const;
    std::uint64_t items() const;  // of the source
    // Those of them that its runs make: all without --shard, and where a shard's items were counted by themselves.
    ItemRange share() const;
};

inline constexpr const char* kCheckpointName = ".offramp-manifest";

// Lines of at most some 1,000 ranges each; nothing for none.
std::string done_lines(std::span<const ItemRange> ranges);
std::string ended_line();

// Nothing when there is no such file. Errors: Error with BadInput when its first line is none of a checkpoint of this
// version; SystemError when it cannot be read, or is not an ordinary file. Never follows a symbolic link.
std::optional<Checkpoint> read_checkpoint(const std::string& path);
// Text of a file that only programs of ours write, `what`. Errors: SystemError, as above.
std::optional<std::string> text_of_own_file(const std::string& path, const char* what);
// What it reads of the bytes of such a file; `path` is for errors.
Checkpoint parse_checkpoint(std::string_view text, const std::string& path);

}  // namespace offramp
