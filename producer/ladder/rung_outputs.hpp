#pragma once

#include <memory>
#include <utility>

#include "producer/broker/broker_thread.hpp"
#include "producer/ladder/local_delivery.hpp"
#include "producer/runner/inference/run_outputs.hpp"

namespace offramp {

// Outputs of a rung: the run's broker hands its slabs to consumers, or the producer processes them itself.
// Owns: the local delivery. Borrows: the broker.
class RungOutputs : public RunOutputs {
  public:
    // One of the two is null.
    struct Delivery {
        BrokerThread* broker = nullptr;
        std::unique_ptr<LocalDelivery> local;
    };
    explicit RungOutputs(Delivery delivery) : delivery_(std::move(delivery)) {}

    BrokerReport report() const override {
        return delivery_.local ? delivery_.local->report() : delivery_.broker->report();
    }
    void abort() override {
        if (delivery_.broker != nullptr) delivery_.broker->abort();
    }
    void join() override { delivery_.local ? delivery_.local->join() : delivery_.broker->join(); }

  protected:
    LocalDelivery& local_delivery() const { return *delivery_.local; }

  private:
    const Delivery delivery_;
};

}  // namespace offramp
