#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/transport/endpoint.hpp"
#include "common/wire/messages.hpp"

namespace offramp {

// The sender of a message, verified by the kernel. pid 0: a process in a foreign pid namespace, which cannot be
// watched.
struct PeerCredentials {
    pid_t pid = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};

// A received message and its sender.
struct Inbound {
    std::string peer;  // work channel: the routing id for answers; free-list channel: empty
    PeerCredentials credentials;
    Bytes bytes;
};

enum class SendOutcome {
    Sent,
    PeerGone,   // the peer no longer exists
    QueueFull,  // the peer does not read its messages; the message was not sent
};

// The producer's end of both channels: work channel (ROUTER) and free-list channel (PULL).
// Thread: one at a time, synchronized by a lock; the same thread creates and destroys it. Blocks: only wait(). Errors:
// SystemError if the sockets cannot be created, or were taken over.
class BrokerPort {
  public:
    virtual ~BrokerPort() = default;
    virtual SendOutcome send(const std::string& peer, std::span<const std::byte> bytes) = 0;
    virtual bool try_receive_work(Inbound& inbound) = 0;
    virtual bool try_receive_release(Inbound& inbound) = 0;
    // True if a message may be waiting that does not wake another thread from wait().
    virtual bool may_have_messages() = 0;
    // For a thread that waits on several ports: false if a message may be waiting. Else adds the descriptors that will
    // be readable when one comes, for another port's wait().
    virtual bool prepare_wait(std::vector<int>& fds) = 0;
    // Returns when a message may be waiting, when one of `fds` is readable or hung up, or after `timeout`; may return
    // early.
    void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) {
        std::unique_lock<std::mutex> no_lock;
        wait(fds, timeout, no_lock);
    }
    // The same; releases `turn`, if held, during the sleep (like a condition variable), so that its next holder can
    // send.
    virtual void wait(std::span<const int> fds, std::chrono::nanoseconds timeout,
                      std::unique_lock<std::mutex>& turn) = 0;
};

// A consumer's end of both channels. Closing it may lose messages that the producer has not received yet: wait for an
// acknowledgement to be sure. Thread: the thread that created it. Blocks: wait(); and the destructor, for a second at
// most, while it sends its last messages.
class ConsumerPort {
  public:
    virtual ~ConsumerPort() = default;
    // Returns false if the producer accepts no message now: retry after wait().
    virtual bool send_work(std::span<const std::byte> bytes) = 0;
    virtual bool send_release(std::span<const std::byte> bytes) = 0;
    virtual bool try_receive(Bytes& bytes) = 0;
    virtual void wait(std::span<const int> fds, std::chrono::nanoseconds timeout) = 0;
};

// Ports over ZeroMQ and ipc:// sockets in the run directory, mode 0600 (0660 with `group_may_connect`). The socket
// drops a message beyond kMaxMessageBytes together with its connection (a new connection follows immediately). A
// message of several frames arrives as a message without bytes. Forked children inherit no descriptors of a port. If no
// descriptor is left for a peer, the peer waits until wait() finds one. Errors: SystemError, with ErrorKind::RunInUse
// if another process serves this run directory. wait() throws if a socket's path no longer refers to the socket. It
// checks at most once a second, and so returns after a second at the latest.
std::unique_ptr<BrokerPort> make_zmq_broker_port(const Endpoint& endpoint, bool group_may_connect = false);
std::unique_ptr<ConsumerPort> make_zmq_consumer_port(const Endpoint& endpoint);

}  // namespace offramp
