#include "common/transport/zmq_channel.hpp"

#include <cerrno>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Messages that may wait in libzmq, per peer and direction: far more than a consumer's window, and little memory (16
// MiB at most).
constexpr int kQueuedMessages = 1024;

zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type) {
    zmq::socket_t socket(context, type);
    // The protocol acknowledges everything that must not be lost, so closing need not wait.
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::sndhwm, kQueuedMessages);
    socket.set(zmq::sockopt::rcvhwm, kQueuedMessages);
    socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(kMaxMessageBytes));
    return socket;
}

}  // namespace

void throw_zmq(const std::string& tried) {
    const int reason = ::zmq_errno();
    // libzmq has further error numbers beyond the system's.
    throw SystemError(tried + " (" + ::zmq_strerror(reason) + ")", reason);
}

ZmqChannel::ZmqChannel(zmq::context_t& context, zmq::socket_type type)
    : socket_(make_socket(context, type)), fd_(socket_.get(zmq::sockopt::fd)) {}

bool ZmqChannel::receive_frame(zmq::message_t& frame) {
    saw_nothing_ = false;
    while (::zmq_msg_recv(frame.handle(), socket_.handle(), ZMQ_DONTWAIT) < 0) {
        if (::zmq_errno() == EINTR) continue;
        if (::zmq_errno() != EAGAIN) throw_zmq("receiving a message");
        saw_nothing_ = true;
        return false;
    }
    return true;
}

bool ZmqChannel::receive_payload(zmq::message_t& frame, Bytes& bytes) {
    if (!receive_frame(frame)) return false;
    const auto* first = frame.data<std::byte>();
    bytes.assign(first, first + frame.size());
    if (!frame.more()) return true;
    bytes.clear();
    zmq::message_t rest;
    do {
        if (!receive_frame(rest)) break;
    } while (rest.more());
    return true;
}

bool ZmqChannel::send_frame(std::span<const std::byte> bytes, int flags) {
    saw_nothing_ = false;
    while (::zmq_send(socket_.handle(), bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT) < 0) {
        if (::zmq_errno() == EINTR) continue;
        if (::zmq_errno() == EAGAIN || ::zmq_errno() == EHOSTUNREACH) return false;
        throw_zmq("sending a message of " + std::to_string(bytes.size()) + " bytes");
    }
    return true;
}

bool ZmqChannel::may_sleep() {
    if (saw_nothing_) return true;
    int events = 0;
    std::size_t size = sizeof events;
    while (::zmq_getsockopt(socket_.handle(), ZMQ_EVENTS, &events, &size) != 0)
        if (::zmq_errno() != EINTR) throw_zmq("asking whether messages wait");
    return (events & ZMQ_POLLIN) == 0;
}

}  // namespace offramp
