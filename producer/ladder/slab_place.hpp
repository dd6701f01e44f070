#pragma once

#include <optional>

#include "producer/egress/slab_filling.hpp"

namespace offramp {

// Where a blocking egress puts a slab's bytes, and who gets them. One implementation a kind of memory.
// Thread: the model's; stop() from any. Blocks: open() until there is memory; deliver() while it is processed here.
class SlabPlace {
  public:
    virtual ~SlabPlace() = default;
    // Nothing after stop().
    virtual std::optional<SlabFilling::Target> open() = 0;
    // The copies are done.
    virtual void deliver(SlabFilling::Target target, const PublishedSlab& published) = 0;
    // Nothing will be opened any more.
    virtual void finish() = 0;
    virtual void stop() = 0;
};

}  // namespace offramp
