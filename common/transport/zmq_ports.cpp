#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"
#include "common/transport/endpoint.hpp"
#include "common/transport/listening_socket.hpp"
#include "common/transport/peer_connections.hpp"
#include "common/transport/ports.hpp"
#include "common/transport/zmq_channel.hpp"
#include "common/transport/zmq_descriptors.hpp"

namespace offramp {
namespace {

constexpr std::chrono::seconds kTheftCheckEvery{1};
constexpr int kDisconnectLingerMs = 1000;
constexpr std::chrono::milliseconds kRetryEvery{100};
// A port has two channels.
constexpr std::size_t kSockets = 2;
// Descriptors beyond the broker's sockets: a producer that can never admit a consumer is an error, not a stalled run.
constexpr std::size_t kRoomOfABroker = 32;
// libzmq aborts the process if it cannot start its threads: one for its sockets, and one that closes them.
constexpr unsigned kThreadsOfAContext = 2;

PeerCredentials sender_of(zmq::message_t& frame) {
    const char* address = ::zmq_msg_gets(frame.handle(), "Peer-Address");
    return parse_peer_address(address == nullptr ? "" : address);
}

// Milliseconds, rounded up, so that a short timeout does not become a busy loop.
int to_poll_timeout(std::chrono::nanoseconds timeout) {
    if (timeout <= timeout.zero()) return 0;
    constexpr std::chrono::milliseconds kMost{std::numeric_limits<int>::max()};
    return static_cast<int>(timeout >= kMost ? kMost.count()
                                             : std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
}

// Releases `turn` while it sleeps.
void poll_until(std::vector<pollfd>& polled, std::span<const int> fds, std::chrono::nanoseconds timeout,
                std::unique_lock<std::mutex>& turn) {
    for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
    const bool in_turns = turn.owns_lock();
    if (in_turns) turn.unlock();
    const int found = ::poll(polled.data(), polled.size(), to_poll_timeout(timeout));
    const int reason = errno;
    if (in_turns) turn.lock();
    if (found < 0 && reason != EINTR) throw SystemError("waiting for messages", reason);
}

std::string path_of(const std::string& ipc_address) { return ipc_address.substr(std::string_view("ipc://").size()); }

// The listening side of a broker's socket.
struct Listening {
    std::optional<BoundSocketPath> path;
    std::optional<ZmqDoor> door;
};

class ZmqBrokerPort final : public BrokerPort {
  public:
    ZmqBrokerPort(const Endpoint& endpoint, bool group_may_connect)
        : lock_(endpoint.run_dir),
          work_(context_, zmq::socket_type::router),
          free_list_(context_, zmq::socket_type::pull) {
        work_.socket().set(zmq::sockopt::router_mandatory, true);
        listen(work_.socket(), endpoint.work_address(), group_may_connect, at_work_);
        listen(free_list_.socket(), endpoint.free_list_address(), group_may_connect, at_free_list_);
        endpoint.remove_previous_sockets();
    }

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        if (!work_.send_frame(std::as_bytes(std::span(peer)), ZMQ_SNDMORE))
            return ::zmq_errno() == EHOSTUNREACH ? SendOutcome::PeerGone : SendOutcome::QueueFull;
        // The peer's queue had room for the first frame, so it accepts the message. The peer's pidfd reveals a death in
        // between.
        if (!work_.send_frame(bytes, 0)) return SendOutcome::PeerGone;
        return SendOutcome::Sent;
    }

    bool try_receive_work(Inbound& inbound) override {
        if (!work_.receive_frame(frame_)) return false;
        inbound.peer = frame_.to_string();
        const bool has_payload = frame_.more() && work_.receive_payload(frame_, inbound.bytes);
        if (!has_payload) inbound.bytes.clear();
        inbound.credentials = sender_of(frame_);
        return true;
    }

    bool try_receive_release(Inbound& inbound) override {
        if (!free_list_.receive_payload(frame_, inbound.bytes)) return false;
        inbound.peer.clear();
        inbound.credentials = sender_of(frame_);
        return true;
    }

    bool may_have_messages() override { return !work_.may_sleep() || !free_list_.may_sleep(); }

    bool prepare_wait(std::vector<int>& fds) override {
        if (!may_sleep()) return false;
        fds.push_back(work_.to_poll().fd);
        fds.push_back(free_list_.to_poll().fd);
        return true;
    }

    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        if (!may_sleep()) return;
        polled_.assign({work_.to_poll(), free_list_.to_poll()});
        poll_until(polled_, fds, std::min<std::chrono::nanoseconds>(timeout, kTheftCheckEvery), turn);
    }

  private:
    // After the checks that are due.
    bool may_sleep() {
        const TimePoint now = std::chrono::steady_clock::now();
        if (now - checked_at_ >= kTheftCheckEvery) {
            at_work_.path->require_still_ours();
            at_free_list_.path->require_still_ours();
            checked_at_ = now;
        }
        if (now - retried_at_ >= kRetryEvery) {
            at_work_.door->retry();
            at_free_list_.door->retry();
            retried_at_ = now;
        }
        return !may_have_messages();
    }

    void listen(zmq::socket_t& socket, const std::string& address, bool group_may_connect, Listening& at) {
        at.door.emplace(connections_);
        at.path.emplace(at.door->fd(), path_of(address), group_may_connect);
        const int fd = at.door->fd();
        if (::zmq_setsockopt(socket.handle(), ZMQ_USE_FD, &fd, sizeof fd) != 0 ||
            ::zmq_bind(socket.handle(), address.c_str()) != 0)
            throw_zmq("binding " + address);
        at.door->disown();
    }

    // Keep this order: the sockets close before their files are removed, and the files are removed before another
    // producer can start.
    ServingLock lock_;
    ConnectionLimit connections_;
    Listening at_work_;
    Listening at_free_list_;
    zmq::context_t context_;
    ZmqChannel work_;
    ZmqChannel free_list_;

    TimePoint checked_at_ = std::chrono::steady_clock::now();
    TimePoint retried_at_ = checked_at_;
    std::vector<pollfd> polled_;
    zmq::message_t frame_;
};

class ZmqConsumerPort final : public ConsumerPort {
  public:
    explicit ZmqConsumerPort(const Endpoint& endpoint)
        : work_(context_, zmq::socket_type::dealer), free_list_(context_, zmq::socket_type::push) {
        // The last message is Disconnect, which gets no answer. Closing waits until it is sent, but not for a dead
        // producer.
        work_.socket().set(zmq::sockopt::linger, kDisconnectLingerMs);
        connect(work_.socket(), endpoint.work_address());
        connect(free_list_.socket(), endpoint.free_list_address());
    }

    bool send_work(std::span<const std::byte> bytes) override {
        work_is_full_ = !work_.send_frame(bytes, 0);
        return !work_is_full_;
    }
    bool send_release(std::span<const std::byte> bytes) override {
        free_list_is_full_ = !free_list_.send_frame(bytes, 0);
        return !free_list_is_full_;
    }
    bool try_receive(Bytes& bytes) override { return work_.receive_payload(frame_, bytes); }

    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) override {
        const auto work_events = static_cast<short>(work_is_full_ ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN);
        items_.assign({{work_.socket().handle(), 0, work_events, 0}});
        if (free_list_is_full_) items_.push_back({free_list_.socket().handle(), 0, ZMQ_POLLOUT, 0});
        for (const int fd : fds) items_.push_back({nullptr, fd, ZMQ_POLLIN, 0});
        if (::zmq_poll(items_.data(), static_cast<int>(items_.size()), to_poll_timeout(timeout)) < 0 &&
            ::zmq_errno() != EINTR)
            throw_zmq("waiting for messages");
    }

  private:
    static void connect(zmq::socket_t& socket, const std::string& address) {
        if (::zmq_connect(socket.handle(), address.c_str()) != 0) throw_zmq("connecting to " + address);
    }

    zmq::context_t context_;
    ZmqChannel work_;
    ZmqChannel free_list_;
    bool work_is_full_ = false;
    bool free_list_is_full_ = false;
    std::vector<zmq_pollitem_t> items_;
    zmq::message_t frame_;
};

// Creates a port whose libzmq context uses descriptors that were opened in advance.
template <class Port, class... Arguments>
std::unique_ptr<Port> make_port(const std::string& tried, std::size_t room, Arguments&&... arguments) {
    require_threads(kThreadsOfAContext);
    const ZmqDescriptors descriptors(tried, kSockets, room);
    try {
        return std::make_unique<Port>(std::forward<Arguments>(arguments)...);
    } catch (const zmq::error_t& problem) {
        throw SystemError(tried + " (" + problem.what() + ")", problem.num());
    }
}

}  // namespace

std::unique_ptr<BrokerPort> make_zmq_broker_port(const Endpoint& endpoint, bool group_may_connect) {
    Endpoint::check_run_dir(endpoint.run_dir);
    return make_port<ZmqBrokerPort>("making the broker's sockets in " + endpoint.run_dir, kRoomOfABroker, endpoint,
                                    group_may_connect);
}

std::unique_ptr<ConsumerPort> make_zmq_consumer_port(const Endpoint& endpoint) {
    Endpoint::check_run_dir(endpoint.run_dir);
    return make_port<ZmqConsumerPort>("making a consumer's sockets for " + endpoint.run_dir, kSockets, endpoint);
}

}  // namespace offramp
