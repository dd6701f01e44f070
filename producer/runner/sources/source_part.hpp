#pragma once

#include <memory>

#include "common/app/settings/sections/input_settings.hpp"
#include "common/base/item_ranges.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The first items of a source, limited by --limit. Returns `whole` itself if the limit covers everything, and with
// --tile: there the source applies the limit, to pictures.
std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config);

// The items that a run with --shard processes: the I-th of N contiguous parts of part_of(), or all without it. The run
// still uses the whole source: an item's number and key, its batch and its place there are the same as in a run without
// --shard, and so are the bytes of its result. Errors: ConfigError (NoInput) when the part is empty.
ItemRange share_of(const BatchSource& source, const InputSettings& config);

}  // namespace offramp
