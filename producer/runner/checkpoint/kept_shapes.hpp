#pragma once

#include <memory>
#include <string>

#include "producer/runner/sources/item_shapes.hpp"

namespace offramp {

// The shapes of a run's items, if they keep their own, in a file of the run directory (run_files::kItemShapes), in the
// form of the checkpoint. A producer that recovers the run takes these shapes: its batches are then the same, even if
// files changed meanwhile.

// Call it before consumers can join the run. Errors: SystemError (CannotWrite).
void keep_shapes(const std::string& path, const ItemShapes& shapes);

// Adds the kept shapes. Returns false if the run has kept none. `items`: of the input. Errors: ProtocolError if the
// file is damaged; ConfigError if it has another number of items.
bool add_kept_shapes(const std::string& path, std::uint64_t items, ItemShapes& shapes);

}  // namespace offramp
