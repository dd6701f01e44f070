#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/transport/peer_connections.hpp"

namespace offramp {

// libzmq requests descriptors from the system itself. It aborts the process if it gets none for a new peer or a new
// context, and forked children inherit all of them. So its system calls are redirected, once per process, to functions
// for the two classes below. Other users' contexts in the same libzmq get the system's descriptors, as before.

// Opens the descriptors for the creation of a context and its sockets in advance, so that a lack of descriptors is an
// error of the constructor. The destructor closes the unused ones.
//
// Thread: create the context in the same thread, while this object exists. Blocks: never. Errors: SystemError.
class ZmqDescriptors {
  public:
    // `room`: further descriptors to reserve for later use, such as connections; the destructor closes them.
    ZmqDescriptors(const std::string& what, std::size_t sockets, std::size_t room);
    ~ZmqDescriptors();
    ZmqDescriptors(const ZmqDescriptors&) = delete;
    ZmqDescriptors& operator=(const ZmqDescriptors&) = delete;

  private:
    friend struct ZmqCalls;

    void close_all() noexcept;

    std::vector<int> eventfds_;
    std::vector<int> epolls_;
};

// A socket at which libzmq accepts connections. If no descriptor is left for a peer, the peer waits in the socket's
// queue, and libzmq does not check the queue until retry(). A connection beyond the limit is closed immediately.
//
// Owns: the socket until disown(); after that, libzmq closes it. Borrows: the limit. It must outlive the context.
// Thread: any, one at a time; libzmq's own thread accepts. Blocks: never. Errors: the constructor throws SystemError.
class ZmqDoor {
  public:
    explicit ZmqDoor(ConnectionLimit& limit);
    ~ZmqDoor();
    ZmqDoor(const ZmqDoor&) = delete;
    ZmqDoor& operator=(const ZmqDoor&) = delete;

    int fd() const { return fd_; }
    void disown() noexcept { is_disowned_ = true; }
    void retry() noexcept;

  private:
    friend struct ZmqCalls;

    ConnectionLimit& limit_;
    int fd_;  // -1 once libzmq has closed it
    bool is_disowned_ = false;
    int epoll_ = -1;  // libzmq's epoll, and the event that it waits for
    epoll_event event_{};
    bool is_at_rest_ = false;
    bool was_reported_ = false;
    ZmqDoor* next_ = nullptr;
};

// A function that a shared library imports by name, and its replacement.
struct RedirectedImport {
    const char* name;
    void* replacement;
};

// Redirects imports of the loaded library that contains `function`: from now on it calls the replacements. Calls from
// other libraries and programs are unchanged. The replacements must stay loaded.
//
// Returns the number of `imports` that the library has; others are skipped. Thread: any; call it before the library is
// used. Blocks: never. Errors: SystemError if the library's table cannot be written.
std::size_t redirect_imports(const void* function, std::span<const RedirectedImport> imports);

}  // namespace offramp
