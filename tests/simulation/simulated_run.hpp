#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "producer/broker/broker.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/simulated_machine.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/support/awaited_stores.hpp"
#include "tests/support/manual_clock.hpp"

namespace offramp::simulation {

inline constexpr std::chrono::nanoseconds kVisibilityTimeout = std::chrono::seconds(2);

// What became of a batch in one group of consumers. The group's progress record says so.
struct GroupShare {
    std::uint32_t commits = 0;  // by any consumer of the group
    std::uint32_t blame = 0;    // failures that may count against it
    bool rejected = false;
    bool published = false;
    bool completed = false;
    bool dead_letter = false;
    bool dropped = false;  // after its publication
    bool on_disk = false;
    // where it is, or where it was before it was spilled
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    enum class Letter : std::uint8_t { None, Written, Failed } letter = Letter::None;
    bool over() const { return completed || dead_letter || dropped; }
};

// The run's view: completed by every required group, or lost by one.
struct Batch {
    std::array<GroupShare, kGroups> shares;
    CountedStep lost_by = CountedStep::None;  // the first loss
    std::uint32_t lost_in = 0;                // its epoch
    bool completed = false;
    bool dead_letter = false;
    bool dropped = false;  // by the producer, without a slab
    bool is_lost() const { return lost_by != CountedStep::None; }
};

// How often the interesting things happened, over all histories.
struct Counts {
    std::uint64_t histories = 0, steps = 0, published = 0, completed = 0, dead_letters = 0, dropped = 0;
    std::uint64_t consumer_kills = 0, consumer_fuses = 0, producer_kills = 0, producer_fuses = 0, recoveries = 0;
    std::uint64_t returned_consumers = 0, stalled_kills = 0, redeliveries = 0, aborts = 0;
    std::uint64_t with_groups = 0, lost_by_one = 0, optional_drops = 0, oldest_drops = 0, group_drops = 0;
    std::uint64_t letters = 0, letters_lost = 0, spilled = 0, read_back = 0, lost_files = 0, full_disks = 0;
};

class SimulatedConsumer;

// The broker's clock. Before the broker sees whether the egress waits, the egress has taken what was granted.
class BrokerClock final : public Clock {
  public:
    BrokerClock(const Clock& clock, std::function<void()> before) : clock_(clock), before_(std::move(before)) {}
    TimePoint now() const override {
        before_();
        return clock_.now();
    }

  private:
    const Clock& clock_;
    const std::function<void()> before_;
};

// A run of producer and consumers in one thread: the real broker, ledger, progress record, exchange, recovery, consumer
// sessions and read loans, over shared memory of this process. A step at a time; every step ends with the checks.
class SimulatedRun {
  public:
    SimulatedRun(SharedObjects& shared, const Setup& setup, Twin twin, Counts& counts, bool trace);
    ~SimulatedRun();

    // Errors: Violation; what the product throws.
    void take(const Step& step);
    // From here on every process behaves, and the run must end.
    void finish();
    std::uint64_t digest() const { return digest_; }

    // --- for consumers ---
    bool has_producer() const { return producer_ != nullptr; }
    std::uint32_t epoch() const { return epoch_; }
    bool closed() const { return closed_; }
    // The run ended before every consumer had left, as one did not run for too long.
    bool closed_early() const { return closed_early_; }
    std::shared_ptr<Link> connect(pid_t pid, std::uint32_t group);
    SlabMappings& mappings(std::uint32_t group) { return shared_.mappings(group); }
    ManualClock& clock() { return clock_; }
    Twin twin() const { return twin_; }
    const Setup& setup() const { return setup_; }
    Counts& counts() { return counts_; }
    GroupShare& share(std::uint32_t group, std::uint64_t batch) { return batches_.at(batch).shares[group]; }
    // The batch of a filling; nothing if the slab has been filled again since.
    std::optional<std::uint64_t> batch_in(std::uint32_t slab, std::uint64_t generation) const;
    // The payload of a slab is that of its batch.
    void check_bytes(std::uint32_t slab, std::uint64_t batch, const std::string& reader) const;
    void note_delivery(std::uint32_t group, const SlabTicket& ticket);
    void say(const std::string& what) const;
    bool traces() const { return trace_; }

  private:
    struct Producer;
    struct Filling {
        WriteLoan loan;
        std::uint64_t batch;
        PublishedSlab published;
    };

    void begin_producer(AwaitedStores stores, std::vector<std::unique_ptr<RunRecords>> records,
                        std::span<const Predecessor> predecessors);
    AwaitedStores make_stores() const;
    BrokerOptions broker_options(std::uint32_t group);
    std::uint32_t groups() const { return setup_.groups; }
    bool is_optional(std::uint32_t group) const { return groups_[group].policy.optional; }
    bool spills(std::uint32_t group) const { return setup_.when_full[group] == WhenFull::Spill; }
    std::string in_group(std::uint32_t group) const;
    void as_producer(const std::function<void()>& work);
    void as_consumer(SimulatedConsumer& consumer, const std::function<void()>& work);
    std::uint32_t granted() const;
    bool has_batch() const;
    bool may_fill() const;
    void fill();
    void fill(WriteLoan loan);
    void wait_for_slab();
    void await_egress() const;
    void end_wait();
    void publish();
    void abandon_newest();
    void drop();
    void end_input();
    void step_broker();
    void kill_producer();
    void recover();
    void write_letter(std::uint32_t who, std::uint32_t how);
    void join(std::uint32_t group);
    void end_consumer(SimulatedConsumer& consumer, std::uint32_t how);
    void take_kills();
    void notice_death(std::uint32_t who);
    void deliver(std::uint32_t who, std::uint32_t how);
    void watch(std::chrono::nanoseconds time);
    SimulatedConsumer* living(std::uint32_t who, bool also_stopped = false);
    // From the progress records: each step of a group, once it is counted.
    void note_counts();
    void note_step(std::uint32_t group, const ProgressRecord& record);
    void note_loss(std::uint32_t group, CountedStep step, Batch& batch);
    void note_drop(std::uint32_t group, const ProgressRecord& record, std::uint64_t number);
    void note_read_back();
    void tear_writes() const;
    void note_read_back(std::uint32_t group, std::uint32_t slab, std::uint64_t generation);
    void on_listed(std::uint32_t group, std::uint64_t batch);
    void on_completed(std::uint64_t batch);
    void on_dead_letter(std::uint64_t batch);
    bool is_completed(const Batch& batch) const;
    bool is_free(std::uint32_t slab) const;
    bool may_lose(std::uint32_t group, std::uint32_t slab) const;
    bool is_in_memory(std::uint32_t group, const GroupShare& share) const;
    bool is_open(std::uint32_t group, const Batch& batch) const;
    std::optional<std::uint64_t> batch_from_disk(std::uint32_t group, std::uint32_t slab) const;
    std::string spill_folder(std::uint32_t group) const;

    void check();
    void check_entry(const SlabLedger::Memory& memory, std::size_t slab);
    static void check_payload(const std::byte* payload, std::uint64_t batch, const std::string& reader);
    void check_conservation();
    void check_fates() const;
    std::uint64_t check_places(std::uint32_t group);
    void check_files(std::uint32_t group) const;
    void check_predecessor(const RunRecovery& recovery) const;
    void check_letters() const;
    void check_end();
    void check_end(std::uint32_t group) const;
    void fair_round();
    void spoil(std::string_view failpoint);
    void spoil_files(Twin how) const;

    SharedObjects& shared_;
    const Setup setup_;
    const Twin twin_;
    Counts& counts_;
    const bool trace_;
    const std::vector<ConsumerGroup> groups_;
    ManualClock clock_;
    const BrokerClock broker_clock_{clock_, [this] { await_egress(); }};
    SimulatedWatch watch_;
    std::unique_ptr<Producer> producer_;
    std::uint32_t epoch_ = 1;
    Fuse producer_fuse_;
    std::vector<std::unique_ptr<SimulatedConsumer>> consumers_;
    std::vector<std::shared_ptr<Link>> links_;
    std::deque<pid_t> unnoticed_;  // dead, and their pidfds not readable yet
    std::vector<pid_t> killed_;    // by the broker, in its step
    pid_t next_pid_ = 100;
    std::deque<Filling> filling_;
    std::uint64_t next_batch_ = 0;
    std::uint32_t dropped_before_ = 0;
    bool input_ended_ = false;
    std::optional<std::pair<std::uint32_t, std::uint64_t>> listing_;  // by a group, and not dropped yet
    bool aborting_ = false;
    bool closed_ = false;
    bool closed_early_ = false;
    std::optional<TimePoint> fair_since_;
    std::vector<Batch> batches_;
    struct Contents {
        std::uint64_t generation = 0;
        std::uint64_t batch = 0;
    };
    std::vector<Contents> contents_;                               // by slab
    std::vector<std::pair<std::uint32_t, SlabTicket>> delivered_;  // with the group
    std::array<std::uint64_t, kGroups> noted_{};                   // counted steps, by group
    std::optional<std::uint32_t> late_copy_;
    std::uint64_t digest_ = 0;
};

}  // namespace offramp::simulation
