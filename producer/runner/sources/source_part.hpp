#pragma once

#include <memory>

#include "common/base/item_ranges.hpp"
#include "common/settings/sections/input_settings.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// What --limit leaves of a source: the first items. Returns `whole` itself when it leaves all, and with
// --tile: then it is a number of pictures, and the source goes by it.
std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config);

// Which items of part_of() a run with --shard makes: the I-th of N contiguous parts, or all without it. A run knows the
// whole source all the same: an item's number and key, its batch and its place there are those that it has in a run
// without --shard, and so are the bytes of its result. Errors: ConfigError (NoInput) when the part is empty.
ItemRange share_of(const BatchSource& source, const InputSettings& config);

}  // namespace offramp
