#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace offramp {

// Passes one number at a time from a ROUTER to a DEALER in another process, over ipc://, as the work channel does, with
// nothing of ours around it: what libzmq alone takes from send to receive, both sides asleep before. Forks: must be
// called while the process has one thread. Blocks: for `length`. Errors: zmq::error_t, SystemError.
std::vector<std::uint64_t> bare_channel_latencies_ns(std::chrono::duration<double> length,
                                                     std::chrono::duration<double> pause);

}  // namespace offramp
