#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The source with the item numbers of an earlier run, and joined items after them: results and their records use these
// numbers. `previous`: hashes_of_items() of that run, in its order. Returns `source` itself if it has that order
// already, or lacks an item of that run.
std::unique_ptr<BatchSource> in_previous_order(std::unique_ptr<BatchSource> source,
                                               std::span<const std::uint64_t> previous);

}  // namespace offramp
