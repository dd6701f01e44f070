#pragma once

#include <memory>

#include "common/settings/sections/input_settings.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// What --limit and --shard leave of a source: the first items up to the limit, and of these the shard's. So the shards
// of a limited input make up the limited input, and every item keeps the key that it has in the whole: items that are
// named by their number keep the number. Returns `whole` itself when neither is set. Errors: ConfigError (NoInput) when
// nothing is left.
std::unique_ptr<BatchSource> part_of(std::unique_ptr<BatchSource> whole, const InputSettings& config);

}  // namespace offramp
