#include "producer/ladder/rung_egress.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "producer/ladder/rung_outputs.hpp"
#include "producer/ladder/slab_place.hpp"
#include "producer/runner/run/egress_strategy.hpp"

namespace offramp {
namespace {

using Processing = Rung::Processing;
using Memory = Rung::Memory;
using Copies = Rung::Copies;
using Waiting = Rung::Waiting;

constexpr std::array<Rung, 6> kRungs{{
    {"sequential", Processing::InProducer, Memory::FreshPrivate, Copies::OnComputeStream, Waiting::ByModelThread},
    {"workers", Processing::InConsumers, Memory::FreshSegment, Copies::OnComputeStream, Waiting::ByModelThread},
    {"pool", Processing::InConsumers, Memory::Pool, Copies::OnComputeStream, Waiting::ByModelThread},
    {"async", Processing::InConsumers, Memory::PageLockedPool, Copies::OnComputeStream, Waiting::ByOtherThread},
    {"streams", Processing::InConsumers, Memory::PageLockedPool, Copies::OnOwnStream, Waiting::ByOtherThread},
    {"compute-alone", Processing::None, Memory::None, Copies::None, Waiting::ByOtherThread},
}};

EgressTraits::Slabs slabs_of(Rung::Memory memory) {
    switch (memory) {
        case Rung::Memory::FreshSegment:
            return EgressTraits::Slabs::MadePerFilling;
        case Rung::Memory::Pool:
            return EgressTraits::Slabs::Pool;
        case Rung::Memory::PageLockedPool:
            return EgressTraits::Slabs::PageLockedPool;
        case Rung::Memory::FreshPrivate:
        case Rung::Memory::None:
            break;
    }
    return EgressTraits::Slabs::None;
}

EgressTraits traits_of(const Rung& rung) {
    return {.name = std::string(rung.name),
            .slabs = slabs_of(rung.memory),
            .outputs_dropped = rung.processing == Rung::Processing::None,
            .batches_share_slabs = rung.copies == Rung::Copies::OnOwnStream,
            .one_shape = !rung.is_default() && rung.processing != Rung::Processing::None,
            .warning = rung.is_default() ? ""
                                         : "rung '" + std::string(rung.name) +
                                               "': this run shows what it costs; streams is the default"};
}

}  // namespace

const Rung& Rung::named(std::string_view name) {
    for (const Rung& rung : kRungs)
        if (rung.name == name) return rung;
    throw ConfigError("--strategy '" + std::string(name) + "' is unknown",
                      "Give sequential, workers, pool, async, streams or compute-alone");
}

RungEgress::RungEgress(const Rung& rung) : rung_(rung), traits_(traits_of(rung)) {}

std::unique_ptr<EgressStrategy> RungEgress::chosen_by(const RunConfig& config) {
    const std::string& rung = config.catalogue.text("strategy");
    auto chosen = std::make_unique<RungEgress>(Rung::named(rung));
    if (config.recover && !chosen->traits().survives_producer())
        throw ConfigError(
            "a run of --strategy '" + rung + "' cannot be taken over: its slabs are lost with its producer",
            "Start it again without the command recover; streams, async and pool survive their producer");
    if (config.when_full != "wait" && !chosen->rung_.is_default())
        throw ConfigError(
            "--when-full '" + config.when_full + "' does not go with --strategy '" + rung + "', which always waits",
            "Choose --strategy streams, or --when-full wait");
    return chosen;
}

std::unique_ptr<SlabPlace> RungEgress::make_place(const EgressParts& parts, LocalDelivery* local) const {
    const SlabLayout& layout = parts.run.layout();
    switch (rung_.memory) {
        case Rung::Memory::FreshPrivate:
            return std::make_unique<PrivatePlace>(layout.slab_bytes, parts.run.names().nonce,
                                                  parts.run.stream().options().header_fields.epoch,
                                                  make_processor(parts.config.processor, parts.config), *local);
        case Rung::Memory::FreshSegment:
            return std::make_unique<FreshSegments>(parts.run.names(), parts.run.spans().slab_count, layout.slab_bytes,
                                                   !parts.config.consumer_user.empty(), parts.run.exchange());
        case Rung::Memory::Pool:
        case Rung::Memory::PageLockedPool:
            return std::make_unique<PooledPlace>(parts.run.exchange());
        case Rung::Memory::None:
            break;
    }
    expect(false, "a rung that copies has a place to copy to");
    std::abort();
}

std::unique_ptr<RunOutputs> RungEgress::make_outputs(EgressParts parts) {
    if (rung_.is_default()) return StreamedEgress().make_outputs(std::move(parts));
    EgressRun& run = parts.run;
    const EgressStream::Options& options = run.stream().options();
    RungOutputs::Delivery delivery;
    if (traits_.has_consumers())
        delivery.broker = &run.broker();
    else
        delivery.local = std::make_unique<LocalDelivery>(parts.config.warmup_batches, parts.items);
    if (rung_.processing == Rung::Processing::None)
        return std::make_unique<DroppedOutputs>(std::move(delivery), parts.device, options.queue_depth + 1,
                                                std::move(parts.on_failure));
    if (rung_.waiting == Rung::Waiting::ByModelThread) {
        auto place = make_place(parts, delivery.local.get());
        return std::make_unique<BlockingEgress>(std::move(delivery), parts.device, parts.compute, run.layout(),
                                                parts.timeline, options.header_fields, std::move(place));
    }
    return std::make_unique<ComputeStreamEgress>(run.broker(), parts.device, parts.compute, run.exchange(),
                                                 run.layout(), parts.timeline, options.header_fields,
                                                 run.spans().slab_count, std::move(parts.on_failure));
}

}  // namespace offramp
