#pragma once

#include <string_view>

namespace offramp {

// How outputs leave the device, as a choice of parts: the article's five rungs, each better than the previous for one
// reason, and the model alone as their reference. A run uses `streams`; the others exist for comparison.
struct Rung {
    enum class Processing { InConsumers, InProducer, None };
    enum class Memory {
        FreshPrivate,  // pageable, new for every batch: like a tensor's cpu()
        FreshSegment,  // a new shared-memory object for every slab, mapped and unmapped on both sides
        Pool,          // shared memory created once, not page-locked
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

    // The rung of an ordinary run.
    bool is_default() const { return copies == Copies::OnOwnStream; }

    // The rung with this name, one that the settings accept.
    static const Rung& named(std::string_view name);
};

}  // namespace offramp
