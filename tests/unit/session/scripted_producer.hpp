#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/transport/ports.hpp"
#include "common/wire/messages.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"

namespace offramp {

// The producer's side of a conversation, controlled by a test.
class ScriptedProducer {
  public:
    explicit ScriptedProducer(InMemoryHub& hub) : port_(hub.broker_port()) {}

    // The next message of the work channel, if it is a Body; any other message is dropped.
    template <class Body>
    std::optional<Body> receive() {
        Inbound inbound;
        if (!port_->try_receive_work(inbound)) return std::nullopt;
        peer_ = inbound.peer;
        const ParsedMessage message = parse_message(inbound.bytes);
        run_ = message.run;
        if (!message || message.type != kTypeOf<Body>) return std::nullopt;
        return message.as<Body>();
    }
    bool receives_nothing() {
        Inbound inbound;
        return !port_->try_receive_work(inbound) && !port_->try_receive_release(inbound);
    }

    struct ReceivedReleases {
        Releases body{};
        std::vector<ReleaseRecord> records;
    };
    std::optional<ReceivedReleases> receive_releases() {
        Inbound inbound;
        if (!port_->try_receive_release(inbound)) return std::nullopt;
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message || message.type != MessageType::Releases) return std::nullopt;
        return ReceivedReleases{message.as<Releases>(), message.records_of<Releases>()};
    }

    std::optional<Failure> receive_failure() {
        Inbound inbound;
        if (!port_->try_receive_release(inbound)) return std::nullopt;
        const ParsedMessage message = parse_message(inbound.bytes);
        if (!message || message.type != MessageType::Failure) return std::nullopt;
        return message.as<Failure>();
    }

    // From now on it names this run instead of the consumer's.
    void speak_for(std::uint64_t run) { run_ = run; }
    void send_bytes(std::span<const std::byte> bytes) { ASSERT_EQ(port_->send(peer_, bytes), SendOutcome::Sent); }
    template <class Body>
    void send(const Body& body) {
        send_bytes(encode(run_, body));
    }
    void send_tickets(std::uint64_t session, std::uint64_t first_delivery, const std::vector<SlabTicket>& tickets) {
        send_bytes(encode(run_, Tickets{session, first_delivery}, std::span<const SlabTicket>(tickets)));
    }

  private:
    std::unique_ptr<BrokerPort> port_;
    std::string peer_;
    std::uint64_t run_ = 0;  // as named by the consumer
};

inline SlabTicket ticket_of(std::uint32_t slab, std::uint64_t generation = 1, std::uint32_t attempt = 1) {
    return {.epoch = 1, .slab = slab, .generation = generation, .attempt = attempt};
}

}  // namespace offramp
