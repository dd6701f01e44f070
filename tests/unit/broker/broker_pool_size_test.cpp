#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/unit/broker/broker_fixture.hpp"
#include "tests/unit/broker/groups_fixture.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kLargePool = 16384;
constexpr std::uint32_t kSlabsInUse = 128;

// While it lives, makes the whole pages between both ends of the memory unreadable: a read of one ends the test.
class Unreadable {
  public:
    explicit Unreadable(std::span<SlabEntry> entries) {
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        const auto begin = reinterpret_cast<std::uintptr_t>(entries.data());
        first_ = (begin + page - 1) / page * page;
        bytes_ = (begin + entries.size_bytes()) / page * page - first_;
        protect(PROT_NONE);
    }
    ~Unreadable() { protect(PROT_READ | PROT_WRITE); }
    Unreadable(const Unreadable&) = delete;
    Unreadable& operator=(const Unreadable&) = delete;

  private:
    void protect(int access) const { ASSERT_EQ(::mprotect(reinterpret_cast<void*>(first_), bytes_, access), 0); }

    std::uintptr_t first_ = 0;
    std::size_t bytes_ = 0;
};

std::span<SlabEntry> unused_entries(BrokerFixture& f) { return std::span(f.entries).subspan(kSlabsInUse); }

TEST(BrokerPoolSize, AStepReadsOnlyTheSlabsItMoves) {
    BrokerFixture f(kLargePool);
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const Unreadable unused(unused_entries(f));
    for (std::uint64_t batch = 0; batch < 1000; ++batch) {
        consumer.take(batch);
        ASSERT_EQ(consumer.tickets.size(), batch + 1);
        consumer.release(consumer.tickets.back());
    }
}

TEST(BrokerPoolSize, ALossOfAGroupReadsItsOwnSlabAlone) {
    GroupsFixture f(kLargePool);
    GroupConsumer a(f, 0, 11), b(f, 1, 12);
    const Unreadable of_a(std::span(f[0].entries).subspan(kSlabsInUse)),
        of_b(std::span(f[1].entries).subspan(kSlabsInUse));
    for (std::uint64_t batch = 0; batch < 10; ++batch) {
        f.publish(batch);
        a.release_next(ReleaseKind::Rejected);
        b.release_next();
    }
    EXPECT_EQ(f.lost.size(), 10U);
    EXPECT_TRUE(f.completed.empty());
}

TEST(BrokerPoolSize, DoesNotSearchAFullPoolWhileConsumersAreBusy) {
    BrokerFixture f(kLargePool);
    for (std::uint64_t batch = 0; batch < kLargePool; ++batch) f.publish(batch);
    ASSERT_FALSE(f.can_fill());
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const Unreadable unused(unused_entries(f));
    for (std::uint64_t batch = kLargePool; batch < kLargePool + 60; ++batch) {
        for (int step = 0; step < 10; ++step) f.broker->step();
        consumer.receive();
        const SlabTicket ticket = consumer.tickets.at(batch - kLargePool);
        consumer.release(ticket);
        f.publish(batch);
    }
}

TEST(BrokerPoolSize, ReportsShareTheDeadLetters) {
    BrokerFixture f;
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    const BrokerReport early = f.report();
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
        consumer.take(batch);
        consumer.release(consumer.tickets.back(), ReleaseKind::Rejected);
        f.broker->step();
    }
    const BrokerReport late = f.report();
    EXPECT_EQ(late.dead_letters, early.dead_letters) << "one list, not a copy per report";
    ASSERT_EQ(late.dead_letters->size(), 3U);
    EXPECT_EQ(late.dead_letters->at(2).first_batch, 2U);
}

TEST(BrokerPoolSize, WritesADeadLetterWhileNoConsumerHasRoom) {
    BrokerFixture f;
    ScriptedConsumer rejecting(f, 11, 1);
    ASSERT_TRUE(rejecting.join());
    f.publish(0);
    rejecting.take(1);
    const SlabTicket ticket = rejecting.tickets.at(0);
    ScriptedConsumer busy(f, 12, 1);
    ASSERT_TRUE(busy.join());
    busy.receive();
    f.publish(2);
    rejecting.release(ticket, ReleaseKind::Rejected);
    f.broker->step();
    EXPECT_EQ(f.report().dead_letters->size(), 1U);
}

}  // namespace
}  // namespace offramp
