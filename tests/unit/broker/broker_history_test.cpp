// Random histories of a broker with consumers that are killed, hang, repeat and lie: no batch is lost, and a slab is
// written only while it has no reader.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

struct Holding {
    ScriptedConsumer* consumer;
    SlabTicket ticket;
};

RC_GTEST_PROP(BrokerHistories, LoseNothingAndEnd, ()) {
    BrokerFixture f(*rc::gen::inRange(1U, 5U), {.max_failures = 3});
    std::vector<std::shared_ptr<ScriptedConsumer>> living;
    std::vector<std::shared_ptr<ScriptedConsumer>> dead;
    pid_t next_pid = 100;
    std::uint64_t batches = 0;
    const std::uint64_t to_publish = *rc::gen::inRange(1, 25);
    std::uint64_t completions = 0;

    const auto add_consumer = [&] {
        living.push_back(std::make_shared<ScriptedConsumer>(f, next_pid++, *rc::gen::inRange(1U, 4U)));
        RC_ASSERT(living.back()->join());
    };
    const auto holdings = [&] {
        std::vector<Holding> all;
        for (auto& consumer : living) {
            consumer->receive();
            for (const SlabTicket& ticket : consumer->tickets) all.push_back({consumer.get(), ticket});
        }
        return all;
    };
    const auto finish = [&](const Holding& holding, ReleaseKind kind) {
        std::erase(holding.consumer->tickets, holding.ticket);
        holding.consumer->release(holding.ticket, kind);
        ++completions;
    };

    add_consumer();
    for (int step = 0; step < 150 && batches < to_publish; ++step) {
        const auto held = holdings();
        switch (*rc::gen::inRange(0, 10)) {
            case 0:
                if (living.size() < 5) add_consumer();
                break;
            case 1:
            case 2:
                if (f.can_fill()) f.publish(batches++);
                break;
            case 3:
            case 4:
                if (!held.empty()) finish(*rc::gen::elementOf(held), ReleaseKind::Completed);
                break;
            case 5:
                if (!held.empty()) finish(*rc::gen::elementOf(held), ReleaseKind::Returned);
                break;
            case 6:
                if (!held.empty()) {  // killed at work
                    const Holding victim = *rc::gen::elementOf(held);
                    victim.consumer->work_on(victim.ticket);
                }
                [[fallthrough]];
            case 7:
                if (!living.empty()) {
                    const auto index = *rc::gen::inRange(std::size_t{0}, living.size());
                    living[index]->die();
                    dead.push_back(std::move(living[index]));
                    living.erase(living.begin() + static_cast<std::ptrdiff_t>(index));
                }
                break;
            case 8:
                f.advance(std::chrono::seconds(*rc::gen::element(1, 31)));
                break;
            case 9:
                if (!held.empty()) {  // a release of a slab that another holds, and a repeated one
                    const Holding other = *rc::gen::elementOf(held);
                    const auto impostor = *rc::gen::elementOf(living);
                    if (impostor.get() != other.consumer) {
                        const auto word = f.entries[other.ticket.slab].word;
                        impostor->send_releases(++impostor->sent, {{other.ticket, 1, 0}});
                        RC_ASSERT(f.entries[other.ticket.slab].word == word ||
                                  f.ledger.word(other.ticket.slab).state != SlabState::Free);
                    }
                }
                break;
        }
        f.broker->step();
        RC_ASSERT(f.report().conserved());
        // Every ticket of a living consumer still names the bytes it was issued for.
        for (const Holding& holding : holdings())
            RC_ASSERT(f.ledger.word(holding.ticket.slab).generation == holding.ticket.generation);
    }

    // From here on all consumers behave: the run must end with all batches accounted for.
    f.exchange->finish();
    for (int round = 0; round < 400 && !f.broker->ended(); ++round) {
        if (living.empty() && f.report().in_flight.slabs > 0) add_consumer();
        for (const Holding& holding : holdings()) {
            std::erase(holding.consumer->tickets, holding.ticket);
            holding.consumer->release(holding.ticket);
        }
        for (auto& consumer : living) {
            consumer->receive();
            if (consumer->drain && consumer->tickets.empty())
                consumer->port->send_work(of_run(Disconnect{consumer->welcome->session}));
        }
        f.advance(std::chrono::seconds(1));
    }
    const BrokerReport report = f.report();
    RC_ASSERT(f.broker->ended());
    RC_ASSERT(report.published.batches == batches);
    RC_ASSERT(report.in_flight.slabs == 0U);
    RC_ASSERT(report.completed.batches + report.dead_lettered.batches == batches);
}

}  // namespace
}  // namespace offramp
