#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace offramp {

// Passes one number at a time from a ROUTER to a DEALER in another process over ipc://, like the work channel, to
// measure libzmq alone from send to receive between two sleeping sides. Forks: call it while the process has one
// thread. Blocks: for `length`. Errors: zmq::error_t, SystemError.
std::vector<std::uint64_t> bare_channel_latencies_ns(std::chrono::duration<double> length,
                                                     std::chrono::duration<double> pause);

}  // namespace offramp
