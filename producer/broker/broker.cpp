#include "producer/broker/broker.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/error.hpp"
#include "producer/broker/run_records.hpp"

namespace offramp {

// --- intake ---

void Intake::take_published(const std::function<void(PublishedSlab&)>& number) {
    SlabExchange::Taken news = exchange_.take();
    for (const std::uint32_t slab : news.abandoned)
        for (const auto& group : groups_) group->ledger().abandon(slab);
    publish(std::move(news.published), number);
    if (news.finished)
        for (const auto& group : groups_) group->egress_finished();
}

// The first group's count decides: the others follow, after a death in between through the next producer
// (producer/recovery/run_recovery.hpp).
void Intake::publish(std::vector<PublishedSlab> slabs, const std::function<void(PublishedSlab&)>& number) {
    for (PublishedSlab& published : slabs) {
        if (number) number(published);
        for (const auto& group : std::span(groups_).first(groups_.size() - 1)) group->take(published);
        groups_.back()->take(std::move(published));
    }
}

bool Intake::grant_slabs() {
    const std::uint32_t wanted = exchange_.grants_wanted(groups_.front()->ledger().slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = acquire();
        if (!slab) break;
        const GroupBroker& first = *groups_.front();
        grants_.emplace_back(*slab, first.ledger().word(*slab).generation, first.memory().bytes_of(*slab));
    }
    exchange_.grant(grants_);
    // A pool that is still being made is not a shortage.
    is_short_ = grants_.size() < wanted && !is_any_free();
    return !grants_.empty();
}

std::optional<std::uint32_t> Intake::acquire() {
    GroupBroker& fewest = fewest_free();
    if (groups_.size() == 1) return fewest.ledger().acquire(fewest.memory().usable);
    const auto slab = fewest.ledger().acquire(
        [&](std::uint32_t one) { return fewest.memory().usable(one) && free_in_others(one, fewest); });
    if (slab)
        for (const auto& group : groups_)
            if (group.get() != &fewest) group->ledger().acquire_also(*slab);
    return slab;
}

bool Intake::free_in_others(std::uint32_t slab, const GroupBroker& apart) const {
    return std::ranges::all_of(groups_, [&](const auto& group) {
        return group.get() == &apart || group->ledger().word(slab).state == SlabState::Free;
    });
}

bool Intake::can_be_freed(std::uint32_t slab) const {
    return std::ranges::all_of(groups_, [&](const auto& group) {
        return group->ledger().word(slab).state == SlabState::Free || group->may_spill(slab) || group->may_drop(slab);
    });
}

OtherGroups Intake::others(std::size_t group) {
    return {.egress_is_short = [this] { return is_short_ && !is_any_free(); },
            .can_be_freed = [this](std::uint32_t slab) { return can_be_freed(slab); },
            .have_it_free = [this, group](std::uint32_t slab) { return free_in_others(slab, *groups_[group]); },
            .pass_over =
                [this, group](std::uint32_t slab) {
                    for (std::size_t i = 0; i < groups_.size(); ++i)
                        if (i != group) groups_[i]->ledger().pass_over(slab);
                }};
}

// The group with the fewest free slabs limits the others.
GroupBroker& Intake::fewest_free() const {
    return **std::ranges::min_element(groups_, {},
                                      [](const auto& group) { return group->ledger().count(SlabState::Free); });
}

bool Intake::are_short_together() const { return fewest_free().ledger().count(SlabState::Free) > 0 && !is_any_free(); }

bool Intake::is_any_free() const {
    const GroupBroker& fewest = fewest_free();
    return groups_.size() == 1
               ? fewest.ledger().count(SlabState::Free) > 0
               : fewest.ledger().any_free([&](std::uint32_t slab) { return free_in_others(slab, fewest); });
}

void Intake::drop_for_egress() {
    const auto is_optional = [](const GroupBroker& group) { return group.is_optional(); };
    const auto any = [](const GroupBroker&) { return true; };
    while (is_short_ && !is_any_free() &&
           (drop_oldest(is_optional) || (exchange_.wants_oldest_dropped() && drop_oldest(any))))
        grant_slabs();
}

// Makes the oldest slab free that waits in groups which lose it and is free in all others: a drop that frees none would
// only lose outputs.
bool Intake::drop_oldest(const std::function<bool(const GroupBroker&)>& loses) {
    const auto would_be_free = [&](std::uint32_t slab) {
        return std::ranges::all_of(groups_, [&](const auto& group) {
            return group->ledger().word(slab).state == SlabState::Free || (loses(*group) && group->may_drop(slab));
        });
    };
    const GroupBroker* its = nullptr;
    std::uint32_t oldest = 0;
    for (const auto& group : groups_) {
        const auto slab = loses(*group) && group->drops_oldest() ? group->oldest_waiting(would_be_free) : std::nullopt;
        if (!slab || (its != nullptr && group->published(*slab).items_through >= its->published(oldest).items_through))
            continue;
        its = group.get();
        oldest = *slab;
    }
    if (its == nullptr) return false;
    for (const auto& group : groups_)
        if (loses(*group) && group->may_drop(oldest)) group->drop(oldest);
    return true;
}

void Intake::report_shortage() {
    if (is_short_) exchange_.note_shortage();
}

void Intake::withdraw() {
    for (const std::uint32_t slab : exchange_.withdraw_grants())
        for (const auto& group : groups_) group->ledger().abandon(slab);
}

// --- whole slabs ---

void WholeSlabs::mark_lost(const PublishedSlab& published) {
    // A group that reads a filling back from the disk may have it in another slab than the others.
    const bool moved = std::ranges::any_of(groups_, [](const auto& group) { return group->spills(); });
    for (const auto& group : groups_) group->mark_lost(published, moved);
}

void WholeSlabs::adopt() {
    SlabTotals in_flight, dropped;
    for (const auto& group : groups_) {
        group->visit_open([&](const PublishedSlab& published, bool lost) {
            last_filling_ = std::max(last_filling_, published.filling);
            if (group->is_optional()) return;
            Fate& fate = fates_[published.filling];
            fate.lost = lost;
            if (fate.open++ == 0 && !lost) in_flight += published.totals();
        });
        if (group->is_optional()) continue;
        totals_.published = group->report().published;
        totals_.dead_lettered += group->counted().first_dead_letters;
        dropped += group->counted().first_dropped;
    }
    totals_.published -= dropped;
    totals_.completed = totals_.published;
    totals_.completed -= totals_.dead_lettered;
    totals_.completed -= in_flight;
}

void WholeSlabs::note_published(PublishedSlab& published) {
    published.filling = ++last_filling_;
    fates_[published.filling] = {.open = static_cast<std::uint8_t>(std::ranges::count_if(
                                     groups_, [](const auto& group) { return !group->is_optional(); }))};
    totals_.published += published.totals();
}

bool WholeSlabs::note_completed(const PublishedSlab& published, std::uint64_t now_ns, std::uint64_t warmup_batches) {
    const Fate fate = close(published.filling);
    if (fate.open > 0 || fate.lost) return false;
    totals_.complete(published.totals(), now_ns, warmup_batches);
    return true;
}

WholeSlabs::Fate WholeSlabs::close(std::uint64_t filling) {
    const auto found = fates_.find(filling);
    expect(found != fates_.end(), "each required group completes a slab once");
    --found->second.open;
    const Fate fate = found->second;
    if (fate.open == 0) fates_.erase(found);
    return fate;
}

bool WholeSlabs::note_lost(const PublishedSlab& published, CountedStep step) {
    mark_lost(published);
    const bool first = !std::exchange(fates_.at(published.filling).lost, true);
    close(published.filling);
    if (!first) return false;
    (step == CountedStep::Drop ? totals_.dropped : totals_.dead_lettered) += published.totals();
    return true;
}

// The least finished of the groups' states.
SlabState WholeSlabs::state_of(std::uint32_t slab) const {
    for (const SlabState state :
         {SlabState::Filling, SlabState::Leased, SlabState::Ready, SlabState::DeadLettered, SlabState::Retired})
        for (const auto& group : groups_)
            if (group->ledger().word(slab).state == state) return state;
    return SlabState::Free;
}

BrokerReport WholeSlabs::report(std::span<const BrokerReport> groups) const {
    BrokerReport whole = totals_;
    whole.in_flight = whole.published;
    whole.in_flight -= whole.completed;
    whole.in_flight -= whole.dead_lettered;
    whole.in_flight -= whole.dropped;
    whole.dead_letters = groups.front().dead_letters;
    for (std::uint32_t slab = 0; slab < groups_.front()->ledger().slab_count(); ++slab) {
        whole.slab_states.push_back(state_of(slab));
        ++whole.slabs[static_cast<std::size_t>(whole.slab_states.back())];
    }
    bool of_optional = false;  // the shortage
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const BrokerReport& group = groups[i];
        whole.groups.push_back(groups_[i]->group_report(group));
        whole.redelivered += group.redelivered;
        whole.deliveries += group.deliveries;
        for (std::size_t outcome = 0; outcome < kReleaseOutcomes; ++outcome)
            whole.releases[outcome] += group.releases[outcome];
        whole.repeated_releases += group.repeated_releases;
        for (const auto& [reason, times] : group.refused) whole.refused[reason] += times;
        whole.queue += group.queue;
        whole.process += group.process;
        whole.slab_failures += group.slab_failures;
        whole.consumers.insert(whole.consumers.end(), group.consumers.begin(), group.consumers.end());
        if (!group.last_failure.empty()) whole.last_failure = group.last_failure;
        whole.payloads_lost += group.payloads_lost;
        whole.visibility_timeouts += group.visibility_timeouts;
        whole.stalled_killed += group.stalled_killed;
        whole.ever_spilled += group.ever_spilled;
        if (!group.spill_error.empty()) whole.spill_error = group.spill_error;
        const bool counts_more = of_optional && !groups_[i]->is_optional();
        if (!group.shortage_reason.empty() && (whole.shortage_reason.empty() || counts_more)) {
            of_optional = groups_[i]->is_optional();
            whole.shortage_reason = group.shortage_reason;
            whole.shortage = group.shortage;
        }
    }
    return whole;
}

// --- the broker ---

Broker::Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
               std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options)
    : Broker({BrokerGroup{ledger, port, heartbeats, std::move(memory), std::move(options)}}, exchange, watch, clock) {}

Broker::Broker(std::vector<BrokerGroup> groups, SlabExchange& exchange, PeerWatch& watch, const Clock& clock)
    : exchange_(exchange), clock_(clock), intake_(groups_, exchange) {
    const bool alone = groups.front().options.group.empty();
    const auto dead_letters = std::make_shared<DeadLetterList>();
    for (BrokerGroup& group : groups) {
        if (!alone) report_to_whole(group.options);
        expect(!group.options.spill || !group.options.policy.optional, "an optional group does not spill");
        if (!alone && group.options.spill) group.options.others = intake_.others(groups_.size());
        groups_.push_back(std::make_unique<GroupBroker>(std::move(group), exchange, watch, clock, dead_letters));
    }
    if (alone) return;
    whole_.emplace(groups_);
    number_ = [this](PublishedSlab& published) { whole_->note_published(published); };
}

// Each of several groups reports its completed and lost slabs to WholeSlabs, which informs the run.
void Broker::report_to_whole(BrokerOptions& options) {
    const auto run_completed = std::exchange(options.on_completed, {});
    const auto run_lost = std::exchange(options.on_dead_letter, {});
    if (options.policy.optional) return;
    options.on_completed = [this, run_completed, warmup = options.warmup_batches](const PublishedSlab& published) {
        if (whole_->note_completed(published, to_ns(clock_.now()), warmup) && run_completed) run_completed(published);
    };
    options.before_loss = [this, run_lost](const PublishedSlab& published, CountedStep step) {
        if (whole_->note_lost(published, step) && step == CountedStep::DeadLetter && run_lost) run_lost(published);
    };
}

void Broker::adopt(std::span<const AdoptedSlabs> groups) {
    expect(groups.size() == groups_.size(), "each group is adopted");
    for (std::size_t i = 0; i < groups.size(); ++i) groups_[i]->adopt(groups[i]);
    if (whole_) whole_->adopt();
}

void Broker::adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters,
                   std::span<const SpilledSlab> spilled) {
    const AdoptedSlabs adopted{in_flight, dead_letters, spilled};
    adopt(std::span(&adopted, 1));
}

void Broker::step() {
    intake_.take_published(number_);
    for (const auto& group : groups_) group->take_messages();
    if (intake_.grant_slabs())
        for (const auto& group : groups_) group->note_egress_served();
    intake_.report_shortage();
    for (const auto& group : groups_) group->hand_out();
    intake_.drop_for_egress();
    if (groups_.front()->approaching_end()) intake_.withdraw();
    for (const auto& group : groups_) group->finish();
    if (std::ranges::all_of(groups_,
                            [](const auto& group) { return group->is_optional() || group->has_begun_to_end(); }))
        for (const auto& group : groups_)
            if (group->is_optional()) group->hurry();
}

bool Broker::dispatch_inline() {
    if (exchange_.wants_oldest_dropped()) return false;
    if (std::ranges::any_of(groups_, [](const auto& group) { return group->is_busy_otherwise(); })) return false;
    intake_.take_slabs(number_);
    if (intake_.grant_slabs())
        for (const auto& group : groups_) group->note_egress_served();
    for (const auto& group : groups_) group->hand_out_new();
    intake_.drop_for_egress();
    // Messages may be waiting, seen while sending or not at all. A release among them frees a slab.
    if (std::ranges::any_of(groups_, [](const auto& group) { return group->has_more_to_do(); })) return false;
    intake_.report_shortage();
    return !exchange_.listen();
}

const std::vector<int>& Broker::wait_fds() {
    if (groups_.size() == 1) return groups_.front()->wait_fds();
    wait_fds_.assign(1, exchange_.wake_fd());
    for (const auto& group : groups_) {
        const std::vector<int>& fds = group->wait_fds();
        wait_fds_.insert(wait_fds_.end(), fds.begin() + 1, fds.end());
    }
    return wait_fds_;
}

std::chrono::nanoseconds Broker::patience() {
    if (exchange_.listen()) return {};
    const TimePoint now = clock_.now();
    auto longest = groups_.front()->patience(now);
    for (const auto& group : groups_) longest = std::min(longest, group->patience(now));
    return longest;
}

void Broker::abort() {
    for (const auto& group : groups_) group->abort();
}

bool Broker::ended() const {
    return std::ranges::all_of(groups_, [](const auto& group) { return group->ended(); });
}

BrokerReport Broker::report() const {
    if (!whole_) return groups_.front()->report();
    std::vector<BrokerReport> groups;
    groups.reserve(groups_.size());
    for (const auto& group : groups_) groups.push_back(group->report(intake_.are_short_together()));
    BrokerReport report = whole_->report(groups);
    report.ended = ended();
    return report;
}

}  // namespace offramp
