#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/transport/listening_socket.hpp"

namespace offramp {

// libzmq asks the system for descriptors itself. It ends the process when it gets none for a new peer or a new context,
// and forked children inherit all of them. So its system calls are redirected, once a process, to functions that serve
// the two classes below. Contexts that others make with the same libzmq get what the system gives, as before.

// The descriptors that a context and its sockets take while they are made, opened beforehand: a lack of descriptors is
// an error of the constructor. The destructor closes those that are left.
//
// Thread: the context is made by the same thread, while this lives. Blocks: never. Errors: SystemError.
class ZmqDescriptors {
  public:
    // `room`: as many more, for what is opened afterwards, such as connections; closed by the destructor.
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

// A socket at which libzmq accepts connections. When no descriptor is left for a peer, the peer waits in the socket's
// queue, and libzmq does not look at the queue until retry(). A connection beyond the limit is closed immediately.
//
// Owns: the socket until disown(); libzmq closes it from then on. Borrows: the limit. It outlives the context.
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
    int epoll_ = -1;  // libzmq's, and what it wants to hear there
    epoll_event event_{};
    bool is_at_rest_ = false;
    bool was_reported_ = false;
    ZmqDoor* next_ = nullptr;
};

// A function that a shared library imports by name, and the one that it calls instead.
struct RedirectedImport {
    const char* name;
    void* replacement;
};

// Redirects imports of the loaded library that contains `function`: its calls of these functions go to the
// replacements from now on. Calls from any other library or program are unchanged. The replacements must stay loaded.
//
// Returns how many of `imports` the library has: one that it does not import is passed over. Thread: any; call it
// before the library is used. Blocks: never. Errors: SystemError where the library's table cannot be written.
std::size_t redirect_imports(const void* function, std::span<const RedirectedImport> imports);

}  // namespace offramp
