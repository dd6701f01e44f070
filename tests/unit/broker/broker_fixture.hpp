#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "producer/broker/broker.hpp"
#include "tests/support/in_memory_ports/in_memory_ports.hpp"
#include "tests/support/manual_clock.hpp"

namespace offramp {

// Deaths on command: one eventfd per process.
class ScriptedWatch final : public PeerWatch {
  public:
    std::optional<WatchedProcess> open(pid_t pid) override {
        if (dead_.count(pid) != 0) return std::nullopt;
        if (open_refusal != 0) throw SystemError("pidfd_open", open_refusal);
        UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
        ends_[pid].push_back(::dup(fd.get()));
        return WatchedProcess{std::move(fd), static_cast<std::uint64_t>(pid) * 10};
    }
    void end(pid_t pid) {
        dead_[pid] = true;
        const std::uint64_t one = 1;
        for (const int fd : ends_[pid]) [[maybe_unused]] const auto put = ::write(fd, &one, sizeof one);
    }
    int kill(int pidfd) override {
        const std::uint64_t one = 1;
        if (kill_refusal == 0) [[maybe_unused]]
            const auto put = ::write(pidfd, &one, sizeof one);
        return kill_refusal;
    }
    int open_refusal = 0;  // an errno, if no process can be watched
    int kill_refusal = 0;  // an errno, for a process that may not be killed
    ~ScriptedWatch() override {
        for (const auto& [pid, fds] : ends_)
            for (const int fd : fds) ::close(fd);
    }

  private:
    std::map<pid_t, bool> dead_;
    std::map<pid_t, std::vector<int>> ends_;
};

// The ends of one group's port, and its consumers' heartbeats.
struct FixtureGroup {
    FixtureGroup() : heartbeats(16), port(hub.broker_port()) {}

    std::vector<HeartbeatRecord> heartbeats;
    InMemoryHub hub;
    std::unique_ptr<BrokerPort> port;
};

// A broker that the test steps; the test sets times, deaths and messages.
struct FixtureRun {
    explicit FixtureRun(std::uint32_t slabs) : bytes(slabs * kSlabBytes), exchange(SlabExchange::make(1)) {}

    void step() {
        if (before_step) before_step();
        broker->step();
    }
    // One filled slab of `samples` samples, as batch `batch`.
    void publish(std::uint64_t batch, std::uint32_t samples = 4) {
        step();
        auto loan = exchange->wait_for_slab();
        exchange->publish(std::move(*loan), {.first_batch = batch,
                                             .samples = samples,
                                             .batches_ended = 1,
                                             .bytes = samples * 10U,
                                             .items_through = (batch + 1) * 4});
        step();
    }
    // Lets time pass while the broker runs: it reads the clock at intervals.
    void advance(std::chrono::nanoseconds time) {
        constexpr std::chrono::nanoseconds kBetweenLooks = std::chrono::seconds(1);
        for (; time > std::chrono::nanoseconds{}; time -= kBetweenLooks) {
            clock.advance(std::min(time, kBetweenLooks));
            step();
        }
    }
    BrokerReport report() { return broker->report(); }
    std::span<std::byte> bytes_of(std::uint32_t slab) { return {&bytes[slab * kSlabBytes], kSlabBytes}; }
    Broker::SlabMemory memory() {
        return {[this](std::uint32_t slab) { return !unmade.contains(slab); },
                [this](std::uint32_t slab) { return bytes_of(slab); }};
    }

    static constexpr std::uint64_t kNonce = 0xabcd00000000004dULL;
    std::uint64_t tokens = 0;  // one per consumer
    static constexpr std::size_t kSlabBytes = 512;
    std::vector<std::byte> bytes;
    std::set<std::uint32_t> unmade;  // slabs without memory yet
    ScriptedWatch watch;
    ManualClock clock;
    std::shared_ptr<SlabExchange> exchange;
    std::unique_ptr<Broker> broker;
    std::function<void()> before_step{};  // for what other threads do
};

struct BrokerFixture;

// A consumer that the test controls, over a real port.
struct ScriptedConsumer {
    ScriptedConsumer(FixtureRun& run, FixtureGroup& group, pid_t pid, std::uint32_t window = 2, uid_t uid = 1000);
    ScriptedConsumer(BrokerFixture& fixture, pid_t pid, std::uint32_t window = 2, uid_t uid = 1000);

    void hello(std::uint64_t nonce);
    void hello();
    bool join();                                                // hello, challenge, answer, welcome
    void receive();                                             // takes the messages that have arrived
    void take(std::uint64_t batch, std::uint32_t samples = 4);  // publishes the batch, and receives
    template <class... Parts>
    void send(const Parts&... message);  // on the work channel, and receives
    void release(const SlabTicket& ticket, ReleaseKind kind = ReleaseKind::Completed);
    void send_releases(std::uint64_t first, const std::vector<ReleaseRecord>& records);
    void work_on(const SlabTicket& ticket);
    void die();

    FixtureRun& run;
    FixtureGroup& group;
    pid_t pid;
    std::uint32_t window;
    std::uint64_t token;
    std::unique_ptr<ConsumerPort> port;
    std::optional<Challenge> challenge;
    std::optional<Welcome> welcome;
    std::optional<Refused> refused;
    std::optional<Drain> drain;
    std::vector<SlabTicket> tickets;  // received, in order
    std::uint64_t acknowledged = 0;
    std::uint64_t sent = 0;
};

struct JoinedConsumer : ScriptedConsumer {
    explicit JoinedConsumer(BrokerFixture& fixture, pid_t its_pid, std::uint32_t its_window = 2)
        : ScriptedConsumer(fixture, its_pid, its_window) {
        join();
    }
    JoinedConsumer(FixtureRun& its_run, FixtureGroup& its_group, pid_t its_pid, std::uint32_t its_window = 2)
        : ScriptedConsumer(its_run, its_group, its_pid, its_window) {
        join();
    }
};

// A run without groups.
struct BrokerFixture : FixtureRun, FixtureGroup {
    explicit BrokerFixture(std::uint32_t slabs = 4, BrokerOptions options = {})
        : FixtureRun(slabs),
          consumer_table(16),
          entries(slabs),
          ledger(SlabLedger::format({consumer_table, entries, first_session_of(kNonce)}, 1)) {
        options.run_nonce = kNonce;
        options.allowed_uids = {1000};
        broker = std::make_unique<Broker>(ledger, *port, *exchange, watch, clock, heartbeats, memory(), options);
    }

    bool can_fill() {
        broker->step();
        return ledger.count(SlabState::Filling) > 0;
    }

    std::vector<LedgerConsumer> consumer_table;
    std::vector<SlabEntry> entries;
    SlabLedger ledger;
};

// A message that names the fixture's run.
template <class Body>
Bytes of_run(const Body& body) {
    return encode(BrokerFixture::kNonce, body);
}
template <class Body>
Bytes of_run(const Body& body, std::span<const typename RecordOf<Body>::Type> records) {
    return encode(BrokerFixture::kNonce, body, records);
}

inline ScriptedConsumer::ScriptedConsumer(FixtureRun& its_run, FixtureGroup& its_group, pid_t its_pid,
                                          std::uint32_t its_window, uid_t uid)
    : run(its_run),
      group(its_group),
      pid(its_pid),
      window(its_window),
      token(++its_run.tokens),
      port(its_group.hub.consumer_port({its_pid, uid, uid})) {}
inline ScriptedConsumer::ScriptedConsumer(BrokerFixture& fixture, pid_t its_pid, std::uint32_t its_window, uid_t uid)
    : ScriptedConsumer(fixture, fixture, its_pid, its_window, uid) {}

inline void ScriptedConsumer::hello(std::uint64_t nonce) {
    port->send_work(encode(nonce, Hello{.token = token, .window = window}));
    run.step();
    receive();
}
inline void ScriptedConsumer::hello() { hello(BrokerFixture::kNonce); }

inline bool ScriptedConsumer::join() {
    hello();
    if (!challenge) return false;
    send(Answer{challenge->secret});
    if (welcome) store_word(group.heartbeats[welcome->consumer_index].session, welcome->session);
    return welcome.has_value();
}

inline void ScriptedConsumer::receive() {
    Bytes bytes;
    while (port->try_receive(bytes)) {
        const ParsedMessage message = parse_message(bytes);
        if (message.type == MessageType::Challenge) challenge = message.as<Challenge>();
        if (message.type == MessageType::Welcome) welcome = message.as<Welcome>();
        if (message.type == MessageType::Refused) refused = message.as<Refused>();
        if (message.type == MessageType::Drain) drain = message.as<Drain>();
        if (message.type == MessageType::ReleaseAck) acknowledged = message.as<ReleaseAck>().through_sequence;
        if (message.type == MessageType::Tickets)
            for (const SlabTicket& ticket : message.records_of<Tickets>()) tickets.push_back(ticket);
    }
}

inline void ScriptedConsumer::take(std::uint64_t batch, std::uint32_t samples) {
    run.publish(batch, samples);
    receive();
}
template <class... Parts>
void ScriptedConsumer::send(const Parts&... message) {
    port->send_work(of_run(message...));
    run.step();
    receive();
}

inline void ScriptedConsumer::send_releases(std::uint64_t first, const std::vector<ReleaseRecord>& records) {
    port->send_release(of_run(Releases{welcome->session, first}, records));
    run.step();
    receive();
}
inline void ScriptedConsumer::release(const SlabTicket& ticket, ReleaseKind kind) {
    store_word(group.heartbeats[welcome->consumer_index].work, 0);
    send_releases(++sent, {{ticket, static_cast<std::uint32_t>(kind), 0}});
}
inline void ScriptedConsumer::work_on(const SlabTicket& ticket) {
    store_word(group.heartbeats[welcome->consumer_index].work,
               WorkWord{ticket.slab, ticket.attempt, static_cast<std::uint32_t>(ticket.generation)}.pack());
}
inline void ScriptedConsumer::die() {
    run.watch.end(pid);
    run.step();
}

}  // namespace offramp
