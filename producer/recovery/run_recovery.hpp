#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "common/wire/run_progress.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/pool/run_memory.hpp"
#include "producer/pool/slab_pool.hpp"
#include "producer/recovery/predecessor.hpp"

namespace offramp {

// What a producer does to continue the run of a dead one: all of it, in this order. common/design/recovery.md also has
// the steps of consumers.
//
//   find()            where the run is met: its id and its nonce. Nothing is changed.
//   RunRecovery()     The slabs lie as this producer would lay them, and the producer that the ledger names is dead.
//                     Then the memory is this one's, under the next epoch.
//      (the caller compares its input with progress())
//   take_up()         The step that was counted last is taken if it was not; half-done changes are mended; Filling is
//                     abandoned. The slabs say what they hold, on the disk too, and that agrees with the progress
//                     record.
//      (the caller compares what it keeps outside of the run, such as a checkpoint, with predecessor())
//   resume()           One more producer has served the run. From here on the run is this producer's.
//   take_slabs()      The spans are mapped and page-locked again; their bytes stay as they are.
//   continue_in()     The broker goes on with slabs in flight, dead letters and spilled slabs; consumers come back.
//
// A refusal changes nothing but the epoch and, from take_up() on, what the predecessor had left half-done. A death in
// the middle leaves a run that can be recovered again.
//
// Owns: the run's memory until resume(). Thread: one. Blocks: while it reads headers, and spilled files. Errors: each
// step's.
class RunRecovery {
  public:
    // How the slabs lie, by this producer's own plan.
    struct Layout {
        RunNames names;
        SlabLayout layout;
        SpanPlan spans;
        std::uint32_t consumer_capacity = 0;
    };

    // Errors: NoSuchRun when there is no run in the directory; ConfigError when it has another id than `run_id`.
    static Endpoint find(const std::string& run_dir, const std::string& run_id);

    // Errors: ProtocolError with field, found and wanted where the slabs lie otherwise; RunInUse when that producer
    // lives; NoSuchRun when the memory is gone.
    explicit RunRecovery(Layout layout);
    std::uint32_t epoch() const { return memory_.epoch(); }
    const RunProgress& progress() { return memory_.progress(); }

    // `spill`: null where the run does not spill. Errors: ProtocolError for words or headers that no producer leaves;
    // CountMismatch, with the stats, where record and slabs contradict each other.
    void take_up(const BatchNumbers& numbers, const SpillStore* spill);
    const Predecessor& predecessor() const { return predecessor_; }

    // After take_up(). Nothing of this is needed any more.
    std::unique_ptr<RunRecords> resume() &&;

    // Errors: as SlabPool.
    static std::unique_ptr<SlabPool> take_slabs(const RunNames& names, const SpanPlan& spans, SlabPool::Pin pin,
                                                bool readable_by_group, SlabPool::Listener news);
    // Before the broker's first step.
    static void continue_in(Broker& broker, const Predecessor& predecessor);

  private:
    const Layout layout_;
    RunMemory memory_;
    std::optional<SlabLedger> ledger_;
    Predecessor predecessor_;
};

}  // namespace offramp
