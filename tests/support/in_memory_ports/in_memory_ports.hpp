#pragma once

#include <cstddef>
#include <memory>

#include "common/transport/ports.hpp"

namespace offramp {

// Ports within one process: the same semantics over mutex-guarded queues, for ThreadSanitizer (libzmq is not
// instrumented) and for tests that step a broker. One broker port at a time. Without one, consumers' messages
// wait; a new one sees every consumer under a new routing id, as after a reconnection. Thread: any for the hub.
class InMemoryHub {
  public:
    explicit InMemoryHub(std::size_t queue_capacity = 1024);
    ~InMemoryHub();

    // Errors: SystemError with ErrorKind::RunInUse while another broker port lives.
    std::unique_ptr<BrokerPort> broker_port();
    // `credentials` replace those that the kernel would report.
    std::unique_ptr<ConsumerPort> consumer_port(PeerCredentials credentials);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace offramp
