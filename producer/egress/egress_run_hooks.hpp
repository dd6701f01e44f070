#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>

#include "common/wire/run_progress.hpp"
#include "producer/egress/row_info.hpp"
#include "producer/pool/published_slab.hpp"
#include "producer/recovery/predecessor.hpp"

namespace offramp {

// Hooks of the program into a run. Each hook may be empty, except on_pool_failure with a pool. Called on the thread
// that makes the run, unless another is named.
struct EgressRunHooks {
    // A run begins: its memory exists, and no consumer has connected yet.
    std::function<void(RunProgress&)> on_begin;
    // A run is recovered: further checks before and after its slabs are read. They throw to refuse the recovery.
    BatchNumbers numbers;
    std::function<void(const RunProgress&)> check_input;
    std::function<void(const RunProgress&, const Predecessor&)> check_kept;

    std::function<void(const PublishedSlab&)> before_publishing;                         // on the thread that publishes
    std::function<void(const PublishedSlab&)> on_completed;                              // on the broker's thread
    std::function<void(const PublishedSlab&)> on_dead_letter;                            // on the broker's thread
    std::function<void(std::uint64_t batch, std::span<const RowInfo> rows)> on_dropped;  // on the copy's thread

    std::function<void(std::exception_ptr)> on_pool_failure;  // these four on one of the part's threads
    std::function<void()> on_delivery_end;                    // nothing is in flight, and consumers have left
    std::function<void()> on_delivery_failure;
    std::function<void()> on_path_failure;
};

}  // namespace offramp
