// A consumer fails in a process that lives on: for any error at any place, the run has all slabs back when run()
// throws.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/session/consumer_loop.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"
#include "tests/unit/session/fake_run.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kSession = 6;
constexpr std::uint32_t kConsumerIndex = 1;
constexpr std::uint32_t kAllSlabs = 4;

// The broker's side of holding slabs. It acts whenever the consumer waits.
class AnsweringProducer {
  public:
    AnsweringProducer(InMemoryHub& hub, FakeRun& run) : port_(hub.broker_port()), run_(run) {
        for (std::uint32_t slab = 0; slab < kAllSlabs; ++slab) waiting_.push_back(run.lease_filled(slab, 10 + slab));
    }

    void take_turn() {
        Inbound inbound;
        while (port_->try_receive_work(inbound)) {
            peer_ = inbound.peer;
            handle(parse_message(inbound.bytes));
        }
        while (port_->try_receive_release(inbound)) receive_releases(parse_message(inbound.bytes));
    }

    bool has_its_place() const { return known_; }
    const std::map<std::uint32_t, SlabTicket>& held() const { return held_; }
    std::map<ReleaseKind, int> kinds;

  private:
    void handle(const ParsedMessage& message) {
        ASSERT_TRUE(message);
        if (message.type == MessageType::Hello) {
            known_ = true;
            send(Challenge{1});
        } else if (message.type == MessageType::Answer) {
            admitted_ = true;
            run_.admit(kConsumerIndex, kSession);
            send(Welcome{kSession, kConsumerIndex, 1});
        } else if (message.type == MessageType::Credit) {
            window_ = message.as<Credit>().window;
            hand_out();
        } else if (message.type == MessageType::Disconnect) {
            const std::uint64_t session = message.as<Disconnect>().session;
            EXPECT_TRUE(session == 0 || session == kSession);
            known_ = admitted_ = false;
            held_.clear();
        }
    }

    void hand_out() {
        std::vector<SlabTicket> tickets;
        while (held_.size() < window_ && !waiting_.empty()) {
            tickets.push_back(waiting_.back());
            held_[waiting_.back().slab] = waiting_.back();
            waiting_.pop_back();
        }
        if (tickets.empty()) return;
        port_->send(peer_, encode(run_.names().nonce, Tickets{kSession, next_delivery_}, tickets));
        next_delivery_ += tickets.size();
    }

    void receive_releases(const ParsedMessage& message) {
        if (message.type != MessageType::Releases || !admitted_) return;
        std::uint64_t sequence = message.as<Releases>().first_sequence;
        for (const ReleaseRecord& record : message.records_of<Releases>()) {
            if (sequence++ != seen_ + 1) continue;
            ++seen_;
            ++kinds[static_cast<ReleaseKind>(record.kind)];
            held_.erase(record.ticket.slab);
        }
        send(ReleaseAck{kSession, seen_});
        if (waiting_.empty() && held_.empty())
            send(Drain{kSession, static_cast<std::uint32_t>(DrainReason::RunEnded), 0});
        else
            hand_out();
    }

    template <class Body>
    void send(const Body& body) {
        port_->send(peer_, encode(run_.names().nonce, body));
    }

    std::unique_ptr<BrokerPort> port_;
    FakeRun& run_;
    std::string peer_;
    bool known_ = false;
    bool admitted_ = false;
    std::vector<SlabTicket> waiting_;
    std::map<std::uint32_t, SlabTicket> held_;
    std::uint64_t next_delivery_ = 1;
    std::uint64_t seen_ = 0;
    std::size_t window_ = 0;
};

enum class Moment { Before, After };

// Fails once, at one of its calls, before or after the call has its effect.
class FailingPort final : public ConsumerPort {
  public:
    FailingPort(ConsumerPort& inner, int fails_at, Moment moment, std::function<void()> others_turn)
        : inner_(inner), fails_at_(fails_at), moment_(moment), others_turn_(std::move(others_turn)) {}

    bool send_work(std::span<const std::byte> bytes) override {
        return at_a_call([&] { return inner_.send_work(bytes); });
    }
    bool send_release(std::span<const std::byte> bytes) override {
        return at_a_call([&] { return inner_.send_release(bytes); });
    }
    bool try_receive(Bytes& bytes) override {
        return at_a_call([&] { return inner_.try_receive(bytes); });
    }
    void wait(std::span<const int> /*fds*/, std::chrono::nanoseconds /*timeout*/) override {
        at_a_call([&] {
            others_turn_();
            return true;
        });
    }

  private:
    bool at_a_call(const std::function<bool()>& call) {
        const bool fails = ++calls_ == fails_at_;
        if (fails && moment_ == Moment::Before) throw SystemError("a call of the test's port", EIO);
        const bool done = call();
        if (fails) throw SystemError("a call of the test's port", EIO);
        return done;
    }

    ConsumerPort& inner_;
    int fails_at_;
    Moment moment_;
    std::function<void()> others_turn_;
    int calls_ = 0;
};

class CallbackProcessor final : public SlabProcessor {
  public:
    void process(const SlabContents& slab, const Progress&, const StillCurrent&) override {
        ++slabs;
        EXPECT_FALSE(slab.samples.empty());
        if (behaviour) behaviour();
    }
    std::function<void()> behaviour;
    int slabs = 0;
};

// One consumer's run, from its Hello to its end.
struct LivingConsumer {
    explicit LivingConsumer(int fails_at = 0, Moment moment = Moment::Before)
        : port(*inner, fails_at, moment, [this] {
              producer.take_turn();
              clock.advance(std::chrono::milliseconds(50));  // lost messages are repeated
          }) {}

    // The exception of run(), if any.
    std::exception_ptr thrown() {
        std::exception_ptr problem;
        try {
            loop.run();
        } catch (...) {
            problem = std::current_exception();
        }
        producer.take_turn();
        return problem;
    }
    void expect_whole() {
        EXPECT_TRUE(producer.held().empty()) << "slab " << producer.held().begin()->first << " is held forever";
        EXPECT_FALSE(producer.has_its_place());
        EXPECT_EQ(load_word(run.heartbeat(kConsumerIndex).work), 0U);
    }

    FakeRun run;
    SlabMappings mappings = SlabMappings::attach(run.names());
    InMemoryHub hub;
    ManualClock clock;
    AnsweringProducer producer{hub, run};
    std::unique_ptr<ConsumerPort> inner = hub.consumer_port({.pid = 1000, .uid = 1, .gid = 1});
    FailingPort port;
    ConsumerSession session{port, clock, {.run_nonce = run.names().nonce, .token = 1, .window = 2, .first_window = 0}};
    CallbackProcessor processor;
    std::function<void()> on_making;
    std::function<void()> on_look;
    ConsumerLoop loop{port,
                      session,
                      mappings,
                      [this](std::uint32_t) -> SlabProcessor& {
                          if (on_making) on_making();
                          return processor;
                      },
                      clock,
                      {},
                      {},
                      [this] {
                          if (on_look) std::exchange(on_look, {})();
                          return RunLiveness::Open;
                      }};
};

TEST(AbandonedRun, IsCompleteWhenAnyCallOfThePortFails) {
    for (const Moment moment : {Moment::Before, Moment::After}) {
        int failures = 0;
        for (int call = 1;; ++call) {
            SCOPED_TRACE((moment == Moment::Before ? "before call " : "behind call ") + std::to_string(call));
            LivingConsumer consumer(call, moment);
            const auto problem = consumer.thrown();
            consumer.expect_whole();
            if (!problem) {
                EXPECT_EQ(consumer.producer.kinds[ReleaseKind::Completed], static_cast<int>(kAllSlabs));
                break;
            }
            ASSERT_FALSE(::testing::Test::HasFailure());
            ++failures;
        }
        EXPECT_GT(failures, 20);
    }
}

TEST(AbandonedRun, IsCompleteAfterAnyExceptionOfTheProcessor) {
    const std::array<std::function<void()>, 4> ways{[] { throw std::runtime_error("broken pixels"); },
                                                    [] { throw Error(ErrorKind::CannotWrite, "the disk is full"); },
                                                    [] { throw std::bad_alloc(); }, [] { throw 7; }};
    for (const auto& way : ways) {
        LivingConsumer consumer;
        consumer.processor.behaviour = way;
        EXPECT_TRUE(consumer.thrown());
        consumer.expect_whole();
        EXPECT_EQ(consumer.processor.slabs, 1);
        EXPECT_EQ(consumer.producer.kinds,
                  (std::map<ReleaseKind, int>{{ReleaseKind::Returned, 1}, {ReleaseKind::Failed, 1}}));
    }
}

TEST(AbandonedRun, IsCompleteWhenNoProcessorCanBeMade) {
    LivingConsumer consumer;
    consumer.on_making = [] { throw ConfigError("no such option", "Give another"); };
    EXPECT_TRUE(consumer.thrown());
    consumer.expect_whole();
}

TEST(AbandonedRun, IsCompleteWhenTheRunCannotBeChecked) {
    LivingConsumer consumer;
    consumer.on_look = [] { throw std::bad_alloc(); };
    consumer.clock.advance(ConsumerLoop::kObserveRunEvery);
    EXPECT_TRUE(consumer.thrown());
    consumer.expect_whole();
}

// No descriptor or memory is left for the mapping: the slab is sound.
TEST(AbandonedRun, ReturnsASlabThatCannotBeMapped) {
    LivingConsumer consumer;
    consumer.run.remove_spans();
    EXPECT_TRUE(consumer.thrown());
    consumer.expect_whole();
    EXPECT_EQ(consumer.producer.kinds, (std::map<ReleaseKind, int>{{ReleaseKind::Returned, 2}}));
}

TEST(AbandonedRun, ChargesAnUnreadableSlab) {
    LivingConsumer consumer;
    for (std::uint32_t slab = 0; slab < kAllSlabs; ++slab) consumer.run.slab(slab)[0] = std::byte{0};  // the magic
    EXPECT_TRUE(consumer.thrown());
    consumer.expect_whole();
    EXPECT_EQ(consumer.producer.kinds,
              (std::map<ReleaseKind, int>{{ReleaseKind::Returned, 1}, {ReleaseKind::Failed, 1}}));
}

// Proof that the slab has no reader left.
TEST(AbandonedRun, UnmapsItsSlabsBeforeTheProducerLearnsOfIt) {
    LivingConsumer consumer;
    const std::string span = consumer.run.names().span(0);
    const auto is_mapped_twice = [&] {
        std::ifstream maps("/proc/self/maps");
        int times = 0;
        for (std::string line; std::getline(maps, line);) times += line.find(span) != std::string::npos ? 1 : 0;
        return times == 2;  // here, the producer's and the consumer's
    };
    bool was_mapped = false;
    consumer.processor.behaviour = [&] {
        was_mapped = is_mapped_twice();
        throw std::runtime_error("broken pixels");
    };
    EXPECT_TRUE(consumer.thrown());
    EXPECT_TRUE(was_mapped);
    EXPECT_FALSE(is_mapped_twice());
}

}  // namespace
}  // namespace offramp
