#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.hpp"
#include "common/transport/endpoint.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_thread.hpp"
#include "producer/pool/run_memory.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/pool/slab_pool.hpp"
#include "tests/bench/messages/counting_port.hpp"
#include "tests/support/held_run.hpp"

namespace offramp {

// A producer without model and device: pool, ledger, exchange and a broker on its thread, over real sockets in a
// temporary folder. Owns: all of these, and removes them. Thread: one; feed() from one other.
class BenchRun {
  public:
    // `work`: the settings that consumers announce (SlabWork). `run_dir`: an existing folder, which stays; empty: a
    // temporary one.
    BenchRun(std::uint32_t slabs, std::size_t payload_bytes, std::uint64_t work, const std::string& run_dir = {});
    ~BenchRun();

    const std::string& run_dir() const { return run_dir_; }
    // Takes one free slab, writes its header and publishes it: what the egress does without the copy. False after stop.
    bool feed();
    // Time at which feed() filled the last slab.
    std::uint64_t filled_at_ns() const { return filled_at_ns_; }
    void finish() { exchange_->finish(); }
    void stop() { exchange_->stop(); }
    // Returns when every consumer has disconnected.
    void join() { broker_->join(); }
    BrokerReport report() const { return broker_->report(); }
    const MessageCounts& messages() const { return counts_; }
    const RunNames& names() const { return endpoint_.names; }
    std::uint32_t epoch() const { return endpoint_.epoch; }
    std::size_t shm_bytes() const { return plan_.slab_count * layout_.slab_bytes; }

  private:
    const bool owns_run_dir_;
    std::string run_dir_;
    Endpoint endpoint_;
    HeldRun held_run_;
    SlabLayout layout_;
    SpanPlan plan_;
    std::shared_ptr<SlabExchange> exchange_;
    RunMemory memory_;
    SlabLedger ledger_;
    PidfdWatch watch_;
    SteadyClock clock_;
    SlabPool pool_;
    MessageCounts counts_;
    std::unique_ptr<BrokerThread> broker_;
    std::uint64_t next_batch_ = 0;
    std::uint64_t filled_at_ns_ = 0;
};

}  // namespace offramp
