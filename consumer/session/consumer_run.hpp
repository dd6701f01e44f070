#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/process_watch.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "consumer/session/producer_loss.hpp"
#include "consumer/session/run_search.hpp"
#include "consumer/session/run_views.hpp"

namespace offramp {

// The options of a consumer. The defaults suit a consumer without a launcher.
struct ConsumerOptions {
    std::uint32_t window = 0;  // slabs held at a time; 0: chosen by slab size
    std::uint64_t work = 0;    // identifies how the consumer processes slabs (Hello's `work`)
    // how long to wait for another producer after one died; 0: the consumer ends with its producer
    std::chrono::nanoseconds producer_wait{};
    // every filling has new memory: it is mapped per slab, and is lost with the producer that filled it
    bool memory_per_slab = false;
    WatchedFds fds{};  // `producer` is filled in by consume_run()
};

// Attaches one consumer to a run and serves it to the end. The processor is made once the run has admitted this
// consumer. A refused consumer creates no processor, changes nothing, and sweeps the run if it is its last process.
// Call sweep_run() once consume_run() has returned: the run's last process sweeps it.
//
// Borrows: what `make` returns, the descriptors. Thread: the caller's, for the whole time. Blocks: for the length of
// the run. Without a launcher, a run that ends before this consumer has joined is an orderly end. Errors: Error, as
// ConsumerLoop; NoSuchRun when the run's memory is gone although its producer lives.
ConsumerLoop::End consume_run(const Endpoint& endpoint, const ConsumerOptions& options, const MakeOnEntry& make);

// Connects to each producer of a run through the run directory's endpoint file. Each producer has a later epoch, and
// writes its identity to the ledger before it publishes its endpoint. Owns: port and pidfd. Borrows: the ledger.
// Thread: one. Blocks, errors: see ProducerSearch.
class RunConnection final : public ProducerSearch {
  public:
    RunConnection(std::string run_dir, const RunNames& names, const LedgerView& ledger)
        : run_dir_(std::move(run_dir)), names_(names), ledger_(ledger) {}

    void forget() override;
    std::optional<Found> look() override;
    // Liveness of the last producer found. If the run directory is unreadable, the run counts as open.
    RunLiveness liveness() const;

  private:
    bool is_other_run(const Endpoint& endpoint) const;
    bool has_memory() const;

    std::string run_dir_;
    RunNames names_;
    LedgerView ledger_;
    std::uint32_t epoch_ = 0;  // of the last producer found
    std::optional<WatchedProcess> producer_;
    std::unique_ptr<ConsumerPort> port_;
};

}  // namespace offramp
