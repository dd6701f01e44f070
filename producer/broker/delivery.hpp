#pragma once

#include "producer/broker/broker_report.hpp"

namespace offramp {

// The delivery of published slabs: a broker's thread hands them to consumers; without consumers there are totals only.
// Thread: any. Blocks: join(), until nothing is in flight. Errors: join() throws what ended it.
class Delivery {
  public:
    virtual ~Delivery() = default;
    // At most some 100 ms old.
    virtual BrokerReport report() const = 0;
    virtual void abort() = 0;
    virtual void join() = 0;
};

}  // namespace offramp
