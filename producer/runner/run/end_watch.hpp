#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "common/base/end_signals.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Why a run is drained when its launcher has died.
inline constexpr const char* kLauncherGone = "the launcher is gone";

// Waits, on a thread of its own, for what may end a run from outside: SIGINT and SIGTERM (the first drains, the second
// abandons), and the end of the launcher's lifeline (drains). Also keeps the beat of the status file. Borrows: signals.
// Thread: the constructor's. Blocks: the destructor, shortly.
class EndWatch {
  public:
    struct Actions {
        std::function<void(const char* why)> drain;
        std::function<void(const char* why)> abandon;
        std::function<void()> beat;
        std::chrono::milliseconds beat_interval{500};
    };
    // `lifeline_fd`: -1 for none. The actions are called on the watch's thread; what they throw is logged.
    EndWatch(const EndSignals& signals, int lifeline_fd, Actions actions);
    ~EndWatch();
    EndWatch(const EndWatch&) = delete;
    EndWatch& operator=(const EndWatch&) = delete;

  private:
    void watch(int signals_fd, int lifeline_fd);

    Actions actions_;
    UniqueFd stop_;
    std::thread thread_;
};

}  // namespace offramp
