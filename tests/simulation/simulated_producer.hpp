#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "producer/broker/broker.hpp"
#include "tests/simulation/simulated_letters.hpp"
#include "tests/simulation/simulated_run.hpp"
#include "tests/support/awaited_stores.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"

namespace offramp::simulation {

// The parts of a producer process, without its threads. Its death destroys them; the memory stays.
struct SimulatedRun::Producer {
    struct Group {
        InMemoryHub hub;
        std::unique_ptr<BrokerPort> port;
        std::unique_ptr<RunRecords> records;  // of a producer that recovered the run
        std::optional<SlabLedger> own_ledger;
        std::optional<ProgressLog> own_progress;
        SlabLedger* ledger = nullptr;
        ProgressLog* progress = nullptr;
        std::unique_ptr<SimulatedLetters> letters;  // if it keeps them
        bool writes_letter = false;                 // the writer has a job

        explicit Group(std::size_t queue) : hub(queue), port(hub.broker_port()) {}
    };
    std::shared_ptr<SlabExchange> exchange;
    std::vector<std::unique_ptr<Group>> groups;
    std::unique_ptr<Broker> broker;
    AwaitedStores stores;                           // of spilled slabs
    std::future<std::optional<WriteLoan>> waiting;  // the egress, until a slab is free for it

    explicit Producer(AwaitedStores its_stores) : stores(std::move(its_stores)) {}
    ~Producer() {
        stores.finish();
        if (!waiting.valid()) return;
        exchange->stop();
        waiting.get();
    }
    const SlabLedger& ledger(std::uint32_t group) const { return *groups[group]->ledger; }
};

}  // namespace offramp::simulation
