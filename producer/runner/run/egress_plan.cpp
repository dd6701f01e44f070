#include "producer/runner/run/egress_plan.hpp"

#include "producer/egress/slab_plan.hpp"

namespace offramp {
namespace {

constexpr std::size_t kTimedOneIn = 16;

}  // namespace

EgressPlan EgressPlan::make(const RunConfig& config, const EgressTraits& traits, const std::vector<TensorSpec>& outputs,
                            std::size_t max_key_bytes, std::uint32_t pool_batches) {
    const SlabPlan slabs = SlabPlan::make(outputs, {.batch = config.batch,
                                                    .samples_per_slab = config.samples_per_slab,
                                                    .batches_per_slab = config.batches_per_slab,
                                                    .slabs = config.slabs,
                                                    .pool_batches = pool_batches,
                                                    .may_share = traits.batches_share_slabs,
                                                    .max_key_bytes = max_key_bytes});
    EgressPlan plan;
    plan.layout = slabs.layout;
    // A segment of its own for every slab where each is made anew.
    plan.spans = traits.slabs == EgressTraits::Slabs::MadePerFilling
                     ? SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes, slabs.slab_count)
                     : SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes);
    plan.queue_depth = slabs.batches_ahead;
    // Who records a run, or measures it from a drained start, wants every batch's time.
    const bool measured = config.drain_warmup || !config.trace_dir.empty();
    if (slabs.small && slabs.batches_ahead >= kTimedOneIn)
        plan.pace = {.depth = slabs.batches_ahead / kTimedOneIn * kTimedOneIn, .timed = measured ? 1 : kTimedOneIn};
    return plan;
}

}  // namespace offramp
