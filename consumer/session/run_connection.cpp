#include "consumer/session/run_connection.hpp"

#include <spdlog/spdlog.h>

#include "common/base/error.hpp"
#include "common/shm/shared_region.hpp"
#include "common/transport/endpoint.hpp"
#include "common/wire/ledger_layout.hpp"

namespace offramp {

void RunConnection::forget() {
    port_.reset();
    producer_.reset();
}

std::optional<ProducerSearch::Found> RunConnection::look() {
    const auto endpoint = Endpoint::read(run_dir_);
    if (!endpoint) return std::nullopt;
    if (is_other_run(*endpoint))
        throw Error(ErrorKind::NoSuchRun,
                    "the run directory '" + run_dir_ + "' now belongs to another run, '" + endpoint->names.run_id + "'",
                    "The run that this consumer was started for is over; start it again");
    if (endpoint->epoch <= epoch_) return std::nullopt;
    // The ledger has a later epoch than the file while yet another producer recovers the run.
    const LedgerView::Producer producer = ledger_.producer();
    if (producer.pid != endpoint->producer_pid) return std::nullopt;
    auto watched = watch_process(producer.pid, producer.start_time);
    if (!watched) return std::nullopt;
    port_ = make_zmq_consumer_port(*endpoint);
    producer_ = std::move(watched);
    epoch_ = endpoint->epoch;
    return Found{port_.get(), producer_->died.get()};
}

RunLiveness RunConnection::liveness() const {
    try {
        const auto endpoint = Endpoint::read(run_dir_);
        if (!endpoint) return has_memory() ? RunLiveness::Closed : RunLiveness::Over;
        if (is_other_run(*endpoint)) return has_memory() ? RunLiveness::Replaced : RunLiveness::OverAndReplaced;
        return endpoint->epoch > epoch_ ? RunLiveness::TakenOver : RunLiveness::Open;
    } catch (const Error& problem) {
        spdlog::debug("the run's endpoint could not be read: {}", problem.what());
        return RunLiveness::Open;
    }
}

bool RunConnection::is_other_run(const Endpoint& endpoint) const {
    return endpoint.names.run_id != names_.run_id || endpoint.names.nonce != names_.nonce;
}

bool RunConnection::has_memory() const {
    try {
        SharedRegionView::attach(names_.ledger(), SharedRegionView::Access::ReadOnly, sizeof(LedgerHeader));
        return true;
    } catch (const Error& problem) {
        return problem.kind() != ErrorKind::NoSuchRun;
    }
}

}  // namespace offramp
