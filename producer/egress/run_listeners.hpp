#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include "common/wire/run_progress.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/recovery/predecessor.hpp"

namespace offramp {

// Hears of a run's items. A function that is not overridden does nothing.
class ItemListener {
  public:
    // On the thread that publishes, before a consumer can see the slab.
    virtual void before_publishing(const PublishedSlab&) {}
    // On the broker's thread.
    virtual void on_completed(const PublishedSlab&) {}
    virtual void on_dead_letter(const PublishedSlab&) {}
    // On the copy's thread; of a waiting slab (WhenFull::DropOldest), on the broker's. `group`: the first that dropped
    // it; empty in a run without groups.
    virtual void on_dropped(std::uint64_t /*batch*/, std::span<const RowInfo> /*rows*/, const std::string& /*group*/) {}

  protected:
    ~ItemListener() = default;
};

// Hears of a run's start, failures and end. A function that is not overridden does nothing.
class RunListener {
  public:
    // --- on the thread that makes the run ---
    // A run begins: its memory exists, and no consumer has connected yet.
    virtual void on_begin(RunProgress&) {}
    // A run is recovered: further checks before and after its slabs are read. They throw to refuse the recovery.
    virtual void check_input(const RunProgress&) {}
    virtual void check_kept(const RunProgress&, const Predecessor&) {}

    // --- on one of the part's threads ---
    virtual void on_pool_failure(std::exception_ptr) {}
    virtual void on_broker_failure() {}
    virtual void on_stream_failure() {}
    // Nothing is in flight, and consumers have left.
    virtual void on_delivery_end() {}

  protected:
    ~RunListener() = default;
};

}  // namespace offramp
