#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "common/transport/endpoint.hpp"
#include "common/wire/messages.hpp"

namespace offramp {

// The sender of a message, verified by the kernel. pid 0: a process of a foreign pid namespace, which cannot be
// watched.
struct PeerCredentials {
    pid_t pid = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};

// A message as it came, with its sender.
struct Inbound {
    std::string peer;  // work channel: the routing id to answer to; free-list channel: empty
    PeerCredentials credentials;
    Bytes bytes;
};

enum class SendOutcome {
    Sent,
    PeerGone,   // no such peer any more
    QueueFull,  // the peer does not take its messages; nothing was sent
};

// The producer's end of both channels: work channel (ROUTER) and free-list channel (PULL).
// Thread: one at a time, each with what the one before did in sight (a lock); it is made and destroyed by the same.
// Blocks: wait() only. Errors: SystemError when the sockets cannot be made or were taken over.
class BrokerPort {
  public:
    virtual ~BrokerPort() = default;
    virtual SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) = 0;
    virtual bool try_receive_work(Inbound& inbound) = 0;
    virtual bool try_receive_release(Inbound& inbound) = 0;
    // A message may be waiting that nothing would end a wait() for, which another thread is in.
    virtual bool may_have_messages() = 0;
    // Returns when a message may be waiting, one of `fds` is readable or hung up, or the time is up; may
    // return early.
    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) {
        std::unique_lock<std::mutex> no_lock;
        wait(fds, timeout, no_lock);
    }
    // The same; `turn`, if held, is released during the sleep, as by a condition variable, so that its next holder may
    // send.
    virtual void wait(std::span<const int> fds, std::chrono::nanoseconds timeout,
                      std::unique_lock<std::mutex>& turn) = 0;
};

// A consumer's end. Messages that were not yet received may be lost when it is closed: wait for an acknowledgement to
// be sure. Thread: the one that made it. Blocks: wait(); and the destructor, for a second at most, while its last
// messages leave.
class ConsumerPort {
  public:
    virtual ~ConsumerPort() = default;
    // False when the producer takes nothing for now: try again after wait().
    virtual bool send_work(std::span<const std::byte> bytes) = 0;
    virtual bool send_release(std::span<const std::byte> bytes) = 0;
    virtual bool try_receive(Bytes& bytes) = 0;
    virtual void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) = 0;
};

// Over ZeroMQ and ipc:// sockets in the run directory, mode 0600 (0660 with `group_may_connect`). A message beyond
// kMaxMessageBytes is dropped by the socket, together with its connection (a new one is made immediately). A message of
// several frames arrives as one without bytes. A forked child inherits no descriptor of a port. Where none is left for
// a peer, it waits until wait() finds that there is one. Errors: SystemError, with ErrorKind::RunInUse when another
// process serves this run directory. wait() throws when a socket's path no longer refers to the socket, checking at
// most once a second (and therefore returns after a second at the latest).
std::unique_ptr<BrokerPort> make_zmq_broker_port(const Endpoint& endpoint, bool group_may_connect = false);
std::unique_ptr<ConsumerPort> make_zmq_consumer_port(const Endpoint& endpoint);

}  // namespace offramp
