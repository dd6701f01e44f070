#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/unique_fd.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/run_progress.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// Owns the shared-memory objects of one run's ledger and heartbeat records, and knows their layout. Thread: the
// constructor's; afterwards the broker's. Errors: as SharedRegion::create and adopt.
class RunMemory {
  public:
    RunMemory(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan, std::uint32_t consumer_capacity,
              std::uint32_t epoch, bool readable_by_group);
    // Takes over a dead producer's objects under the next epoch: on return, epoch() and the producer in the header are
    // this process's. Errors: ProtocolError with field, found and wanted when the slabs' layout differs from this
    // run's; RunInUse when that producer lives.
    static RunMemory adopt(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan,
                           std::uint32_t consumer_capacity);

    // Another group's memory was taken over under a later epoch: continues under that.
    void raise_epoch(std::uint32_t epoch);

    SlabLedger::Memory ledger();
    RunProgress& progress();
    std::span<const HeartbeatRecord> heartbeats() const;
    std::uint32_t epoch() const { return header().epoch; }
    std::size_t bytes() const { return ledger_.bytes().size() + heartbeats_.bytes().size(); }

  private:
    RunMemory(std::uint32_t slab_count, std::uint32_t consumer_capacity, SharedRegion ledger, SharedRegion heartbeats);
    LedgerHeader& header() const { return *reinterpret_cast<LedgerHeader*>(ledger_.bytes().data()); }

    std::uint32_t slab_count_;
    std::uint32_t consumer_capacity_;
    SharedRegion ledger_;
    SharedRegion heartbeats_;
};

// Reads the consumers' heartbeat records like an untrusted file. Consumers write them, maybe as another user, who may
// also truncate the object: access to a lost page of a mapping would kill the producer by SIGBUS. Records that cannot
// be read keep their last values.
//
// Owns: a descriptor, and a copy of the heartbeat records. Thread: the broker's. Blocks: never.
class HeartbeatSnapshot {
  public:
    // `name`: of the object. Errors: SystemError when it cannot be opened.
    HeartbeatSnapshot(const std::string& name, std::uint32_t consumer_capacity);

    // The address is fixed; refresh() changes the contents.
    std::span<const HeartbeatRecord> records() const { return heartbeats_; }
    void refresh() noexcept;

  private:
    ProcessOwnFd object_;
    std::vector<HeartbeatRecord> heartbeats_;
};

}  // namespace offramp
