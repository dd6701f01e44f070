#include "producer/runner/run/egress_plan.hpp"

#include "producer/egress/slab_plan.hpp"

namespace offramp {
namespace {

constexpr std::size_t kTimedOneIn = 16;

}  // namespace

EgressPlan EgressPlan::make(const RunConfig& config, const EgressTraits& traits, const std::vector<TensorSpec>& outputs,
                            std::size_t max_key_bytes, bool on_gpu) {
    const SlabPlan slabs = SlabPlan::make(outputs,
                                          {.batch = config.batch,
                                           .samples_per_slab = config.samples_per_slab,
                                           .batches_per_slab = config.batches_per_slab,
                                           .slabs = config.slabs,
                                           .may_share = traits.batches_share_slabs,
                                           .max_key_bytes = max_key_bytes},
                                          on_gpu);
    EgressPlan plan;
    plan.layout = slabs.layout;
    // If each filling creates its slab, every slab has its own segment.
    plan.spans = traits.slabs == EgressTraits::Slabs::MadePerFilling
                     ? SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes, slabs.slab_count)
                     : SpanPlan::make(slabs.slab_count, plan.layout.slab_bytes);
    plan.queue_depth = slabs.batches_ahead;
    // A recorded run, or one measured from a drained start, needs every batch's time.
    const bool measured = config.drain_warmup || !config.trace_dir.empty();
    if (slabs.small && slabs.batches_ahead >= kTimedOneIn)
        plan.pace = {.depth = slabs.batches_ahead / kTimedOneIn * kTimedOneIn, .timed = measured ? 1 : kTimedOneIn};
    return plan;
}

}  // namespace offramp
