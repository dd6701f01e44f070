#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"

namespace offramp {

// Counts of messages by kind, and the time of the last tickets. Read while the broker runs.
struct MessageCounts {
    std::atomic<std::uint64_t> ticket_messages{0}, acknowledgements{0}, release_messages{0}, steps{0};
    std::atomic<std::uint64_t> woke_at_ns{0};  // when the broker woke before the last tickets
    std::atomic<std::uint64_t> tickets_sent_at_ns{0};
};

// A broker's port that counts what passes.
class CountingPort final : public BrokerPort {
  public:
    CountingPort(std::unique_ptr<BrokerPort> port, MessageCounts& counts) : port_(std::move(port)), counts_(counts) {}

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        MessageHeader header;
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.type == static_cast<std::uint16_t>(MessageType::ReleaseAck)) ++counts_.acknowledgements;
        const SendOutcome outcome = port_->send(peer, bytes);
        if (header.type == static_cast<std::uint16_t>(MessageType::Tickets)) {
            counts_.woke_at_ns = awake_since_ns_;
            counts_.tickets_sent_at_ns = now_ns();
            ++counts_.ticket_messages;
        }
        return outcome;
    }
    bool try_receive_work(Inbound& inbound) override { return port_->try_receive_work(inbound); }
    bool try_receive_release(Inbound& inbound) override {
        const bool got = port_->try_receive_release(inbound);
        if (got) ++counts_.release_messages;
        return got;
    }
    bool may_have_messages() override { return port_->may_have_messages(); }
    bool prepare_wait(std::vector<int>& fds) override { return port_->prepare_wait(fds); }
    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        ++counts_.steps;
        port_->wait(fds, timeout, turn);
        awake_since_ns_ = now_ns();
    }

  private:
    std::unique_ptr<BrokerPort> port_;
    MessageCounts& counts_;
    std::uint64_t awake_since_ns_ = 0;
};

}  // namespace offramp
