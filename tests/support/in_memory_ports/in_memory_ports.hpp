#pragma once

#include <cstddef>
#include <memory>

#include "common/transport/ports.hpp"

namespace offramp {

// The ports within one process: the same semantics over mutex-guarded queues, for ThreadSanitizer (libzmq is
// not instrumented) and for tests that step a broker. One broker port at a time; while there is none,
// consumers' messages wait, and a new one sees every consumer under a new routing id, as after a
// reconnection. Thread: hub's calls from any.
class InMemoryHub {
  public:
    explicit InMemoryHub(std::size_t queue_capacity = 1024);
    ~InMemoryHub();

    // Errors: SystemError with ErrorKind::RunInUse while another broker port lives.
    std::unique_ptr<BrokerPort> broker_port();
    // `credentials` stand for what the kernel would say.
    std::unique_ptr<ConsumerPort> consumer_port(PeerCredentials credentials);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace offramp
