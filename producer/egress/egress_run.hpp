#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.hpp"
#include "common/shm/group_policy.hpp"
#include "common/wire/run_progress.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_thread.hpp"
#include "producer/broker/dead_letter_writer.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/device/host_memory.hpp"
#include "producer/egress/egress_stream.hpp"
#include "producer/egress/run_directory_lock.hpp"
#include "producer/egress/run_listeners.hpp"
#include "producer/egress/slab_plan.hpp"
#include "producer/pool/run_memory.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/pool/slab_pool.hpp"
#include "producer/recovery/predecessor.hpp"

namespace offramp {

inline constexpr std::uint32_t kConsumerTableSize = 64;

// The settings of a run.
struct EgressRunOptions {
    // --- slabs ---
    SlabLayout layout;
    SpanPlan spans;
    RunSlabs slabs = RunSlabs::PageLockedPool;
    Pinning::Options pinning{};
    // The run fills in the header's nonce and epoch, slab_count, when_none and on_dropped. The header's texts outlive
    // the run.
    EgressStream::Options stream{};
    std::uint64_t items = 0;                    // of the source, for a recovered run
    std::vector<std::uint64_t> batch_starts{};  // BatchNumbers::starts, for a recovered run
    WhenFull when_full = WhenFull::Wait;
    std::string spill_dir;  // empty: in the run's directory
    // --- consumers ---
    std::uint32_t max_consumers = kConsumerTableSize;  // of each group
    std::vector<ConsumerGroup> groups{};  // empty: one, without a name. Each has a policy; `when_full` is Wait
    // The run fills in group, policy, run_nonce, progress, on_completed, on_dead_letter, dead_letters, spill and
    // on_dropped.
    BrokerOptions broker{};

    // The oldest waiting slab is dropped when no slab is free.
    bool drops_oldest() const {
        return when_full == WhenFull::DropOldest ||
               std::ranges::any_of(groups, [](const ConsumerGroup& group) { return group.policy.drops_for_run(); });
    }
    // A batch with more parts than slabs would lose a part whatever its consumers do.
    bool may_drop() const { return when_full == WhenFull::Drop || drops_oldest(); }
};

// A whole run except for the computation: slabs, their ledger, broker, copies. EmbeddedEgress builds it for programs
// with their own loop; offramp-producer builds it directly.
//
// Owns: memory, slabs, broker's thread, stream, spilled files' store. Borrows: place, device, timeline and both
// listeners; all of it outlives the run. Thread: the maker's; each part that it hands out names its own. Blocks: the
// constructor, while a predecessor's slabs are read; the destructor, until copies under way are done. Errors: Error;
// its threads report to the listener, and as EgressStream and BrokerThread describe. Never ends the process.
class EgressRun {
  public:
    EgressRun(RunDirectoryLock& place, Device& device, DeviceTimeline& timeline, EgressRunOptions options,
              RunListener& listener, ItemListener& items);
    EgressRun(const EgressRun&) = delete;
    EgressRun& operator=(const EgressRun&) = delete;

    // Lets consumers connect; does nothing in a run without consumers.
    void open_to_consumers() const;

    EgressStream& stream() { return *stream_; }
    const EgressStream& stream() const { return *stream_; }
    // Only of a run with consumers.
    BrokerThread& broker() { return *broker_; }
    const BrokerThread& broker() const { return *broker_; }
    // For a program that fills slabs itself instead of submitting to stream().
    const std::shared_ptr<SlabExchange>& exchange() const { return exchange_; }
    const RunNames& names() const { return place_.names(); }
    // A free slab for measurements. It is never published and is freed with the loan. None after stop(). Blocks: until
    // a slab is free. Thread: the one that submits.
    std::optional<WriteLoan> borrow_slab() { return exchange_->wait_for_slab(); }
    // Wakes all waits for a slab and abandons batches whose copies have not begun. Thread: any.
    void stop();
    // Return immediately without a pool. Errors: those of the pool's workers.
    void wait_until_first_usable();
    void wait_until_all_usable();
    // When the run is over: no successor will read the files.
    void remove_spilled() const;

    const SlabLayout& layout() const { return options_.layout; }
    const SpanPlan& spans() const { return options_.spans; }
    bool has_pool() const { return pool_ != nullptr; }
    // Empty in a run that begins.
    const Predecessor& predecessor() const { return predecessor_; }
    // Null without consumers.
    const RunProgress* progress() const {
        return groups_.empty() ? nullptr : &groups_.front()->records->memory.progress();
    }

    // --- stats. Thread: any ---
    double slab_wait_seconds() const { return exchange_->wait_seconds(); }
    double seconds_to_first_slab() const { return pool_ ? pool_->seconds_to_first() : 0; }
    double seconds_to_all_slabs() const { return pool_ ? pool_->seconds_to_all() : 0; }
    // Bytes of the run's shared-memory objects; the maximum, where each filling creates its slab.
    std::size_t shm_bytes() const;
    PinningProof pinning() const { return pinning_.proof(); }

  private:
    // A group of consumers: its endpoint, ledger and heartbeat records. A run without groups has one without a name.
    struct Group {
        ConsumerGroup of;
        Endpoint endpoint;
        std::unique_ptr<RunRecords> records;
        std::unique_ptr<HeartbeatSnapshot> heartbeats;  // for the broker
        Predecessor predecessor{};
        std::shared_ptr<SpillStore> spill{};  // null: it does not spill
    };
    void begin();
    void recover();
    void add_group(const ConsumerGroup& group, std::unique_ptr<RunRecords> records, std::shared_ptr<SpillStore> spill);
    std::vector<ConsumerGroup> groups() const;
    void make_pool();
    std::unique_ptr<BrokerThread> start_broker();
    BrokerThread::Parts make_broker(const std::vector<BrokerOptions>& options);
    BrokerOptions broker_options(const Group& group);
    std::shared_ptr<DeadLetterWriter> make_dead_letter_writer(const std::string& folder);
    std::string spill_folder() const;
    std::shared_ptr<SpillStore> make_spill(const ConsumerGroup& group) const;
    void report_dropped(const SlabTicket& ticket, std::span<const std::byte> bytes, const std::string& group);
    std::unique_ptr<EgressStream> make_stream(DeviceTimeline& timeline);

    // In order of dependency; destroyed in reverse.
    RunDirectoryLock& place_;
    Device& device_;
    const EgressRunOptions options_;
    RunListener& listener_;
    ItemListener& items_;
    const std::shared_ptr<SlabExchange> exchange_ = SlabExchange::make();
    Pinning pinning_;
    const SteadyClock clock_{};
    PidfdWatch watch_;
    std::vector<std::unique_ptr<Group>> groups_;  // of runs with consumers
    Predecessor predecessor_;                     // of the run as a whole
    std::unique_ptr<SlabPool> pool_;              // of runs whose slabs are made ahead
    std::unique_ptr<BrokerThread> broker_;        // of runs with consumers
    std::unique_ptr<EgressStream> stream_;
};

}  // namespace offramp
