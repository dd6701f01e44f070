#include "common/base/bounded_queue.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

using std::chrono::seconds;

TEST(BoundedQueue, DeliversInOrderAndThenEnds) {
    BoundedQueue<std::unique_ptr<int>> queue(3);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(std::make_unique<int>(i)));
    queue.close();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(**queue.pop(), i);
    EXPECT_FALSE(queue.pop());
    EXPECT_FALSE(queue.push(std::make_unique<int>(4)));
}

TEST(BoundedQueue, AFullQueueBlocksUntilThereIsRoom) {
    BoundedQueue<int> queue(2);
    queue.push(0);
    queue.push(1);
    std::thread pusher([&] { EXPECT_TRUE(queue.push(2)); });
    yield_until([&] { return queue.waiting_to_push() == 1; });
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_EQ(queue.pop(), 0);
    pusher.join();
    EXPECT_EQ(queue.pop(), 1);
    EXPECT_EQ(queue.pop(), 2);
    EXPECT_EQ(queue.try_pop(), std::nullopt);
}

// One more value may exceed the limit.
TEST(BoundedQueue, IsFullAtItsWeightLimit) {
    BoundedQueue<std::size_t> queue(4, 10, [](std::size_t value) { return value; });
    const auto has_room = [&] { return queue.wait_for_room(TimePoint{}); };
    queue.push(100);
    EXPECT_FALSE(has_room());
    EXPECT_EQ(queue.pop(), 100U);
    queue.push(4);
    queue.push(5);
    EXPECT_TRUE(has_room());
    queue.push(6);
    EXPECT_FALSE(has_room());
    EXPECT_EQ(queue.pop(), 4U);
    EXPECT_FALSE(has_room());
    EXPECT_EQ(queue.pop(), 5U);
    EXPECT_TRUE(has_room());
    for (int i = 0; i < 3; ++i) queue.push(0);
    EXPECT_FALSE(has_room()) << "as many values as its capacity";
    queue.abandon();
}

TEST(BoundedQueue, WaitsForRoomUntilATimeoutOrItIsClosed) {
    BoundedQueue<int> queue(1);
    EXPECT_TRUE(queue.wait_for_room(TimePoint{}));
    queue.push(0);
    EXPECT_FALSE(queue.wait_for_room(kSteadyClock.now() + std::chrono::milliseconds(1)));
    std::thread pusher([&] {
        EXPECT_TRUE(queue.wait_for_room(kSteadyClock.now() + seconds(600)));
        queue.push(1);
    });
    yield_until([&] { return queue.waiting_to_push() == 1; });
    EXPECT_EQ(queue.pop(), 0);
    pusher.join();
    EXPECT_EQ(queue.pop(), 1);
    queue.push(2);
    queue.close();
    EXPECT_TRUE(queue.wait_for_room(TimePoint{})) << "push() reports the end";
    EXPECT_FALSE(queue.push(3));
}

TEST(BoundedQueue, ClosingWakesBothSides) {
    BoundedQueue<int> full(1), empty(1);
    full.push(0);
    std::thread pusher([&] { EXPECT_FALSE(full.push(1)); });
    std::thread popper([&] { EXPECT_FALSE(empty.pop()); });
    yield_until([&] { return full.waiting_to_push() == 1 && empty.waiting_to_pop() == 1; });
    full.close();
    empty.close();
    pusher.join();
    popper.join();
    EXPECT_EQ(full.pop(), 0);
}

TEST(BoundedQueue, AbandoningDropsItsContents) {
    BoundedQueue<std::shared_ptr<int>> queue(2);
    const auto value = std::make_shared<int>(1);
    queue.push(std::shared_ptr(value));
    queue.abandon();
    EXPECT_EQ(value.use_count(), 1);
    EXPECT_FALSE(queue.pop());
}

TEST(BoundedQueue, CountsTheWaitingTimeOfPopEvenDuringAWait) {
    StepClock clock;
    BoundedQueue<int> queue(1, clock);
    std::thread popper([&] { EXPECT_EQ(queue.pop(), 7); });
    yield_until([&] { return queue.waiting_to_pop() == 1; });
    clock.advance(seconds(5));
    EXPECT_EQ(queue.pop_blocked_seconds(), 5);
    queue.push(7);
    popper.join();
    clock.advance(seconds(100));
    EXPECT_EQ(queue.pop_blocked_seconds(), 5);
}

TEST(BoundedQueue, BehavesAsADequeDoes) {
    rc::check([](const std::vector<bool>& pushes) {
        const auto capacity = *rc::gen::inRange<std::size_t>(1, 6);
        BoundedQueue<int> queue(capacity);
        std::deque<int> model;
        int next = 0;
        for (const bool push : pushes) {
            if (push && model.size() < capacity) {
                RC_ASSERT(queue.push(int(next)));
                model.push_back(next++);
            } else if (!push) {
                const std::optional<int> popped = queue.try_pop();
                RC_ASSERT(popped.has_value() == !model.empty());
                if (popped) {
                    RC_ASSERT(*popped == model.front());
                    model.pop_front();
                }
            }
            RC_ASSERT(queue.size() == model.size());
        }
    });
}

TEST(BoundedQueue, ManyThreadsLoseNothingAndKeepSenderOrder) {
    constexpr int kSenders = 3, kReceivers = 3, kEach = 2000;
    BoundedQueue<std::pair<int, int>> queue(4);
    std::vector<std::thread> senders, receivers;
    std::vector<std::vector<std::pair<int, int>>> received(kReceivers);
    for (int sender = 0; sender < kSenders; ++sender)
        senders.emplace_back([&queue, sender] {
            for (int i = 0; i < kEach; ++i) queue.push({sender, i});
        });
    for (auto& values : received)
        receivers.emplace_back([&queue, &values] {
            while (const auto value = queue.pop()) values.push_back(*value);
        });
    for (auto& sender : senders) sender.join();
    queue.close();
    for (auto& receiver : receivers) receiver.join();
    std::vector<int> seen(kSenders * kEach, 0);
    for (const auto& values : received) {
        std::vector<int> last(kSenders, -1);
        for (const auto& [sender, i] : values) {
            EXPECT_GT(i, last[static_cast<std::size_t>(sender)]);
            last[static_cast<std::size_t>(sender)] = i;
            ++seen[static_cast<std::size_t>(sender * kEach + i)];
        }
    }
    EXPECT_EQ(seen, std::vector<int>(kSenders * kEach, 1));
}

}  // namespace
}  // namespace offramp
