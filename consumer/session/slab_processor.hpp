#pragma once

#include <functional>

#include "common/wire/slab_view.hpp"

namespace offramp {

// Tells the run that this consumer is alive and at work; call it at least once a sample. Cheap: one store.
using Progress = std::function<void()>;

// Asks, before a commit, whether the delivery still counts; false spares work that another consumer has taken over: the
// slab is then given back, not completed, whatever was committed. Never needed for correctness. True also when the
// visibility timeout has run out and nobody else has got the slab: then nobody else would commit.
using StillCurrent = std::function<bool()>;

// What a consumer's loop does with each slab. When process() returns, the slab may be reused and its samples count as
// done.
//
// Delivery is at least once: killed at any point and run again, in another process, process() must leave the same.
//
// Borrows the slab, read-only, for the call. Thread: one. Errors: an Error with SinkUnavailable gives the slab back and
// ends this consumer in order; any other exception ends it with the slab still held and charged, which then goes to
// another one.
class SlabProcessor {
  public:
    virtual ~SlabProcessor() = default;
    virtual void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) = 0;
};

}  // namespace offramp
