#include "producer/egress/slab_plan.hpp"

#include <algorithm>

#include "common/wire/slab_header.hpp"

namespace offramp {
namespace {

constexpr std::size_t kBigSlab = std::size_t{256} << 20;
constexpr std::size_t kSharedSlab = std::size_t{16} << 20;
constexpr std::size_t kMostBatchesASlab = 64;
constexpr std::uint32_t kSharedSlabs = 16;
// Whole batches in a pool.
constexpr std::uint32_t kPoolBatchesOnGpu = 8;
constexpr std::uint32_t kPoolBatchesOnCpu = 6;
// Of outputs that vary, where batches have no fixed size.
constexpr std::size_t kVaryingSlab = std::size_t{64} << 20;
constexpr std::size_t kVaryingPool = std::size_t{4} << 30;
constexpr std::uint32_t kFewestSlabs = 4;
constexpr std::size_t kUsualSample = 4096;  // at least so many bytes; decides the number of samples in a slab
constexpr std::size_t kLeastSamples = 64;
constexpr std::size_t kPartOfTexts = 8;  // keys and metadata may have an eighth of a slab's bytes
// Most keys and metadata in a slab. A dead letter's file has them in its header, of at most 100 MB, where a byte may
// take seven.
constexpr std::size_t kMostTextBytes = std::size_t{13} << 20;

std::size_t bytes_of(const std::vector<TensorSpec>& outputs) {
    std::size_t bytes = 0;
    for (const TensorSpec& output : outputs) bytes += output.row_bytes() * static_cast<std::size_t>(output.rows());
    return bytes;
}

// Most samples in a slab, whatever the size of the outputs.
std::size_t most_rows(const SlabPlan::Wanted& wanted) {
    return wanted.metadata_bytes == 0 ? kMaxSamplesPerSlab : kMostTextBytes / wanted.max_text_bytes();
}

// The rows of a slab bound its header, and the room for outputs that do not vary: half of the room for the others, or
// that of a whole batch up to kBigSlab.
std::int64_t rows_of_varying(const std::vector<TensorSpec>& outputs, const SlabPlan::Wanted& wanted,
                             std::size_t slab_bytes) {
    const std::size_t most = most_rows(wanted);
    if (wanted.samples_per_slab > 0)
        return static_cast<std::int64_t>(std::min<std::size_t>(wanted.samples_per_slab, most));
    std::size_t fixed_bytes = 0;
    for (const TensorSpec& output : outputs)
        if (!output.varies()) fixed_bytes += output.row_bytes();
    const std::size_t sample_bytes = std::max(kUsualSample, wanted.max_text_bytes() * kPartOfTexts);
    const std::size_t rows = std::clamp<std::size_t>(slab_bytes / sample_bytes, kLeastSamples, most);
    if (fixed_bytes == 0) return static_cast<std::int64_t>(rows);
    const std::size_t room = std::max(slab_bytes / 2, std::min(fixed_bytes * wanted.batch, kBigSlab));
    return static_cast<std::int64_t>(std::clamp<std::size_t>(room / fixed_bytes, 1, rows));
}

SlabPlan plan_varying(const std::vector<TensorSpec>& outputs, const SlabPlan::Wanted& wanted) {
    const std::size_t slab_bytes = wanted.slab_bytes > 0 ? wanted.slab_bytes : kVaryingSlab;
    const std::int64_t rows = rows_of_varying(outputs, wanted, slab_bytes);
    const std::size_t sharing = wanted.may_share ? std::min<std::size_t>(rows, kMostBatchesASlab) : 1;
    SlabPlan plan{.layout = SlabLayout::make(outputs, rows, static_cast<std::uint32_t>(sharing),
                                             wanted.max_text_bytes(), slab_bytes),
                  .slab_count = wanted.slabs};
    if (plan.slab_count == 0)
        plan.slab_count = static_cast<std::uint32_t>(
            std::clamp<std::size_t>(kVaryingPool / plan.layout.slab_bytes, kFewestSlabs, kSharedSlabs));
    return plan;
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
    if (std::ranges::any_of(outputs, &TensorSpec::varies)) return plan_varying(outputs, asked);
    Wanted wanted = asked;
    const auto most = static_cast<std::uint32_t>(most_rows(wanted));
    if ((wanted.samples_per_slab > 0 ? wanted.samples_per_slab : wanted.batch) > most) wanted.samples_per_slab = most;
    wanted.samples_per_slab = std::min(wanted.samples_per_slab, wanted.batch);
    const std::size_t batch_bytes = bytes_of(outputs) + wanted.batch * wanted.metadata_bytes;
    const std::uint32_t parts = parts_of(batch_bytes, wanted);
    const std::uint32_t sharing =
        std::min(batches_sharing(batch_bytes, parts, wanted), std::max(most / wanted.batch, 1U));
    const std::uint32_t rows =
        wanted.samples_per_slab > 0 ? wanted.samples_per_slab : (wanted.batch + parts - 1) / parts;
    SlabPlan plan{.layout = SlabLayout::make(outputs, std::int64_t{rows} * sharing, sharing, wanted.max_text_bytes()),
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
