#include "producer/egress/slab_plan.hpp"

#include <algorithm>

#include "common/wire/slab_header.hpp"

namespace offramp {
namespace {

constexpr std::size_t kBigSlab = std::size_t{256} << 20;
constexpr std::size_t kSharedSlab = std::size_t{16} << 20;
constexpr std::size_t kSmallBatch = std::size_t{4} << 20;
constexpr std::size_t kMostBatchesASlab = 64;
constexpr std::uint32_t kSharedSlabs = 16;
// Whole batches in a pool.
constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;
// Limits on outputs between two stages: bytes, and batches.
constexpr std::size_t kBytesAhead = std::size_t{16} << 20;
constexpr std::size_t kMostBatchesAhead = 64;

std::size_t bytes_of(const std::vector<TensorSpec>& outputs) {
    std::size_t bytes = 0;
    for (const TensorSpec& output : outputs) bytes += output.row_bytes() * static_cast<std::size_t>(output.rows());
    return bytes;
}

std::uint32_t parts_of(std::size_t batch_bytes, const SlabPlan::Wanted& wanted) {
    if (wanted.samples_per_slab > 0) return (wanted.batch + wanted.samples_per_slab - 1) / wanted.samples_per_slab;
    if (wanted.slabs > 0) return 1;  // an explicit number of slabs means batches
    const auto parts = static_cast<std::uint32_t>((batch_bytes + kBigSlab - 1) / kBigSlab);
    return std::clamp(parts, 1U, wanted.batch);
}

std::uint32_t batches_sharing(std::size_t batch_bytes, std::uint32_t parts, const SlabPlan::Wanted& wanted) {
    if (parts > 1 || !wanted.may_share) return 1;
    const std::size_t most = std::max<std::size_t>(kMaxSamplesPerSlab / wanted.batch, 1);
    if (wanted.batches_per_slab > 0)
        return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted.batches_per_slab, 1, most));
    if (batch_bytes > kSmallBatch || wanted.samples_per_slab > 0 || wanted.slabs > 0) return 1;
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(kSharedSlab / std::max<std::size_t>(batch_bytes, 1), 1,
                                                              std::min(most, kMostBatchesASlab)));
}

}  // namespace

SlabPlan SlabPlan::make(const std::vector<TensorSpec>& outputs, const Wanted& asked, bool on_gpu) {
    Wanted wanted = asked;
    wanted.samples_per_slab = std::min(wanted.samples_per_slab, wanted.batch);
    const std::size_t batch_bytes = bytes_of(outputs);
    const std::uint32_t parts = parts_of(batch_bytes, wanted);
    const std::uint32_t sharing = batches_sharing(batch_bytes, parts, wanted);
    const std::uint32_t rows =
        wanted.samples_per_slab > 0 ? wanted.samples_per_slab : (wanted.batch + parts - 1) / parts;
    SlabPlan plan{.layout = SlabLayout::make(outputs, std::int64_t{rows} * sharing, sharing, wanted.max_key_bytes),
                  .slab_count = wanted.slabs};
    if (plan.slab_count == 0)
        plan.slab_count = sharing > 1 ? kSharedSlabs : (on_gpu ? kPoolBatchesOnGpu : kPoolBatchesOnCpu) * parts;
    plan.small = batch_bytes <= kSmallBatch;
    if (plan.small)
        plan.batches_ahead =
            std::clamp<std::size_t>(kBytesAhead / std::max<std::size_t>(batch_bytes, 1), 1, kMostBatchesAhead);
    return plan;
}

}  // namespace offramp
