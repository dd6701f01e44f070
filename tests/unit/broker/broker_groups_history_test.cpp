// Random histories of a broker with groups of consumers that die, fail, return and stall, and whose waiting slabs may
// go to the disk: every group gets every slab, and a slab is filled only while no group has it.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/scratch_folder.hpp"
#include "tests/unit/broker/groups_fixture.hpp"

namespace offramp {
namespace {

struct GroupHolding {
    GroupConsumer* consumer;
    SlabTicket ticket;
};

enum class Egress { Fills, Finished };

struct GroupConsumers {
    std::size_t group;
    std::vector<std::unique_ptr<GroupConsumer>> living, dead;
};

std::vector<GroupHolding> holdings_of(const std::vector<std::unique_ptr<GroupConsumer>>& living) {
    std::vector<GroupHolding> all;
    for (const auto& consumer : living) {
        consumer->receive();
        for (const SlabTicket& ticket : consumer->tickets) all.push_back({consumer.get(), ticket});
    }
    return all;
}

// By its index: a shorter history has other consumers.
GroupHolding one_of(const std::vector<GroupHolding>& held) {
    return held[*rc::gen::inRange(std::size_t{0}, held.size())];
}

void finish(const GroupHolding& holding, ReleaseKind kind) {
    std::erase(holding.consumer->tickets, holding.ticket);
    holding.consumer->release(holding.ticket, kind);
}

void check_slab(GroupsFixture& f, std::uint32_t slab) {
    std::vector<SlabWord> in_use, free;
    for (const auto& group : f.groups) {
        const SlabWord word = group->ledger.word(slab);
        (word.state == SlabState::Free ? free : in_use).push_back(word);
        if (word.state == SlabState::Free || word.state == SlabState::Filling)
            RC_ASSERT(group->ledger.holders(slab).empty());
    }
    const auto is_filling = [](const SlabWord& word) { return word.state == SlabState::Filling; };
    if (std::ranges::any_of(in_use, is_filling)) RC_ASSERT(free.empty() && std::ranges::all_of(in_use, is_filling));
    const std::uint64_t generation = in_use.empty() ? free.front().generation - 1 : in_use.front().generation;
    for (const SlabWord& word : in_use) RC_ASSERT(word.generation == generation);
    for (const SlabWord& word : free) RC_ASSERT(word.generation == generation + 1);
}

void check(GroupsFixture& f, const std::vector<GroupConsumers>& consumers, std::uint64_t batches,
           Egress egress = Egress::Fills) {
    bool any_filling = false;
    bool any_free = false;
    for (std::uint32_t slab = 0; slab < f[0].ledger.slab_count(); ++slab) {
        check_slab(f, slab);
        any_filling = any_filling || f[0].state(slab) == SlabState::Filling;
        any_free = any_free || std::ranges::all_of(f.groups, [slab](const auto& group) {
                       return group->state(slab) == SlabState::Free;
                   });
    }
    RC_ASSERT(any_filling || !any_free || egress == Egress::Finished);  // the egress has one if there is one
    for (const GroupConsumers& of : consumers)
        for (const GroupHolding& holding : holdings_of(of.living))
            RC_ASSERT(f[of.group].ledger.word(holding.ticket.slab).generation == holding.ticket.generation);
    const BrokerReport report = f.report();
    RC_ASSERT(report.conserved());
    RC_ASSERT(report.published.slabs == batches);
    RC_ASSERT(report.completed.slabs == f.completed.size());
    RC_ASSERT(report.dead_lettered.slabs == f.lost.size());
    RC_ASSERT(report.dropped.slabs == f.listed.size());
    for (std::size_t i = 0; i < f.groups.size(); ++i) {
        const GroupReport& group = report.groups[i];
        RC_ASSERT(group.published.slabs == batches);
        RC_ASSERT(group.completed.slabs + group.dead_lettered.slabs + group.dropped.slabs + group.in_flight.slabs +
                      group.spilled.slabs ==
                  batches);
        RC_ASSERT(f.of[i].policy.drops_oldest() || group.dropped.slabs == 0U);
        const ProgressRecord totals = f[i].progress.totals();
        RC_ASSERT(totals.published.slabs == batches - group.dropped.slabs);
        RC_ASSERT(totals.completed.slabs == group.completed.slabs);
        RC_ASSERT(totals.dead_letters.slabs == group.dead_lettered.slabs);
    }
    std::set<std::uint64_t> ended(f.completed.begin(), f.completed.end());
    ended.insert(f.lost.begin(), f.lost.end());
    for (const auto& [group, batch] : f.listed) ended.insert(batch);
    // Each batch once: completed, lost or dropped.
    RC_ASSERT(ended.size() == f.completed.size() + f.lost.size() + f.listed.size());
}

// A slab waits in groups that drop, and is free in all others.
bool can_drop(GroupsFixture& f) {
    for (std::uint32_t slab = 0; slab < f[0].ledger.slab_count(); ++slab) {
        bool drops = true;
        for (std::size_t i = 0; i < f.groups.size(); ++i)
            drops = drops && (f[i].state(slab) == SlabState::Free ||
                              (f.of[i].policy.drops_oldest() && f[i].state(slab) == SlabState::Ready &&
                               f[i].ledger.holders(slab).empty()));
        if (drops) return true;
    }
    return false;
}

GroupPolicy any_policy() {
    GroupPolicy policy{.when_full = *rc::gen::element(WhenFull::Wait, WhenFull::DropOldest, WhenFull::Spill)};
    if (policy.when_full != WhenFull::Spill) policy.optional = *rc::gen::arbitrary<bool>();
    return policy;
}

RC_GTEST_PROP(BrokerGroupHistories, SkipNoGroupAndFillNoSlabInUse, ()) {
    std::vector<ConsumerGroup> of{{"a", any_policy()}, {"b", any_policy()}};
    of.front().policy.optional = false;  // one is required
    if (*rc::gen::arbitrary<bool>()) of.push_back({"c", any_policy()});
    const test::ScratchFolder folder(test::ScratchFolder::On::Memory);
    AwaitedStores stores(of.size());
    for (std::size_t group = 0; group < of.size(); ++group)
        if (of[group].policy.when_full == WhenFull::Spill) stores.add(group, folder.path() + "/" + of[group].name);
    GroupsFixture f(*rc::gen::inRange(1U, 5U), of, {.max_failures = *rc::gen::inRange(1U, 4U)}, stores);
    f.watch.kill_refusal = EPERM;  // stalled consumers of optional groups live on
    std::vector<GroupConsumers> consumers;
    for (std::size_t group = 0; group < of.size(); ++group) consumers.push_back({group, {}, {}});
    pid_t next_pid = 100;
    std::uint64_t batches = 0;
    const auto add_to = [&](GroupConsumers& into) {
        into.living.push_back(std::make_unique<GroupConsumer>(f, into.group, next_pid++, *rc::gen::inRange(1U, 4U)));
        RC_ASSERT(into.living.back()->welcome.has_value());
    };
    for (GroupConsumers& each : consumers)
        if (*rc::gen::arbitrary<bool>()) add_to(each);

    for (int step = 0; step < 120; ++step) {
        GroupConsumers& some = consumers[*rc::gen::inRange(std::size_t{0}, consumers.size())];
        const auto held = holdings_of(some.living);
        switch (*rc::gen::inRange(0, 15)) {
            case 0:
                if (some.living.size() < 4) add_to(some);
                break;
            case 1:
            case 2:
            case 12:
                if (f.can_fill()) f.publish(batches++);
                break;
            case 3:
                if (f.can_fill()) f.exchange->wait_for_slab().reset();  // not filled
                break;
            case 4:
            case 5:
            case 6:
                if (!held.empty()) finish(one_of(held), ReleaseKind::Completed);
                break;
            case 7:
                if (!held.empty()) finish(one_of(held), ReleaseKind::Returned);
                break;
            case 8:
                if (!held.empty()) finish(one_of(held), *rc::gen::element(ReleaseKind::Failed, ReleaseKind::Rejected));
                break;
            case 9:
                if (!held.empty()) {  // killed at work
                    const GroupHolding victim = one_of(held);
                    victim.consumer->work_on(victim.ticket);
                }
                [[fallthrough]];
            case 10:
                if (!some.living.empty()) {
                    const auto index = *rc::gen::inRange(std::size_t{0}, some.living.size());
                    some.living[index]->die();
                    some.dead.push_back(std::move(some.living[index]));
                    some.living.erase(some.living.begin() + static_cast<std::ptrdiff_t>(index));
                }
                break;
            case 11:
                f.advance(std::chrono::seconds(*rc::gen::element(1, 31)));
                break;
            case 13:
                f.advance(Spill::kPatience);
                break;
            case 14:
                if (!f.can_fill() && can_drop(f)) f.publish_dropping(batches++);
                break;
        }
        f.step();
        f.step();  // grants what the first freed last
        f.settle();
        check(f, consumers, batches);
    }

    // From here on all consumers behave.
    f.exchange->finish();
    for (int round = 0; round < 400 && !f.broker->ended(); ++round) {
        for (GroupConsumers& each : consumers) {
            const GroupReport group = f.report().groups[each.group];
            if (each.living.empty() && group.in_flight.slabs + group.spilled.slabs > 0) add_to(each);
            for (const GroupHolding& holding : holdings_of(each.living)) finish(holding, ReleaseKind::Completed);
            for (const auto& consumer : each.living)
                if (consumer->drain && consumer->tickets.empty())
                    consumer->port->send_work(of_run(Disconnect{consumer->welcome->session}));
        }
        f.advance(std::chrono::seconds(1));
        f.settle();
    }
    RC_ASSERT(f.broker->ended());
    check(f, consumers, batches, Egress::Finished);
    const BrokerReport report = f.report();
    RC_ASSERT(report.completed.slabs + report.dead_lettered.slabs + report.dropped.slabs == batches);
    for (const GroupReport& group : report.groups) {
        RC_ASSERT(group.in_flight.slabs + group.spilled.slabs == 0U);
        RC_ASSERT(group.optional ||
                  report.dead_lettered.slabs + report.dropped.slabs >= group.dead_lettered.slabs + group.dropped.slabs);
    }
}

}  // namespace
}  // namespace offramp
