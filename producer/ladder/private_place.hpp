#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "consumer/processors/processor.hpp"
#include "producer/ladder/local_delivery.hpp"
#include "producer/ladder/slab_place.hpp"

namespace offramp {

// New private memory for every slab, processed in place: no pool, no other process, no overlap.
// Owns: the processor, the memory of one slab. Borrows: delivery.
class PrivatePlace final : public SlabPlace {
  public:
    PrivatePlace(std::size_t slab_bytes, std::uint64_t run_nonce, std::uint32_t epoch,
                 std::unique_ptr<Processor> processor, LocalDelivery& delivery);

    std::optional<WriteLoan> open() override;
    void deliver(WriteLoan loan, const PublishedSlab& published) override;
    void finish() override {}
    void stop() override { stopped_ = true; }

  private:
    const std::size_t slab_bytes_;
    const std::uint64_t run_nonce_;
    const std::uint32_t epoch_;
    std::unique_ptr<Processor> processor_;
    LocalDelivery& delivery_;
    std::unique_ptr<std::byte[]> bytes_;
    std::uint64_t generation_ = 0;
    std::atomic<bool> stopped_{false};
};

}  // namespace offramp
