#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "consumer/session/consumer_session.hpp"
#include "consumer/session/producer_loss.hpp"
#include "consumer/session/read_loan.hpp"
#include "tests/simulation/simulated_network.hpp"
#include "tests/simulation/simulated_run.hpp"

namespace offramp::simulation {

// A consumer process: the real session, release log, heartbeat, read loan and steps after a producer's death, driven in
// smaller steps than ConsumerLoop's, so that others run while it reads a slab.
class SimulatedConsumer final : public ProducerSearch {
  public:
    SimulatedConsumer(SimulatedRun& run, std::uint32_t group, pid_t pid);

    // --- one step each, in the order of ConsumerLoop::turn() ---
    // Messages and deaths. True once the process has ended.
    bool turn();
    void take();
    void progress();
    void finish(std::uint32_t how);
    void leave();

    // --- ProducerSearch ---
    void forget() override;
    std::optional<Found> look() override;

    // What it holds is untouched. Errors: Violation.
    void check() const;
    // Counts its death against the slab that its heartbeat names.
    void blame() const;
    std::optional<std::uint32_t> index() const;
    bool reads(std::uint32_t slab) const { return reading_ && ticket_.slab == slab; }
    std::uint32_t group() const { return group_; }
    bool settled() const { return session_.settled(); }
    pid_t pid() const { return pid_; }
    std::string name() const { return "consumer " + std::to_string(pid_); }
    std::string describe() const;
    const std::shared_ptr<Link>& link() const { return link_; }
    TimePoint last_sign() const { return last_sign_; }

    bool stopped = false;
    Fuse fuse;

  private:
    bool end_if_over();
    SlabMappings& mappings() const { return run_.mappings(group_); }
    GroupShare& share() const { return run_.share(group_, batch_); }
    void begin_session();
    void note_sign() { last_sign_ = run_.clock().now(); }

    SimulatedRun& run_;
    const std::uint32_t group_;
    const pid_t pid_;
    std::uint32_t met_epoch_;
    std::shared_ptr<Link> link_;  // null between two producers
    std::unique_ptr<SimulatedPort> port_;
    ConsumerSession session_;
    ProducerLoss loss_;
    bool death_noted_ = false;
    bool asked_to_end_ = false;
    std::optional<Heartbeat> heartbeat_;
    SlabContents contents_;
    SlabTicket ticket_{};
    std::uint64_t batch_ = 0;
    bool reading_ = false;
    std::optional<ReadLoan> loan_;
    TimePoint last_sign_;
};

}  // namespace offramp::simulation
