#include "tests/simulation/simulated_network.hpp"

#include <algorithm>
#include <utility>

#include "common/wire/messages.hpp"

namespace offramp::simulation {
namespace {

constexpr std::size_t kSpoilEvery = 7;

Bytes without_holdings(std::span<const std::byte> bytes) {
    const ParsedMessage message = parse_message(bytes);
    if (message.type != MessageType::Hello) return {bytes.begin(), bytes.end()};
    auto hello = message.as<Hello>();
    hello.holding = 0;
    return encode(message.run, hello);
}

}  // namespace

// A twin's fault: loses the first message, or swaps it with the second.
bool Link::spoil(std::deque<Bytes>& queue) {
    if (twin_ != Twin::LosesMessages && twin_ != Twin::SwapsMessages) return false;
    if (++moved_ % kSpoilEvery != 0) return false;
    if (twin_ == Twin::LosesMessages) {
        queue.pop_front();
        return true;
    }
    if (queue.size() > 1) std::swap(queue[0], queue[1]);
    return false;
}

void Link::deliver(Queue queue, std::size_t count) {
    const auto forward = [&](std::deque<Bytes>& messages, bool (ConsumerPort::*send)(std::span<const std::byte>)) {
        for (std::size_t i = 0; i < count && !messages.empty(); ++i) {
            if (spoil(messages)) continue;
            if (!producer_lost_ && !(producer_side_.get()->*send)(messages.front())) return;
            messages.pop_front();
        }
    };
    if (queue == Queue::Work || queue == Queue::All) forward(work_, &ConsumerPort::send_work);
    if (queue == Queue::Releases || queue == Queue::All) forward(releases_, &ConsumerPort::send_release);
    if (queue == Queue::Answers || queue == Queue::All) deliver_answers(count);
}

void Link::deliver_answers(std::size_t count) {
    if (orphaned_) return;
    Bytes bytes;
    for (std::size_t i = 0; i < count && producer_side_->try_receive(bytes); ++i) {
        answers_.push_back(std::move(bytes));
        if (spoil(answers_)) continue;
    }
}

void Link::orphan(std::size_t work, std::size_t releases) {
    orphaned_ = true;
    answers_.clear();
    work_.resize(std::min(work_.size(), work));
    releases_.resize(std::min(releases_.size(), releases));
}

void Link::lose_producer(std::size_t answers) {
    deliver_answers(answers);
    for (Bytes lost; producer_side_->try_receive(lost);) continue;
    producer_lost_ = true;
    work_.clear();
    releases_.clear();
}

bool SimulatedPort::send_work(std::span<const std::byte> bytes) {
    if (link_->work_.size() >= link_->capacity_) return false;
    if (twin_ == Twin::ForgetsHoldings)
        link_->work_.push_back(without_holdings(bytes));
    else
        link_->work_.emplace_back(bytes.begin(), bytes.end());
    return true;
}

bool SimulatedPort::send_release(std::span<const std::byte> bytes) {
    if (link_->releases_.size() >= link_->capacity_) return false;
    link_->releases_.emplace_back(bytes.begin(), bytes.end());
    return true;
}

bool SimulatedPort::try_receive(Bytes& bytes) {
    if (link_->answers_.empty()) return false;
    bytes = std::move(link_->answers_.front());
    link_->answers_.pop_front();
    return true;
}

}  // namespace offramp::simulation
