#include "producer/broker/broker_thread.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"
#include "tests/unit/broker/groups_fixture.hpp"

namespace offramp {
namespace {

using namespace std::chrono_literals;

// The observations of a WatchedPort, and the failure to inject.
struct Watched {
    std::atomic<std::uint64_t> by_its_thread{0}, by_others{0};  // sent tickets
    bool fails_in_its_sleep = false;
    bool fails_others = false;  // sends by other threads fail
};

class WatchedPort final : public BrokerPort {
  public:
    WatchedPort(std::unique_ptr<BrokerPort> port, Watched& watched) : port_(std::move(port)), watched_(watched) {}

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        const bool is_its_thread = std::this_thread::get_id() == made_by_;
        if (!is_its_thread && watched_.fails_others) throw SystemError("sending", EIO);
        if (parse_message({bytes.begin(), bytes.end()}).type == MessageType::Tickets)
            ++(is_its_thread ? watched_.by_its_thread : watched_.by_others);
        return port_->send(peer, bytes);
    }
    bool try_receive_work(Inbound& inbound) override { return port_->try_receive_work(inbound); }
    bool try_receive_release(Inbound& inbound) override { return port_->try_receive_release(inbound); }
    bool may_have_messages() override { return port_->may_have_messages(); }
    bool prepare_wait(std::vector<int>& fds) override { return port_->prepare_wait(fds); }
    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        if (watched_.fails_in_its_sleep) throw SystemError("waiting", EIO);
        port_->wait(fds, timeout, turn);
    }

  private:
    std::unique_ptr<BrokerPort> port_;
    Watched& watched_;
    const std::thread::id made_by_ = std::this_thread::get_id();
};

// Replaces the port of the fixture's broker by a watched one.
BrokerThread::Parts parts_of(BrokerFixture& f, Watched& watched) {
    BrokerThread::Parts parts;
    f.broker.reset();
    parts.ports.push_back(std::make_unique<WatchedPort>(std::move(f.port), watched));
    parts.broker = std::make_unique<Broker>(
        f.ledger, *parts.ports.front(), *f.exchange, f.watch, f.clock, f.heartbeats,
        Broker::SlabMemory{[](std::uint32_t) { return true; }, [&f](std::uint32_t slab) { return f.bytes_of(slab); }},
        BrokerOptions{.run_nonce = BrokerFixture::kNonce, .allowed_uids = {1000}});
    return parts;
}

// A consumer on its own thread: joins, releases its slabs, leaves on request.
class LiveConsumer {
  public:
    explicit LiveConsumer(std::unique_ptr<ConsumerPort> port) : port_(std::move(port)), thread_([this] { serve(); }) {}

    std::uint64_t released() const { return released_; }
    // Ended by the broker or by this test.
    void join() { thread_.join(); }
    void leave() {
        const std::uint64_t one = 1;
        ASSERT_EQ(::write(leaves_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    }
    const std::map<std::uint64_t, int>& times() const { return times_; }

  private:
    void serve() {
        port_->send_work(of_run(Hello{.window = 4}));
        std::uint64_t session = 0;
        Bytes bytes;
        while (true) {
            while (!port_->try_receive(bytes)) {
                const int leaves = leaves_.get();
                port_->wait({&leaves, 1}, 1h);
                std::uint64_t count = 0;
                if (::read(leaves, &count, sizeof count) > 0) return;
            }
            const ParsedMessage message = parse_message(bytes);
            if (message.type == MessageType::Challenge)
                port_->send_work(of_run(Answer{message.as<Challenge>().secret}));
            if (message.type == MessageType::Welcome) session = message.as<Welcome>().session;
            if (message.type == MessageType::Drain) {
                port_->send_work(of_run(Disconnect{session}));
                return;
            }
            if (message.type != MessageType::Tickets) continue;
            for (const SlabTicket& ticket : message.records_of<Tickets>()) {
                ++times_[ticket.generation * 100 + ticket.slab];
                const std::vector<ReleaseRecord> record{
                    {ticket, static_cast<std::uint32_t>(ReleaseKind::Completed), 0}};
                port_->send_release(of_run(Releases{session, ++sent_}, record));
                ++released_;
            }
        }
    }

    std::unique_ptr<ConsumerPort> port_;
    UniqueFd leaves_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::uint64_t sent_ = 0;
    std::map<std::uint64_t, int> times_;
    std::atomic<std::uint64_t> released_{0};
    std::thread thread_;
};

TEST(BrokerThread, DeliversEachSlabOnceOnEitherThread) {
    constexpr std::uint64_t kLeast = 200, kMost = 20000;
    BrokerFixture f(8);
    Watched watched;
    BrokerThread thread([&] { return parts_of(f, watched); }, *f.exchange, {});
    LiveConsumer consumer(f.hub.consumer_port({11, 1000, 1000}));
    std::uint64_t published = 0;
    // Single slabs into an idle system, and sometimes two at a time, which its thread handles.
    while (published < kLeast || ((watched.by_others == 0 || watched.by_its_thread == 0) && published < kMost)) {
        for (int neighbours = published % 4 == 3 ? 2 : 1; neighbours > 0; --neighbours) {
            auto loan = f.exchange->wait_for_slab();
            ASSERT_TRUE(loan);
            f.exchange->publish(std::move(*loan), {.first_batch = published++, .samples = 1, .bytes = 10});
        }
        while (consumer.released() < published) std::this_thread::sleep_for(SlabExchange::kNeighbours * 2);
    }
    f.exchange->finish();
    thread.join();
    consumer.join();
    EXPECT_GT(watched.by_others, 0U);
    EXPECT_GT(watched.by_its_thread, 0U);
    EXPECT_EQ(consumer.times().size(), published);
    for (const auto& [filling, times] : consumer.times()) EXPECT_EQ(times, 1) << filling;
    const BrokerReport report = thread.report();
    EXPECT_EQ(report.completed.slabs, published);
    EXPECT_TRUE(report.conserved());
}

TEST(BrokerThread, AFailureOfTheStandInEndsIt) {
    BrokerFixture f(8);
    Watched watched;
    watched.fails_others = true;
    std::atomic<bool> has_failed{false};
    BrokerThread thread([&] { return parts_of(f, watched); }, *f.exchange,
                        {.on_end = {}, .on_failure = [&] {
                             EXPECT_FALSE(f.exchange->stopped()) << "a thread that it wakes must find the failure";
                             has_failed = true;
                         }});
    LiveConsumer consumer(f.hub.consumer_port({11, 1000, 1000}));
    // Single slabs, until this thread has delivered one.
    const auto end = std::chrono::steady_clock::now() + 60s;
    for (std::uint64_t batch = 0; !has_failed; ++batch) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "no thread stood in";
        auto loan = f.exchange->wait_for_slab();
        if (!loan) break;  // stopped
        f.exchange->publish(std::move(*loan), {.first_batch = batch, .samples = 1, .bytes = 10});
        std::this_thread::sleep_for(SlabExchange::kNeighbours * 2);
    }
    EXPECT_THROW(thread.join(), SystemError);
    EXPECT_EQ(watched.by_others, 0U);
    consumer.leave();
    consumer.join();
}

// Waits for messages alone, however soon the broker wants to look again.
class PatientPort final : public BrokerPort {
  public:
    explicit PatientPort(std::unique_ptr<BrokerPort> port) : port_(std::move(port)) {}

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        return port_->send(peer, bytes);
    }
    bool try_receive_work(Inbound& inbound) override { return port_->try_receive_work(inbound); }
    bool try_receive_release(Inbound& inbound) override { return port_->try_receive_release(inbound); }
    bool may_have_messages() override { return port_->may_have_messages(); }
    bool prepare_wait(std::vector<int>& fds) override { return port_->prepare_wait(fds); }
    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        port_->wait(fds, timeout > 0ns ? 1h : timeout, turn);
    }

  private:
    std::unique_ptr<BrokerPort> port_;
};

// One slab, so that each is filled only after both groups' consumers have woken the broker.
TEST(BrokerThread, WakesForMessagesOfEveryGroup) {
    constexpr std::uint64_t kSlabs = 200;
    GroupsFixture f(1);
    const auto make = [&] {
        BrokerThread::Parts parts;
        std::vector<BrokerGroup> brokers;
        f.broker.reset();
        for (const auto& group : f.groups) {
            parts.ports.push_back(std::make_unique<PatientPort>(std::move(group->port)));
            brokers.push_back({group->ledger, *parts.ports.back(), group->heartbeats, f.memory(),
                               f.options_of({group == f.groups.front() ? "a" : "b"}, group->progress, {})});
        }
        parts.broker = std::make_unique<Broker>(std::move(brokers), *f.exchange, f.watch, f.clock);
        return parts;
    };
    BrokerThread thread(make, *f.exchange, {});
    LiveConsumer a(f[0].hub.consumer_port({11, 1000, 1000})), b(f[1].hub.consumer_port({12, 1000, 1000}));
    for (std::uint64_t batch = 0; batch < kSlabs; ++batch) {
        auto loan = f.exchange->wait_for_slab();
        ASSERT_TRUE(loan);
        f.exchange->publish(std::move(*loan), {.first_batch = batch, .samples = 1, .bytes = 10});
    }
    f.exchange->finish();
    thread.join();
    for (LiveConsumer* consumer : {&a, &b}) {
        consumer->join();
        EXPECT_EQ(consumer->times().size(), kSlabs);
    }
    EXPECT_EQ(f.completed.size(), kSlabs);
    EXPECT_EQ(thread.report().completed.slabs, kSlabs);
    EXPECT_TRUE(thread.report().conserved());
}

// Calls a function on each log message.
class CallingSink final : public spdlog::sinks::base_sink<std::mutex> {
  public:
    explicit CallingSink(std::function<void()> call) : call_(std::move(call)) {}

  private:
    void sink_it_(const spdlog::details::log_msg&) override { call_(); }
    void flush_() override {}

    std::function<void()> call_;
};

// Its sleep fails after it has announced it. Its log message comes when it is gone, but before others learn of it.
TEST(BrokerThread, PublishingAfterItsEndOnlyLeavesTheSlab) {
    BrokerFixture f;
    f.exchange = SlabExchange::make(2);
    WriteLoan granted(0, 1, {});
    f.exchange->grant({&granted, 1});
    auto loan = f.exchange->wait_for_slab();
    Watched watched;
    watched.fails_in_its_sleep = true;
    const auto publishes = std::make_shared<CallingSink>([&] {
        if (loan) f.exchange->publish(*std::exchange(loan, std::nullopt), {.samples = 1});
    });
    const auto usual = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", publishes));
    {
        BrokerThread thread([&] { return parts_of(f, watched); }, *f.exchange, {});
        EXPECT_THROW(thread.join(), SystemError);
    }
    spdlog::set_default_logger(usual);
    EXPECT_FALSE(loan);
    EXPECT_EQ(f.exchange->take().published.size(), 1U);
}

}  // namespace
}  // namespace offramp
