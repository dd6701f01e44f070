#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// The source with its items numbered as they were for an earlier run, and those that joined since behind them: results
// and what is noted of them go by number. `previous`: hashes_of_items() of that run, in its order. Returns `source`
// itself when that is its order already, and when an item of that run is not there any more.
std::unique_ptr<BatchSource> in_previous_order(std::unique_ptr<BatchSource> source,
                                               std::span<const std::uint64_t> previous);

}  // namespace offramp
