#pragma once

#include <string_view>

namespace offramp {

// How outputs leave the device, as a choice of parts: the article's five rungs, each better than the one before for one
// reason, and the model alone, which is what all of them are measured against. A run uses `streams`; the others are
// there to be compared with it.
struct Rung {
    enum class Processing { InConsumers, InProducer, None };
    enum class Memory {
        FreshPrivate,  // pageable, new for every batch: what a tensor's cpu() gives
        FreshSegment,  // a new shared-memory object for every slab, mapped and unmapped on both sides
        Pool,          // shared memory made once, not page-locked
        PageLockedPool,
        None,
    };
    enum class Copies { OnComputeStream, OnOwnStream, None };
    enum class Waiting { ByModelThread, ByOtherThread };

    std::string_view name;
    Processing processing;
    Memory memory;
    Copies copies;
    Waiting waiting;

    // The one that a run uses.
    bool is_default() const { return copies == Copies::OnOwnStream; }

    // The rung of this name, one that the settings accept.
    static const Rung& named(std::string_view name);
};

}  // namespace offramp
