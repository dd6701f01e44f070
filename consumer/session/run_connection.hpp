#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/process_watch.hpp"
#include "common/shm/run_objects.hpp"
#include "common/transport/endpoint.hpp"
#include "consumer/session/producer_search.hpp"
#include "consumer/session/run_views.hpp"

namespace offramp {

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
