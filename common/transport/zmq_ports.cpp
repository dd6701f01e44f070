#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/scarcity.hpp"
#include "common/transport/connection_limit.hpp"
#include "common/transport/peer_address.hpp"
#include "common/transport/ports.hpp"
#include "common/transport/socket_path.hpp"
#include "common/transport/zmq_channel.hpp"

namespace offramp {
namespace {

constexpr std::chrono::seconds kTheftCheckEvery{1};
constexpr int kDisconnectLingerMs = 1000;
// libzmq ends the process where it gets no descriptor for its own: a dozen a socket's context, and those of the first
// peers.
constexpr std::size_t kDescriptorsOfABroker = 64;
constexpr std::size_t kDescriptorsOfAConsumer = 24;
// And where it gets no thread: one for its sockets, one that closes them.
constexpr unsigned kThreadsOfAContext = 2;

PeerCredentials sender_of(zmq::message_t& frame) {
    const char* address = ::zmq_msg_gets(frame.handle(), "Peer-Address");
    return parse_peer_address(address == nullptr ? "" : address);
}

// In milliseconds: rounded up, so that a short time is not spun away.
int to_poll_timeout(std::chrono::nanoseconds timeout) {
    if (timeout <= timeout.zero()) return 0;
    constexpr std::chrono::milliseconds kMost{std::numeric_limits<int>::max()};
    return static_cast<int>(timeout >= kMost ? kMost.count()
                                             : std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
}

// `turn` is not held while it sleeps.
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

// Sets the umask for a scope: the only say that one has in the mode of an ipc socket's file. It is the whole
// process's.
class UmaskScope {
  public:
    explicit UmaskScope(mode_t mask) : previous_(::umask(mask)) {}
    UmaskScope(const UmaskScope&) = delete;
    UmaskScope& operator=(const UmaskScope&) = delete;
    ~UmaskScope() { ::umask(previous_); }

  private:
    mode_t previous_;
};

std::string path_of(const std::string& ipc_address) { return ipc_address.substr(std::string_view("ipc://").size()); }

// Hears of a bound socket's connections, from libzmq's own thread.
class ConnectionEvents {
  public:
    ConnectionEvents(zmq::context_t& context, ZmqChannel& channel, const std::string& name)
        : watched_(channel.socket().handle()), events_(context, zmq::socket_type::pair) {
        const std::string address = "inproc://connections-of-" + name;
        if (::zmq_socket_monitor(watched_, address.c_str(), ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0)
            throw_zmq("watching the connections of the " + name);
        // A full queue would hold libzmq's thread up; how many connect is limited.
        events_.socket().set(zmq::sockopt::rcvhwm, 0);
        events_.socket().connect(address);
    }
    // What libzmq cannot send any more it never frees.
    ~ConnectionEvents() { ::zmq_socket_monitor(watched_, nullptr, 0); }
    ConnectionEvents(const ConnectionEvents&) = delete;
    ConnectionEvents& operator=(const ConnectionEvents&) = delete;

    pollfd to_poll() const { return events_.to_poll(); }
    void tell(ConnectionLimit& limit) {
        zmq::message_t frame;
        while (events_.receive_frame(frame)) {
            std::uint16_t event = 0;
            std::uint32_t fd = 0;
            if (frame.size() >= sizeof event + sizeof fd) {
                std::memcpy(&event, frame.data(), sizeof event);
                std::memcpy(&fd, frame.data<char>() + sizeof event, sizeof fd);
            }
            if (event == ZMQ_EVENT_ACCEPTED) limit.accepted(static_cast<int>(fd));
            if (event == ZMQ_EVENT_DISCONNECTED) limit.disconnected(static_cast<int>(fd));
            while (frame.more() && events_.receive_frame(frame)) continue;  // the address
        }
    }

  private:
    void* watched_;
    ZmqChannel events_;
};

class ZmqBrokerPort final : public BrokerPort {
  public:
    ZmqBrokerPort(const Endpoint& endpoint, bool group_may_connect)
        : lock_(endpoint.run_dir),
          work_(context_, zmq::socket_type::router),
          free_list_(context_, zmq::socket_type::pull) {
        work_.socket().set(zmq::sockopt::router_mandatory, true);
        work_events_.emplace(context_, work_, "work channel");
        free_list_events_.emplace(context_, free_list_, "free-list channel");
        const UmaskScope mode(group_may_connect ? 0117 : 0177);
        bind(work_.socket(), endpoint.work_address(), work_path_);
        bind(free_list_.socket(), endpoint.free_list_address(), free_list_path_);
        endpoint.remove_previous_sockets();
    }

    SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) override {
        if (!work_.send_frame(std::as_bytes(std::span(peer)), ZMQ_SNDMORE))
            return ::zmq_errno() == EHOSTUNREACH ? SendOutcome::PeerGone : SendOutcome::QueueFull;
        // The peer's queue had room for the first frame, so it takes the message; a peer that dies in between
        // is seen by its pidfd.
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

    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout, std::unique_lock<std::mutex>& turn) override {
        const TimePoint now = std::chrono::steady_clock::now();
        if (now - checked_at_ >= kTheftCheckEvery) {
            work_path_->require_still_ours();
            free_list_path_->require_still_ours();
            checked_at_ = now;
        }
        if (connections_rang_) {
            work_events_->tell(connections_);
            free_list_events_->tell(connections_);
        }
        connections_rang_ = true;  // without a sleep nobody tells: in a flood it is asked each time
        if (may_have_messages()) return;
        polled_.assign({work_events_->to_poll(), free_list_events_->to_poll(), work_.to_poll(), free_list_.to_poll()});
        poll_until(polled_, fds, std::min<std::chrono::nanoseconds>(timeout, kTheftCheckEvery), turn);
        connections_rang_ = polled_[0].revents != 0 || polled_[1].revents != 0;
    }

  private:
    static void bind(zmq::socket_t& socket, const std::string& address, std::optional<BoundSocketPath>& path) {
        require_free_socket_path(path_of(address));
        if (::zmq_bind(socket.handle(), address.c_str()) != 0) throw_zmq("binding " + address);
        path.emplace(path_of(address));
    }

    // In this order, so that the sockets are closed before their files go, and those before another producer
    // may come.
    RunDirectoryLock lock_;
    std::optional<BoundSocketPath> work_path_;
    std::optional<BoundSocketPath> free_list_path_;
    zmq::context_t context_;
    ZmqChannel work_;
    ZmqChannel free_list_;
    std::optional<ConnectionEvents> work_events_;
    std::optional<ConnectionEvents> free_list_events_;
    ConnectionLimit connections_;
    bool connections_rang_ = true;  // their sockets may have something to tell

    TimePoint checked_at_ = std::chrono::steady_clock::now();
    std::vector<pollfd> polled_;
    zmq::message_t frame_;
};

class ZmqConsumerPort final : public ConsumerPort {
  public:
    explicit ZmqConsumerPort(const Endpoint& endpoint)
        : work_(context_, zmq::socket_type::dealer), free_list_(context_, zmq::socket_type::push) {
        // Its last message is Disconnect, which nobody answers: closing waits until it has left, but for no dead
        // producer's sake.
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

template <class Make>
auto translate_errors(const std::string& tried, Make make) {
    try {
        return make();
    } catch (const zmq::error_t& problem) {
        throw SystemError(tried + " (" + problem.what() + ")", problem.num());
    }
}

}  // namespace

std::unique_ptr<BrokerPort> make_zmq_broker_port(const Endpoint& endpoint, bool group_may_connect) {
    Endpoint::check_run_dir(endpoint.run_dir);
    require_free_descriptors(kDescriptorsOfABroker, "making the broker's sockets");
    require_threads(kThreadsOfAContext);
    return translate_errors("making the broker's sockets in " + endpoint.run_dir, [&] {
        return std::unique_ptr<BrokerPort>(std::make_unique<ZmqBrokerPort>(endpoint, group_may_connect));
    });
}

std::unique_ptr<ConsumerPort> make_zmq_consumer_port(const Endpoint& endpoint) {
    Endpoint::check_run_dir(endpoint.run_dir);
    require_free_descriptors(kDescriptorsOfAConsumer, "making a consumer's sockets");
    require_threads(kThreadsOfAContext);
    return translate_errors("making a consumer's sockets for " + endpoint.run_dir,
                            [&] { return std::unique_ptr<ConsumerPort>(std::make_unique<ZmqConsumerPort>(endpoint)); });
}

}  // namespace offramp
