#pragma once

#include <optional>

#include "producer/pool/published_slab.hpp"
#include "producer/pool/write_loan.hpp"

namespace offramp {

// Memory for a slab of a blocking egress, and its delivery. One implementation per kind of memory.
// Thread: the model's; stop() from any. Blocks: open() until there is memory; deliver() while the slab is processed
// here.
class SlabPlace {
  public:
    virtual ~SlabPlace() = default;
    // Nothing after stop().
    virtual std::optional<WriteLoan> open() = 0;
    // The copies are done.
    virtual void deliver(WriteLoan loan, const PublishedSlab& published) = 0;
    // Nothing more will be opened.
    virtual void finish() = 0;
    virtual void stop() = 0;
};

}  // namespace offramp
