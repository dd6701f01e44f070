#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace offramp {

// Counts the connections to listening sockets, of each process and of all. A refused client retries later.
//
// Borrows: the descriptors. Thread: any. Blocks: never. Errors: never.
class ConnectionLimit {
  public:
    // A consumer needs two, one a channel; a process may hold several consumers.
    static constexpr std::size_t kMostOfOneProcess = 32;

    // `most`: of all processes together.
    explicit ConnectionLimit(std::size_t most = most_by_descriptors()) : most_(most) {}

    // False when it is one too many: close it.
    bool accepted(int fd);
    void disconnected(int fd);

    std::size_t connections() const;
    std::size_t refused() const;

    // Half of the descriptors that this process may open; the other half is for pidfds, files and what comes in
    // meanwhile.
    static std::size_t most_by_descriptors();

  private:
    std::size_t most_;
    mutable std::mutex mutex_;
    std::map<int, pid_t> pids_;  // of living connections, by descriptor
    std::size_t refused_ = 0;
};

}  // namespace offramp
