#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>

namespace offramp {

// Keeps the connections to a listening socket within the process's descriptors: libzmq ends the process when it has
// none left for another peer. A connection too many, of one process or of all, is shut down at once; whoever sits
// behind it tries again later.
//
// Borrows: the descriptors, which libzmq closes itself, a moment after it said so.
// Thread: one at a time. Blocks: never. Errors: never.
class ConnectionLimit {
  public:
    // A consumer needs two, one a channel; a process may hold several consumers.
    static constexpr std::size_t kMostOfOneProcess = 32;

    // `most`: of all processes together.
    explicit ConnectionLimit(std::size_t most = most_by_descriptors()) : most_(most) {}

    // False when it was one too many.
    bool accepted(int fd);
    void disconnected(int fd);

    std::size_t connections() const { return pids_.size(); }
    std::size_t refused() const { return refused_; }

    // Half of the descriptors that this process may open; the other half is for pidfds, files and what comes in
    // meanwhile.
    static std::size_t most_by_descriptors();

  private:
    std::size_t most_;
    std::map<int, pid_t> pids_;  // of living connections, by descriptor
    std::size_t refused_ = 0;
};

// For before a library is called that ends the process when it gets no descriptor. Errors: SystemError names `what`,
// how many may still be opened and how many are needed.
void require_free_descriptors(std::size_t needed, const std::string& what);

}  // namespace offramp
