#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {

// The shared-memory objects of a run, for tests that play the producer. Removed at the end.
class FakeRun {
  public:
    static constexpr std::uint32_t kSlabs = 5;
    static constexpr std::uint32_t kConsumerCapacity = 4;

    FakeRun();

    const RunNames& names() const { return names_; }
    std::span<std::byte> ledger_bytes() const { return ledger_.bytes(); }
    // Removes its name; attached processes keep the object.
    void remove_ledger() { ledger_.unlink(); }
    void remove_spans() {
        for (SharedRegion& span : spans_) span.unlink();
    }
    LedgerHeader& header() const { return *reinterpret_cast<LedgerHeader*>(ledger_.bytes().data()); }
    HeartbeatRecord& heartbeat(std::uint32_t consumer_index) const {
        return reinterpret_cast<HeartbeatRecord*>(heartbeats_.bytes().data())[consumer_index];
    }
    std::span<std::byte> slab(std::uint32_t index) const;

    // Fills a slab with one batch of two samples and leases it; the items are 2*batch and 2*batch+1, the
    // latter a hole.
    SlabTicket lease_filled(std::uint32_t slab, std::uint64_t batch, std::uint32_t attempt = 1);
    void set_word(std::uint32_t slab, SlabWord word) const;
    void admit(std::uint32_t consumer_index, std::uint64_t session) const;
    static std::uint32_t samples_without_holes() { return 1; }

  private:
    RunNames names_;
    SlabLayout layout_;
    SpanPlan plan_;
    SharedRegion ledger_;
    SharedRegion heartbeats_;
    std::vector<SharedRegion> spans_;
};

}  // namespace offramp
