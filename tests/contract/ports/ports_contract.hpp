#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "common/transport/ports.hpp"

namespace offramp::support {

// One place in which a broker and its consumers meet: a hub, or a run directory.
class PortsPlace {
  public:
    virtual ~PortsPlace() = default;
    virtual std::unique_ptr<BrokerPort> broker() = 0;
    virtual std::unique_ptr<ConsumerPort> consumer() = 0;
    // What a message of such a consumer must carry.
    virtual PeerCredentials credentials() const = 0;
};

struct PortsImplementation {
    std::string name;
    std::function<std::unique_ptr<PortsPlace>()> make_place;
};

// What a test's name shows; its address and bytes would differ from run to run.
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const PortsImplementation& implementation, std::ostream* out) { *out << implementation.name; }

class PortsContract : public ::testing::TestWithParam<PortsImplementation> {
  protected:
    std::unique_ptr<PortsPlace> place_ = GetParam().make_place();
};

Bytes bytes_of(std::string_view text);
std::string text_of(const Bytes& bytes);

// The next message, waited for; nothing when none came for so long that it cannot come any more.
std::optional<Inbound> next_work(BrokerPort& broker);
std::optional<Inbound> next_release(BrokerPort& broker);
std::optional<Bytes> next(ConsumerPort& consumer);

// A consumer that has said hello, and the routing id to answer it.
struct MetConsumer {
    std::unique_ptr<ConsumerPort> port;
    std::string peer;
};
MetConsumer meet(PortsPlace& place, BrokerPort& broker);

}  // namespace offramp::support
