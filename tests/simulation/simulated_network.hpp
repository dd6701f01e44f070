#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>

#include "common/transport/ports.hpp"
#include "tests/simulation/plan.hpp"

namespace offramp::simulation {

// One connection: the messages between a consumer's port and the producer's in-memory port. They stay in order per
// channel, and arrive when the scheduler delivers them. They are lost only together with one of the two processes.
class Link {
  public:
    Link(std::unique_ptr<ConsumerPort> producer_side, std::size_t capacity, Twin twin)
        : producer_side_(std::move(producer_side)), capacity_(capacity), twin_(twin) {}

    // Moves up to `count` messages of one of the three queues, or of all.
    enum class Queue { Work, Releases, Answers, All };
    void deliver(Queue queue, std::size_t count);
    void deliver_all() { deliver(Queue::All, ~std::size_t{0}); }
    // The consumer has ended: of its last messages, at most these many per channel still arrive.
    void orphan(std::size_t work, std::size_t releases);
    // The producer is dead: nothing arrives there any more, and some of its last messages are lost.
    void lose_producer(std::size_t answers);
    // An orphan whose last messages have arrived.
    bool over() const { return orphaned_ && work_.empty() && releases_.empty(); }

  private:
    friend class SimulatedPort;
    void deliver_answers(std::size_t count);
    bool spoil(std::deque<Bytes>& queue);

    std::unique_ptr<ConsumerPort> producer_side_;
    std::size_t capacity_;
    Twin twin_;
    std::size_t moved_ = 0;
    bool orphaned_ = false;
    bool producer_lost_ = false;
    std::deque<Bytes> work_;
    std::deque<Bytes> releases_;
    std::deque<Bytes> answers_;
};

// The consumer's end of a link.
class SimulatedPort final : public ConsumerPort {
  public:
    SimulatedPort(std::shared_ptr<Link> link, Twin twin) : link_(std::move(link)), twin_(twin) {}

    bool send_work(std::span<const std::byte> bytes) override;
    bool send_release(std::span<const std::byte> bytes) override;
    bool try_receive(Bytes& bytes) override;
    void wait(std::span<const int>, std::chrono::nanoseconds) override {}

    Link& link() { return *link_; }

  private:
    std::shared_ptr<Link> link_;
    Twin twin_;
};

}  // namespace offramp::simulation
