#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Lets one of several programs compute on a shared device at a time: the holder of the exclusive lock (flock) on a
// common file. The others wait with everything loaded, and continue as soon as it is released.
//
// Owns: the file's descriptor. The kernel releases the turn when the process ends for any reason; no child keeps it.
// Thread: take() and its result: one; the stats: any. Blocks: take(). Errors: SystemError, from the constructor also if
// the file cannot be locked at all.
class ComputeTurn {
  public:
    // The right to compute; it ends with this object, which the turn outlives.
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

    // `path`: the file, created if it is missing; empty: there are no others, and take() does not wait.
    explicit ComputeTurn(const std::string& path);
    ComputeTurn(const ComputeTurn&) = delete;
    ComputeTurn& operator=(const ComputeTurn&) = delete;

    // Call it once. Nothing: is_wanted(), checked every few milliseconds, returned false before the others released it.
    std::optional<Held> take(const std::function<bool()>& is_wanted);

    bool is_shared() const { return static_cast<bool>(file_); }
    bool is_waiting() const { return waiting_since_ns_ != 0; }
    double waited_seconds() const;

  private:
    bool lock(int operation) const;
    void give_back() noexcept { file_ = {}; }

    const std::string path_;
    ProcessOwnFd file_;  // none: there are no others, or the turn was released
    std::atomic<std::uint64_t> waiting_since_ns_{0}, waited_ns_{0};
};

}  // namespace offramp
