#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wire/slab_layout.hpp"

namespace offramp {

// Limits on outputs between two stages: bytes, which one more batch may exceed, and batches.
inline constexpr std::size_t kBytesAhead = std::size_t{16} << 20;
inline constexpr std::size_t kMostBatchesAhead = 64;
inline constexpr std::size_t kSmallBatch = std::size_t{4} << 20;

// How a run's outputs are cut into slabs. Settings left open follow from the batch's size. A big batch is cut into
// parts of at most 256 MiB, so that consumers read while the rest is copied. Small ones share a slab of about 16 MiB,
// so that messages and wake-ups are paid per slab, not per batch. If samples differ in shape, a slab holds as many as
// fit into its bytes, and larger slabs are fewer.
struct SlabPlan {
    // 0: chosen by the batch's size.
    struct Wanted {
        std::uint32_t batch = 1;  // usual samples of a batch
        std::uint32_t samples_per_slab = 0;
        std::uint32_t batches_per_slab = 0;
        std::uint32_t slabs = 0;
        std::size_t slab_bytes = 0;  // for outputs that vary
        bool may_share = true;       // allow several batches in one slab
        std::size_t max_key_bytes = 255;
        std::size_t metadata_bytes = 0;  // at most, of a sample

        std::size_t max_text_bytes() const { return max_key_bytes + metadata_bytes; }
    };
    SlabLayout layout;
    std::uint32_t slab_count = 0;
    std::size_t batches_ahead = 1;  // submitted and not yet being copied
    bool small = false;             // the batches' size lets them share a slab

    // `outputs`: of a usual batch, as they are copied. `on_gpu`: a GPU's pool holds more batches than a CPU's,
    // unless `slabs` is set. Errors: ConfigError, see SlabLayout::make.
    static SlabPlan make(const std::vector<TensorSpec>& outputs, const Wanted& wanted, bool on_gpu);
};

// The kind of memory that a run's slabs use.
enum class RunSlabs {
    PageLockedPool,  // shared memory made ahead, page-locked
    Pool,            // the same, not page-locked
    MadePerFilling,  // a shared-memory object per slab, created anew for each filling
    None,            // outputs stay in the process, so there are no consumers
};

inline bool has_consumers(RunSlabs slabs) { return slabs != RunSlabs::None; }
inline bool has_pool(RunSlabs slabs) { return slabs == RunSlabs::PageLockedPool || slabs == RunSlabs::Pool; }

}  // namespace offramp
