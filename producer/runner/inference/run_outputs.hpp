#pragma once

#include "producer/broker/broker_report.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"

namespace offramp {

// Where a run's outputs go, and what became of them. Thread: submit() and finish() from the model's; the others from
// any. Blocks: submit() for back-pressure; finish() until everything is published; join() until nothing is in flight.
// Errors: a failure is thrown by the next submit(), or by finish() or join().
class RunOutputs {
  public:
    virtual ~RunOutputs() = default;
    // False after stop(): the batch was not taken.
    virtual bool submit(OutputBatch batch) = 0;
    virtual void finish() = 0;
    // Abandons batches whose copies have not begun.
    virtual void stop() = 0;
    virtual OutputStats stats() const = 0;
    // At most some 100 ms old.
    virtual BrokerReport report() const = 0;
    // Orders consumers to leave.
    virtual void abort() = 0;
    virtual void join() = 0;
};

}  // namespace offramp
