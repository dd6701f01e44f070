#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>

#include "common/shm/run_objects.hpp"
#include "common/wire/run_progress.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/delivery.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/egress_path.hpp"
#include "producer/egress/egress_stream.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/recovery/predecessor.hpp"

namespace offramp {

// What an egress path is made of. Borrows all of it.
struct PathParts {
    const RunNames& names;
    Device& device;
    std::shared_ptr<SlabExchange> exchange;
    const SlabLayout& layout;
    DeviceTimeline& timeline;
    EgressStream::Options options;
    std::function<void()> on_failure;  // from a thread of the egress path's
};

// What its program adds to a run; each may be empty, but for on_pool_failure of a run with a pool, and make_delivery of
// one without consumers. Called on the thread that makes the run, but where another is named.
struct EgressRunHooks {
    // Of a run that begins: its memory is there, and nobody has met it yet.
    std::function<void(RunProgress&)> on_begin;
    // Of one that is recovered: what else must agree, before its slabs are read, and after that. They throw a refusal.
    BatchNumbers numbers;
    std::function<void(const RunProgress&)> check_input;
    std::function<void(const RunProgress&, const Predecessor&)> check_kept;

    std::function<void(const PublishedSlab&)> before_publishing;                         // by whoever publishes
    std::function<void(const PublishedSlab&)> on_completed;                              // on the broker's thread
    std::function<void(const PublishedSlab&)> on_dead_letter;                            // on the broker's thread
    std::function<void(std::uint64_t batch, std::span<const RowInfo> rows)> on_dropped;  // on the copy's thread

    std::function<void(std::exception_ptr)> on_pool_failure;  // these four on a thread of the part's
    std::function<void()> on_delivery_end;                    // nothing is in flight, and consumers have left
    std::function<void()> on_delivery_failure;
    std::function<void()> on_path_failure;

    // Of ways off the device that are not the run's own; the latter only where there are no consumers, before the
    // previous.
    std::function<std::unique_ptr<EgressPath>(PathParts)> make_path;
    std::function<std::unique_ptr<Delivery>()> make_delivery;
};

}  // namespace offramp
