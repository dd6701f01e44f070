#pragma once

#include <poll.h>

#include <cstddef>
#include <span>
#include <string>
#include <zmq.hpp>

#include "common/wire/messages.hpp"

namespace offramp {

// Throws the last error of libzmq. Errors: SystemError.
[[noreturn]] void throw_zmq(const std::string& tried);

// A libzmq socket and its last error. Its descriptor signals an event only once: a thread may sleep on it only after it
// has found no event on the socket. (zmq_poll() checks every socket twice before it sleeps, and once when it wakes,
// with two system calls each. Also, no other thread could use the sockets while it sleeps.)
//
// Owns: the socket. Borrows: its context. Thread: one at a time. Blocks: never. Errors: SystemError if libzmq fails.
class ZmqChannel {
  public:
    ZmqChannel(zmq::context_t& context, zmq::socket_type type);

    zmq::socket_t& socket() { return socket_; }

    // Returns false if no message is waiting. The frames of one message arrive together.
    bool receive_frame(zmq::message_t& frame);
    // Takes the message's payload frame. Offramp's messages have one frame. If there are more, the rest is dropped and
    // `bytes` is empty, which every parser rejects.
    bool receive_payload(zmq::message_t& frame, Bytes& bytes);
    // Returns false if the socket accepts no message now (EAGAIN), or the peer is unknown (EHOSTUNREACH): zmq_errno()
    // has the reason.
    bool send_frame(std::span<const std::byte> bytes, int flags);

    // True if no message is waiting, and the descriptor will signal the next one.
    bool may_sleep();
    pollfd to_poll() const { return {fd_, POLLIN, 0}; }

  private:
    zmq::socket_t socket_;
    int fd_;
    bool saw_nothing_ = false;
};

}  // namespace offramp
