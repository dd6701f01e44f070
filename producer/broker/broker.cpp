#include "producer/broker/broker.hpp"

#include <algorithm>
#include <utility>

namespace offramp {

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const ConsumerCell> cells, SlabMemory memory, BrokerOptions options)
    : state_(ledger, port, exchange, watch, clock, cells, std::move(memory), std::move(options)),
      farewell_(state_),
      intake_(state_, farewell_),
      shortage_(state_),
      spill_(state_, farewell_),
      dead_letters_(state_),
      leases_(state_, farewell_),
      recovery_(state_, farewell_),
      admission_(state_, recovery_, farewell_),
      dispatcher_(state_, dead_letters_, spill_, farewell_) {}

void Broker::adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> given_up,
                   std::span<const SpilledSlab> spilled) {
    recovery_.adopt(in_flight, given_up);
    for (const PublishedSlab& slab : given_up) dead_letters_.see_to(slab.slab);
    spill_.adopt(spilled);
    recovery_.expect_consumers_back();
}

void Broker::step() {
    intake_.take_published();
    dispatcher_.take_releases();
    admission_.take_messages();
    if (leases_.sees_deaths()) {
        // What the dead said last may have come in since: a release or a goodbye still counts.
        dispatcher_.take_releases();
        admission_.take_messages();
        leases_.bury_the_dead();
    }
    if (const auto now = leases_.begin_look()) {
        shortage_.watch(*now);
        leases_.look_at_leases(*now);
    }
    state_.peers.remove_gone();
    dead_letters_.free_what_is_set_aside();
    spill_.take_outcome();
    if (intake_.grant_slabs()) spill_.egress_has_one();
    dispatcher_.hand_out();
    spill_.set_to_work();
    dead_letters_.set_next_aside();
    dispatcher_.acknowledge_releases();
    farewell_.see_to_the_end(spill_.empty());
}

const std::vector<int>& Broker::wait_fds() { return state_.peers.wait_fds(state_.exchange.wake_fd()); }

std::chrono::nanoseconds Broker::patience() {
    if (state_.exchange.listen()) return {};
    const TimePoint now = state_.clock.now();
    std::chrono::nanoseconds longest = LeaseMonitor::kLookInterval;
    if (spill_.is_wanted()) longest = std::min(longest, Spill::kPatience);
    return dispatcher_.patience(now, longest);
}

BrokerReport Broker::report() const {
    BrokerReport report = state_.books;
    report.ended = ended();
    for (std::uint32_t slab = 0; slab < state_.ledger.slab_count(); ++slab) {
        const SlabState state = state_.ledger.word(slab).state;
        if (state == SlabState::Ready || state == SlabState::Leased)
            report.in_flight.add(state_.fillings[slab].published);
    }
    shortage_.describe(report);
    std::sort(report.consumers.begin(), report.consumers.end(),
              [](const ConsumerReport& a, const ConsumerReport& b) { return a.session < b.session; });
    return report;
}

}  // namespace offramp
