#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "producer/broker/run_records.hpp"
#include "tests/support/awaited_stores.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {

// A run with groups of consumers, over memory.
struct GroupsFixture : FixtureRun {
    struct Group : FixtureGroup {
        explicit Group(std::uint32_t slabs)
            : consumer_table(16),
              entries(slabs),
              ledger(SlabLedger::format({consumer_table, entries, first_session_of(kNonce)}, 1)) {}

        SlabState state(std::uint32_t slab) const { return ledger.word(slab).state; }

        std::vector<LedgerConsumer> consumer_table;
        std::vector<SlabEntry> entries;
        SlabLedger ledger;
        RunProgress memory{};
        ProgressLog progress{memory};
    };

    explicit GroupsFixture(std::uint32_t slabs, const std::vector<ConsumerGroup>& its_groups = {{"a"}, {"b"}},
                           const BrokerOptions& options = {}, const std::optional<AwaitedStores>& spilling = {})
        : FixtureRun(slabs), of(its_groups), stores(spilling.value_or(AwaitedStores(of.size()))) {
        for (std::size_t i = 0; i < of.size(); ++i) groups.push_back(std::make_unique<Group>(slabs));
        std::vector<BrokerGroup> brokers;
        for (std::size_t i = 0; i < of.size(); ++i)
            brokers.push_back({groups[i]->ledger, *groups[i]->port, groups[i]->heartbeats, memory(),
                               options_of(of[i], groups[i]->progress, options)});
        for (std::size_t i = 0; i < of.size(); ++i) brokers[i].options.spill = stores.by_group()[i];
        broker = std::make_unique<Broker>(std::move(brokers), *exchange, watch, clock);
        before_step = [this] { stores.await(); };
    }
    BrokerOptions options_of(const ConsumerGroup& group, ProgressLog& progress, BrokerOptions options) {
        options.group = group.name;
        options.policy = group.policy;
        options.progress = &progress;
        options.run_nonce = kNonce;
        options.allowed_uids = {1000};
        options.on_completed = [this](const PublishedSlab& slab) { completed.push_back(slab.first_batch); };
        options.on_dead_letter = [this](const PublishedSlab& slab) { lost.push_back(slab.first_batch); };
        if (group.policy.drops_for_run())
            options.on_dropped = [this, name = group.name](const SlabTicket& ticket, std::span<const std::byte>) {
                listed.emplace_back(name, batches.at(ticket.slab));
            };
        return options;
    }

    // A free slab is granted to the egress, or was.
    bool can_fill() {
        step();
        return groups.front()->ledger.count(SlabState::Filling) > 0;
    }
    // As publish(). The egress waits for the slab, and asks for the oldest one.
    void publish_dropping(std::uint64_t batch) {
        std::optional<WriteLoan> loan;
        std::atomic<bool> has_slab{false};
        std::thread egress([&] {
            loan = exchange->wait_for_slab(SlabExchange::WhenNone::DropOldest);
            has_slab = true;
        });
        while (!has_slab) step();
        egress.join();
        fill(std::move(*loan), batch);
    }
    void publish(std::uint64_t batch) {
        step();
        fill(*exchange->wait_for_slab(), batch);
    }
    void fill(WriteLoan loan, std::uint64_t batch) {
        batches[loan.slab()] = batch;
        exchange->publish(
            std::move(loan),
            {.first_batch = batch, .samples = 4, .batches_ended = 1, .bytes = 40, .items_through = (batch + 1) * 4});
        step();
    }
    // Until nothing is being written or read.
    void settle() {
        while (stores.busy()) step();
    }
    Group& operator[](std::size_t group) { return *groups[group]; }

    const std::vector<ConsumerGroup> of;
    std::vector<std::unique_ptr<Group>> groups;
    AwaitedStores stores;
    std::vector<std::uint64_t> completed, lost;                 // batches, as the run learns of them
    std::vector<std::pair<std::string, std::uint64_t>> listed;  // group and batch that it dropped
    std::map<std::uint32_t, std::uint64_t> batches;             // latest, by slab
};

// A consumer of one group.
struct GroupConsumer : JoinedConsumer {
    GroupConsumer(GroupsFixture& fixture, std::size_t its_group, pid_t its_pid, std::uint32_t its_window = 2)
        : JoinedConsumer(fixture, fixture[its_group], its_pid, its_window) {}

    // Releases the ticket that it has held longest.
    void release_next(ReleaseKind kind = ReleaseKind::Completed) {
        receive();
        const SlabTicket ticket = tickets.at(0);
        tickets.erase(tickets.begin());
        release(ticket, kind);
    }
    // Dies while it works on that ticket.
    void die_at_work() {
        receive();
        work_on(tickets.at(0));
        die();
    }
};

}  // namespace offramp
