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

// A socket of libzmq, and its last error. Its descriptor signals an event only once: a thread that found no event may
// sleep on it, any other checks the socket first. (zmq_poll() asks every socket anew before it sleeps, twice, and when
// it wakes: two system calls each. Nor could another thread use the sockets while it sleeps.)
//
// Owns: the socket. Borrows: its context. Thread: one at a time. Blocks: never. Errors: SystemError when libzmq fails.
class ZmqChannel {
  public:
    ZmqChannel(zmq::context_t& context, zmq::socket_type type);

    zmq::socket_t& socket() { return socket_; }

    // False when no message waits. The frames of one message arrive together.
    bool receive_frame(zmq::message_t& frame);
    // Takes the message's payload frame. Our messages have one; of a longer one the rest is dropped, and no bytes
    // are given out, which no parser accepts.
    bool receive_payload(zmq::message_t& frame, Bytes& bytes);
    // False when the socket takes nothing for now (EAGAIN) or knows no such peer (EHOSTUNREACH): zmq_errno() has the
    // reason.
    bool send_frame(std::span<const std::byte> bytes, int flags);

    // No message waits, and the descriptor will say when one may.
    bool may_sleep();
    pollfd to_poll() const { return {fd_, POLLIN, 0}; }

  private:
    zmq::socket_t socket_;
    int fd_;
    bool saw_nothing_ = false;
};

}  // namespace offramp
