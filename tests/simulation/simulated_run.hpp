#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "producer/broker/broker.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/simulated_machine.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/support/manual_clock.hpp"

namespace offramp::simulation {

inline constexpr std::chrono::nanoseconds kVisibilityTimeout = std::chrono::seconds(2);

// What became of each batch.
struct Batch {
    std::uint32_t commits = 0;  // by any consumer
    std::uint32_t blame = 0;    // failures that may count against it
    bool rejected = false;
    bool published = false;
    bool completed = false;
    bool dead_letter = false;
    bool dropped = false;
};

// How often the interesting things happened, over all histories.
struct Counts {
    std::uint64_t histories = 0, steps = 0, published = 0, completed = 0, dead_letters = 0, dropped = 0;
    std::uint64_t consumer_kills = 0, consumer_fuses = 0, producer_kills = 0, producer_fuses = 0, recoveries = 0;
    std::uint64_t returned_consumers = 0, stalled_kills = 0, redeliveries = 0, aborts = 0;
};

class SimulatedConsumer;

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
    std::shared_ptr<Link> connect(pid_t pid);
    SlabMappings& mappings() { return shared_.mappings(); }
    ManualClock& clock() { return clock_; }
    Twin twin() const { return twin_; }
    const Setup& setup() const { return setup_; }
    Counts& counts() { return counts_; }
    Batch& batch(std::uint64_t number) { return batches_.at(number); }
    // The batch of a filling; nothing if the slab has been filled again since.
    std::optional<std::uint64_t> batch_in(std::uint32_t slab, std::uint64_t generation) const;
    // The payload of a slab is that of its batch.
    void check_bytes(std::uint32_t slab, std::uint64_t batch, const std::string& reader) const;
    void note_delivery(const SlabTicket& ticket);
    void say(const std::string& what) const;
    bool traces() const { return trace_; }

  private:
    struct Producer;
    struct Filling {
        WriteLoan loan;
        std::uint64_t batch;
        PublishedSlab published;
    };

    void begin_producer(std::unique_ptr<RunRecords> records, const Predecessor* predecessor);
    void as_producer(const std::function<void()>& work);
    void as_consumer(SimulatedConsumer& consumer, const std::function<void()>& work);
    bool may_fill() const;
    void fill();
    void publish();
    void abandon_newest();
    void drop();
    void end_input();
    void step_broker();
    void kill_producer();
    void recover();
    void join();
    void end_consumer(SimulatedConsumer& consumer, std::uint32_t how);
    void take_kills();
    void notice_death(std::uint32_t who);
    void deliver(std::uint32_t who, std::uint32_t how);
    void watch(std::chrono::nanoseconds time);
    SimulatedConsumer* living(std::uint32_t who, bool also_stopped = false);
    void on_completed(std::uint64_t batch);
    void on_dead_letter(std::uint64_t batch);

    void check();
    void check_conservation();
    void check_end();
    void fair_round();

    SharedObjects& shared_;
    const Setup setup_;
    const Twin twin_;
    Counts& counts_;
    const bool trace_;
    ManualClock clock_;
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
    std::vector<std::pair<std::uint32_t, std::uint64_t>> left_;  // slab and generation, given to the exchange
    std::uint64_t next_batch_ = 0;
    std::uint32_t dropped_before_ = 0;
    bool input_ended_ = false;
    bool aborting_ = false;
    bool closed_ = false;
    bool closed_early_ = false;
    std::optional<TimePoint> fair_since_;
    std::vector<Batch> batches_;
    struct Contents {
        std::uint64_t generation = 0;
        std::uint64_t batch = 0;
    };
    std::vector<Contents> contents_;  // by slab
    std::vector<SlabTicket> delivered_;
    std::optional<std::uint32_t> late_copy_;
    std::uint64_t digest_ = 0;
};

}  // namespace offramp::simulation
