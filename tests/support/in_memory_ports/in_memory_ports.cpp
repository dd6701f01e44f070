#include "tests/support/in_memory_ports/in_memory_ports.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

// Wakes one port's wait(). The queues are the truth: a port looks at them before it sleeps, and a notice that
// arrives late or twice only makes wait() return early.
class Doorbell {
  public:
    Doorbell() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (!fd_) throw SystemError("making an eventfd", errno);
    }
    void notify() const noexcept {
        const std::uint64_t one = 1;
        // A full counter (EAGAIN) is ringing already.
        [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
    }
    int fd() const { return fd_.get(); }
    void silence() const {
        std::uint64_t rings = 0;
        [[maybe_unused]] const ssize_t bytes_read = ::read(fd_.get(), &rings, sizeof rings);
    }
    void sleep(std::span<const int> fds, std::chrono::nanoseconds timeout) const {
        std::vector<pollfd> polled{{fd_.get(), POLLIN, 0}};
        for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
        timeout = std::max(timeout, timeout.zero());
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
        const timespec time{static_cast<time_t>(seconds.count()), static_cast<long>((timeout - seconds).count())};
        if (::ppoll(polled.data(), polled.size(), &time, nullptr) < 0 && errno != EINTR)
            throw SystemError("waiting for messages", errno);
        silence();
    }

  private:
    UniqueFd fd_;
};

struct Connection {
    std::string id;
    PeerCredentials credentials;
    std::deque<Bytes> to_consumer;
    std::deque<Bytes> work;
    std::deque<Bytes> releases;
    bool open = true;         // the consumer's port lives
    bool wants_room = false;  // one of its sends was refused
    Doorbell doorbell;
};

}  // namespace

struct InMemoryHub::State {
    explicit State(std::size_t queue_capacity) : capacity(queue_capacity) {}

    const std::size_t capacity;
    std::mutex mutex;
    std::list<std::shared_ptr<Connection>> connections;  // the next one to be read is in front
    std::uint64_t last_id = 0;
    bool has_broker = false;
    Doorbell broker_doorbell;

    // All below: with the mutex held.
    std::string new_id() { return "in-memory-" + std::to_string(++last_id); }

    bool take(std::deque<Bytes> Connection::*queue, Inbound& inbound) {
        for (auto at = connections.begin(); at != connections.end(); ++at) {
            Connection& from = **at;
            auto& messages = from.*queue;
            if (messages.empty()) continue;
            inbound.bytes = std::move(messages.front());
            messages.pop_front();
            inbound.credentials = from.credentials;
            inbound.peer = from.id;
            if (std::exchange(from.wants_room, false)) from.doorbell.notify();
            if (!from.open && from.work.empty() && from.releases.empty())
                connections.erase(at);
            else
                connections.splice(connections.end(), connections, at);  // the others come first next time
            return true;
        }
        return false;
    }

    bool put(Connection& from, std::deque<Bytes> Connection::*queue, std::span<const std::byte> bytes) {
        if (bytes.size() > kMaxMessageBytes) return true;  // like libzmq: accepted, then dropped
        auto& messages = from.*queue;
        if (messages.size() >= capacity) {
            from.wants_room = true;
            return false;
        }
        messages.emplace_back(bytes.begin(), bytes.end());
        broker_doorbell.notify();
        return true;
    }

    bool has_messages() const {
        return std::any_of(connections.begin(), connections.end(), [](const auto& connection) {
            return !connection->work.empty() || !connection->releases.empty();
        });
    }
};

namespace {

template <class State>
class InMemoryBrokerPort final : public BrokerPort {
  public:
    explicit InMemoryBrokerPort(std::shared_ptr<State> state) : state_(std::move(state)) {}

    // Messages that had arrived are lost with the port, as with a socket's queue. Consumers stay and appear as
    // new peers.
    ~InMemoryBrokerPort() override {
        const std::lock_guard guard(state_->mutex);
        state_->has_broker = false;
        state_->connections.remove_if([](const auto& connection) { return !connection->open; });
        for (const auto& connection : state_->connections) {
            connection->work.clear();
            connection->releases.clear();
            connection->id.clear();
            if (std::exchange(connection->wants_room, false)) connection->doorbell.notify();
        }
    }

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        const std::lock_guard guard(state_->mutex);
        for (const auto& connection : state_->connections) {
            if (!connection->open || connection->id != peer) continue;
            if (bytes.size() > kMaxMessageBytes) return SendOutcome::Sent;
            if (connection->to_consumer.size() >= state_->capacity) return SendOutcome::QueueFull;
            connection->to_consumer.emplace_back(bytes.begin(), bytes.end());
            connection->doorbell.notify();
            return SendOutcome::Sent;
        }
        return SendOutcome::PeerGone;
    }

    bool try_receive_work(Inbound& inbound) override {
        const std::lock_guard guard(state_->mutex);
        return state_->take(&Connection::work, inbound);
    }
    bool try_receive_release(Inbound& inbound) override {
        const std::lock_guard guard(state_->mutex);
        if (!state_->take(&Connection::releases, inbound)) return false;
        inbound.peer.clear();  // this channel has no replies
        return true;
    }

    bool may_have_messages() override {
        const std::lock_guard guard(state_->mutex);
        return state_->has_messages();
    }

    bool prepare_wait(std::vector<int>& fds) override {
        state_->broker_doorbell.silence();
        if (may_have_messages()) return false;
        fds.push_back(state_->broker_doorbell.fd());
        return true;
    }

    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        if (may_have_messages()) return;
        const bool in_turns = turn.owns_lock();
        if (in_turns) turn.unlock();
        state_->broker_doorbell.sleep(fds, timeout);
        if (in_turns) turn.lock();
    }

  private:
    std::shared_ptr<State> state_;
};

template <class State>
class InMemoryConsumerPort final : public ConsumerPort {
  public:
    InMemoryConsumerPort(std::shared_ptr<State> state, std::shared_ptr<Connection> connection)
        : state_(std::move(state)), connection_(std::move(connection)) {}

    // Messages that arrived stay readable for the broker.
    ~InMemoryConsumerPort() override {
        const std::lock_guard guard(state_->mutex);
        connection_->open = false;
        if (connection_->work.empty() && connection_->releases.empty()) state_->connections.remove(connection_);
    }

    bool send_work(std::span<const std::byte> bytes) override {
        const std::lock_guard guard(state_->mutex);
        return state_->put(*connection_, &Connection::work, bytes);
    }
    bool send_release(std::span<const std::byte> bytes) override {
        const std::lock_guard guard(state_->mutex);
        return state_->put(*connection_, &Connection::releases, bytes);
    }
    bool try_receive(Bytes& bytes) override {
        const std::lock_guard guard(state_->mutex);
        if (connection_->to_consumer.empty()) return false;
        bytes = std::move(connection_->to_consumer.front());
        connection_->to_consumer.pop_front();
        return true;
    }

    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) override {
        {
            const std::lock_guard guard(state_->mutex);
            if (!connection_->to_consumer.empty()) return;
        }
        connection_->doorbell.sleep(fds, timeout);
    }

  private:
    std::shared_ptr<State> state_;
    std::shared_ptr<Connection> connection_;
};

}  // namespace

InMemoryHub::InMemoryHub(std::size_t queue_capacity) : state_(std::make_shared<State>(queue_capacity)) {
    expect(queue_capacity > 0, "a queue holds at least one message");
}
InMemoryHub::~InMemoryHub() = default;

std::unique_ptr<BrokerPort> InMemoryHub::broker_port() {
    const std::lock_guard guard(state_->mutex);
    if (state_->has_broker)
        throw SystemError("making a second broker port of one in-memory hub", EADDRINUSE, {}, ErrorKind::RunInUse);
    auto port = std::make_unique<InMemoryBrokerPort<State>>(state_);
    state_->has_broker = true;
    for (const auto& connection : state_->connections) connection->id = state_->new_id();
    return port;
}

std::unique_ptr<ConsumerPort> InMemoryHub::consumer_port(PeerCredentials credentials) {
    auto connection = std::make_shared<Connection>();
    connection->credentials = credentials;
    const std::lock_guard guard(state_->mutex);
    if (state_->has_broker) connection->id = state_->new_id();
    state_->connections.push_back(connection);
    return std::make_unique<InMemoryConsumerPort<State>>(state_, connection);
}

}  // namespace offramp
