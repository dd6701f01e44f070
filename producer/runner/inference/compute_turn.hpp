#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/base/process_own_fd.hpp"

namespace offramp {

// One program at a time computes on a device that several share: who has the exclusive lock (flock) on a file that all
// of them name. The others wait with all that they need for it loaded, and go on the moment it is given back.
//
// Owns: the file's descriptor. The kernel gives the turn back when the process ends, however it does; none of its
// children keeps it. Thread: take() and what it returns: one; the stats: any. Blocks: take(). Errors: SystemError,
// from the constructor also where the file cannot be locked at all.
class ComputeTurn {
  public:
    // To compute; it ends with this object, which the turn outlives.
    class Held {
      public:
        explicit Held(ComputeTurn& turn) noexcept : turn_(&turn) {}
        Held(Held&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}
        Held& operator=(Held&&) = delete;
        ~Held() {
            if (turn_ != nullptr) turn_->give_back();
        }

      private:
        ComputeTurn* turn_;
    };

    // `path`: the file, which is made if it is not there; empty: there are no others, and nobody is waited for.
    explicit ComputeTurn(const std::string& path);
    ComputeTurn(const ComputeTurn&) = delete;
    ComputeTurn& operator=(const ComputeTurn&) = delete;

    // Once. Nothing: it was not wanted any more before the others gave it back, which is asked every few milliseconds.
    std::optional<Held> take(const std::function<bool()>& is_wanted);

    bool is_shared() const { return static_cast<bool>(file_); }
    bool is_waiting() const { return waiting_since_ns_ != 0; }
    double waited_seconds() const;

  private:
    bool lock(int operation) const;
    void give_back() noexcept { file_ = {}; }

    const std::string path_;
    ProcessOwnFd file_;  // none: there are no others, or the turn was given back
    std::atomic<std::uint64_t> waiting_since_ns_{0}, waited_ns_{0};
};

}  // namespace offramp
