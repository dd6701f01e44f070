#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "common/transport/ports.hpp"

namespace offramp::support {

// Where a broker and its consumers meet: a hub, or a run directory.
class PortsPlace {
  public:
    virtual ~PortsPlace() = default;
    virtual std::unique_ptr<BrokerPort> broker() = 0;
    virtual std::unique_ptr<ConsumerPort> consumer() = 0;
    // The sender that a message of such a consumer must carry.
    virtual PeerCredentials credentials() const = 0;
};

struct PortsImplementation {
    std::string name;
    std::function<std::unique_ptr<PortsPlace>()> make_place;
};

// The parameter in a test's name; its address and bytes would differ between runs.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const PortsImplementation& implementation, std::ostream* out) { *out << implementation.name; }

class PortsContract : public ::testing::TestWithParam<PortsImplementation> {
  protected:
    std::unique_ptr<PortsPlace> place_ = GetParam().make_place();
};

Bytes bytes_of(std::string_view text);
std::string text_of(const Bytes& bytes);

// Waits for the next message; nothing when none has come for so long that it is lost.
std::optional<Inbound> next_work(BrokerPort& broker);
std::optional<Inbound> next_release(BrokerPort& broker);
std::optional<Bytes> next(ConsumerPort& consumer);

// A consumer that has sent its hello, and the routing id for answers to it.
struct MetConsumer {
    std::unique_ptr<ConsumerPort> port;
    std::string peer;
};
MetConsumer meet(PortsPlace& place, BrokerPort& broker);

}  // namespace offramp::support
