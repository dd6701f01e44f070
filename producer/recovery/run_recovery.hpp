#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

// The steps with which a producer continues a dead producer's run, in this order. common/design/recovery.md also has
// the steps of consumers.
//
//   find()            Finds the run's id and nonce. Nothing is changed.
//   RunRecovery()     The slabs have this producer's layout, and the producer in the ledger is dead.
//                     Then the memory is this one's, under the next epoch.
//      (the caller compares its input with progress())
//   take_up()         Takes the step counted last, if it was not taken. Repairs half-done changes and abandons
//                     Filling. The slabs' contents, also on the disk, agree with the progress record. Of a run with
//                     groups: a slab that one group was given is given to all, and one that a required group lost
//                     is marked in all.
//      (the caller compares its own records, such as a checkpoint, with predecessor())
//   resume()          Counts one more producer. From here on the run is this producer's.
//   take_slabs()      Maps and page-locks the spans again; their bytes stay.
//   continue_in()     The broker continues slabs in flight, dead letters and spilled slabs; consumers come back.
//
// A refusal changes only the epoch and, from take_up() on, the predecessor's half-done changes. A death in the middle
// leaves a run that can be recovered again.
//
// Owns: the run's memory until resume(). Thread: one. Blocks: while it reads headers, and spilled files. Errors: each
// step's.
class RunRecovery {
  public:
    // The slabs' layout in this producer's plan.
    struct Layout {
        RunNames names;
        SlabLayout layout;
        SpanPlan spans;
        std::uint32_t consumer_capacity = 0;
        std::vector<ConsumerGroup> groups{{}};  // one without a name: a run without groups
    };

    // Errors: NoSuchRun when there is no run in the directory; ConfigError when it has another id than `run_id`.
    static Endpoint find(const std::string& run_dir, const std::string& run_id);

    // Errors: ProtocolError with field, found and wanted if the layout differs; RunInUse when that producer lives;
    // NoSuchRun when the memory is gone.
    explicit RunRecovery(Layout layout);
    std::uint32_t epoch() const { return memory_.front().epoch(); }
    const RunProgress& progress() { return memory_.front().progress(); }

    // `spills`: by group; null or missing if a group does not spill. Errors: ProtocolError for words or headers that no
    // producer writes; CountMismatch, with the stats, if record and slabs contradict each other.
    void take_up(const BatchNumbers& numbers, std::span<const std::shared_ptr<SpillStore>> spills = {});
    // Of the run as a whole: a slab is in flight while a required group has it, in memory or on the disk.
    const Predecessor& predecessor() const { return whole_ ? *whole_ : predecessors_.front(); }
    const std::vector<Predecessor>& by_group() const { return predecessors_; }

    // After take_up(). Consumes this object. By group.
    std::vector<std::unique_ptr<RunRecords>> resume() &&;

    // Errors: as SlabPool.
    static std::unique_ptr<SlabPool> take_slabs(const RunNames& names, const SpanPlan& spans, SlabPool::Pin pin,
                                                bool readable_by_group, SlabPool::Listener news);
    // Call it before the broker's first step. By group.
    static void continue_in(Broker& broker, std::span<const Predecessor> predecessors);

  private:
    void count_last_publication(const BatchNumbers& numbers);
    void require_same_generations();
    void mark_last_losses();
    Predecessor whole() const;

    const Layout layout_;
    // by group
    std::vector<RunMemory> memory_;
    std::vector<SlabLedger> ledgers_;
    std::vector<Predecessor> predecessors_;
    std::optional<Predecessor> whole_;  // of several groups
};

}  // namespace offramp
