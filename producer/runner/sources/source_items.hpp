#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/settings/sections.hpp"
#include "common/base/items.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

using TakeHashes = std::function<void(std::span<const std::uint64_t>)>;

// Calls `take` with a hash of the key and note (note_hash) of each of these items, in order, some at a time. Without
// keys it is the note alone.
void hash_items(const BatchSource& source, ItemRange items, const TakeHashes& take);

// A hash of a source's number of items, and of hash_items(): equal for the same list of names in any place. It ignores
// the items' contents: a picture replaced under its name counts as the same.
std::uint64_t source_hash(const BatchSource& source);
// The same for a source with keys. `take`: as for hash_items(), of all.
std::uint64_t source_hash(const BatchSource& source, const TakeHashes& take);
// The same in 16 hexadecimal digits.
std::string source_fingerprint(const BatchSource& source);
std::string source_fingerprint(std::uint64_t hash);
// The fingerprint of a source with only the first items of this one.
std::string source_fingerprint(const BatchSource& source, std::uint64_t items);
// That of a source whose items have these hashes.
std::string source_fingerprint(std::span<const std::uint64_t> hashes);

// hash_items() of all, which identify an item among others; none for a source without keys.
std::vector<std::uint64_t> hashes_of_items(const BatchSource& source);

// The size of the longest of all keys, for BatchSource::max_key_bytes().
std::size_t bytes_of_longest_key(const BatchSource& source);

// The items' shapes (BatchSource::shape()); none if no item has one, or with an index().
std::vector<ItemShapes::Shape> shapes_of_items(const BatchSource& source);

// The first items of a source, limited by --limit. Returns `whole` itself if the limit covers everything. Also returns
// it with --tile: there the source itself applies the limit, to pictures.
std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config);

// The items that a run with --shard processes: the I-th of N contiguous parts of part_of(), or all without it. The run
// still uses the whole source: an item's number and key, its batch and its place there are the same as in a run without
// --shard, and so are the bytes of its result. Errors: ConfigError (NoInput) when the part is empty.
ItemRange share_of(const BatchSource& source, const InputSettings& config);

// The source with the item numbers of an earlier run, and joined items after them: results and their records use these
// numbers. `previous`: hashes_of_items() of that run, in its order. Returns `source` itself if it has that order
// already, or lacks an item of that run. `shapes`: shapes_of_items() of that run. They stay, so that its batches do: an
// item that has another one now is unreadable.
std::unique_ptr<BatchSource> in_previous_order(std::unique_ptr<BatchSource> source,
                                               std::span<const std::uint64_t> previous,
                                               std::vector<ItemShapes::Shape> shapes = {});

// True if require_distinct_results() reads all keys: not for a source with an index().
bool may_have_equal_results(std::span<const TensorSpec> outputs);

// Refuses results with equal names. Results are files named KEY.OUTPUT.EXTENSION, and keys and outputs may contain
// dots: with the outputs `classes` and `aux.classes`, the former of cat.aux equals the latter of cat. Errors:
// ConfigError (Usage): two results of `source` would have one name. Blocks: reads all keys, but only if the outputs'
// names allow such a case.
void require_distinct_results(const BatchSource& source, std::span<const TensorSpec> outputs);

}  // namespace offramp
