#pragma once

#include <memory>
#include <optional>

#include "producer/broker/broker.hpp"
#include "tests/simulation/simulated_run.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"

namespace offramp::simulation {

// The parts of a producer process, without its threads. Its death destroys them; the memory stays.
struct SimulatedRun::Producer {
    InMemoryHub hub;
    std::unique_ptr<BrokerPort> port;
    std::shared_ptr<SlabExchange> exchange;
    std::unique_ptr<RunRecords> records;  // of a producer that recovered the run
    std::optional<SlabLedger> own_ledger;
    std::optional<ProgressLog> own_progress;
    SlabLedger* ledger = nullptr;
    std::unique_ptr<Broker> broker;

    explicit Producer(std::size_t queue) : hub(queue), port(hub.broker_port()) {}
};

}  // namespace offramp::simulation
