#include "producer/ladder/make_egress.hpp"

#include <cstdlib>
#include <utility>

#include "common/base/error.hpp"
#include "producer/ladder/blocking_egress.hpp"
#include "producer/ladder/compute_stream_egress.hpp"
#include "producer/ladder/dropped_outputs.hpp"
#include "producer/ladder/fresh_segments.hpp"
#include "producer/ladder/pooled_place.hpp"
#include "producer/ladder/private_place.hpp"

namespace offramp {
namespace {

std::unique_ptr<SlabPlace> make_place(Rung::Memory memory, const EgressParts& parts) {
    switch (memory) {
        case Rung::Memory::FreshPrivate:
            return std::make_unique<PrivatePlace>(parts.layout.slab_bytes, parts.names.nonce, parts.options.stamp.epoch,
                                                  make_processor(parts.config.processor, {.config = &parts.config}),
                                                  *parts.delivery);
        case Rung::Memory::FreshSegment:
            return std::make_unique<FreshSegments>(parts.names, parts.options.slab_count, parts.layout.slab_bytes,
                                                   !parts.config.consumer_user.empty(), parts.exchange);
        case Rung::Memory::Pool:
        case Rung::Memory::PageLockedPool:
            return std::make_unique<PooledPlace>(parts.exchange);
        case Rung::Memory::None:
            break;
    }
    expect(false, "a rung that copies has a place to copy to");
    std::abort();
}

}  // namespace

std::unique_ptr<OutputSink> make_egress(const Rung& rung, EgressParts parts) {
    if (rung.processing == Rung::Processing::None)
        return std::make_unique<DroppedOutputs>(parts.device, *parts.delivery, parts.options.queue_depth + 1,
                                                std::move(parts.on_failure));
    if (rung.waiting == Rung::Waiting::ByModelThread)
        return std::make_unique<BlockingEgress>(parts.device, parts.compute, parts.layout, parts.timeline,
                                                parts.options.stamp, make_place(rung.memory, parts));
    if (rung.copies == Rung::Copies::OnComputeStream)
        return std::make_unique<ComputeStreamEgress>(parts.device, parts.compute, parts.exchange, parts.layout, parts.timeline,
                                                     parts.options.stamp, parts.options.slab_count,
                                                     std::move(parts.on_failure));
    return std::make_unique<EgressStream>(parts.device, parts.exchange, parts.layout, parts.timeline,
                                          std::move(parts.options), std::move(parts.on_failure));
}

}  // namespace offramp
