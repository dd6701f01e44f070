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

// Connects to a run's producer by the run directory's endpoint file, as often as there is a new one: each has a later
// epoch, and names itself in the ledger before it publishes its endpoint. Owns: port and pidfd. Borrows: the ledger.
// Thread: one. Blocks, errors: see ProducerSearch.
class RunConnection final : public ProducerSearch {
  public:
    RunConnection(std::string run_dir, const RunNames& names, const LedgerView& ledger)
        : run_dir_(std::move(run_dir)), names_(names), ledger_(ledger) {}

    void forget() override;
    std::optional<Found> look() override;
    // Liveness of the last found producer. An unreadable run directory proves nothing: then the run is open.
    RunLiveness liveness() const;

  private:
    bool is_other_run(const Endpoint& endpoint) const;
    bool has_memory() const;

    std::string run_dir_;
    RunNames names_;
    LedgerView ledger_;
    std::uint32_t epoch_ = 0;  // of the producer that was found last
    std::optional<WatchedProcess> producer_;
    std::unique_ptr<ConsumerPort> port_;
};

}  // namespace offramp
