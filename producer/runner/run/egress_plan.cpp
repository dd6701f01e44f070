#include "producer/runner/run/egress_plan.hpp"

#include <algorithm>

namespace offramp {
namespace {

constexpr std::size_t kBigSlab = std::size_t{256} << 20;
constexpr std::size_t kSharedSlab = std::size_t{16} << 20;
constexpr std::size_t kSmallBatch = std::size_t{4} << 20;
constexpr std::size_t kMostBatchesASlab = 64;
constexpr std::uint32_t kSharedSlabs = 16;
// Bytes of output that may be on their way between two stages, and the most batches that this may be.
constexpr std::size_t kBytesAhead = std::size_t{16} << 20;
constexpr std::size_t kMostBatchesAhead = 64;
constexpr std::size_t kTimedOneIn = 16;

std::size_t bytes_of(const std::vector<TensorSpec>& outputs) {
    std::size_t bytes = 0;
    for (const TensorSpec& output : outputs) bytes += output.row_bytes() * static_cast<std::size_t>(output.rows());
    return bytes;
}

std::uint32_t parts_of(std::size_t batch_bytes, const RunConfig& config) {
    if (config.samples_per_slab > 0) return (config.batch + config.samples_per_slab - 1) / config.samples_per_slab;
    if (config.slabs > 0) return 1;   // who counts slabs counts batches
    const auto parts = static_cast<std::uint32_t>((batch_bytes + kBigSlab - 1) / kBigSlab);
    return std::clamp(parts, 1U, config.batch);
}

std::uint32_t batches_sharing(std::size_t batch_bytes, std::uint32_t parts, const RunConfig& config, const Rung& rung) {
    if (parts > 1 || rung.copies != Rung::Copies::OnOwnStream) return 1;
    const std::size_t most = kMaxSamplesPerSlab / config.batch;
    if (config.batches_per_slab > 0) return static_cast<std::uint32_t>(std::clamp<std::size_t>(config.batches_per_slab, 1, most));
    if (batch_bytes > kSmallBatch || config.samples_per_slab > 0 || config.slabs > 0) return 1;
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(kSharedSlab / std::max<std::size_t>(batch_bytes, 1), 1, std::min(most, kMostBatchesASlab)));
}

}  // namespace

EgressPlan EgressPlan::make(const RunConfig& config, const Rung& rung, const std::vector<TensorSpec>& outputs,
                            std::size_t max_key_bytes, std::uint32_t pool_batches) {
    const std::size_t batch_bytes = bytes_of(outputs);
    const std::uint32_t parts = parts_of(batch_bytes, config);
    const std::uint32_t sharing = batches_sharing(batch_bytes, parts, config, rung);
    const std::uint32_t rows = config.samples_per_slab > 0 ? std::min(config.samples_per_slab, config.batch)
                                                           : (config.batch + parts - 1) / parts;
    EgressPlan plan;
    plan.layout = SlabLayout::make(outputs, std::int64_t{rows} * sharing, sharing, max_key_bytes);
    std::uint32_t slabs = config.slabs;
    if (slabs == 0) slabs = sharing > 1 ? kSharedSlabs : pool_batches * parts;
    // A segment of its own for every slab where each is made anew.
    plan.spans = rung.memory == Rung::Memory::FreshSegment ? SpanPlan::make(slabs, plan.layout.slab_bytes, slabs)
                                                           : SpanPlan::make(slabs, plan.layout.slab_bytes);
    const std::size_t ahead = std::clamp<std::size_t>(kBytesAhead / std::max<std::size_t>(batch_bytes, 1), 1, kMostBatchesAhead);
    const bool small = batch_bytes <= kSmallBatch;
    plan.queue_depth = small ? ahead : 1;
    // Who records a run, or measures it from a drained start, wants every batch's time.
    const bool measured = config.drain_warmup || !config.trace_dir.empty();
    if (small && ahead >= kTimedOneIn)
        plan.pace = {.depth = ahead / kTimedOneIn * kTimedOneIn, .timed = measured ? 1 : kTimedOneIn};
    return plan;
}

}  // namespace offramp
