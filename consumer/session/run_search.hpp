#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.hpp"
#include "common/transport/endpoint.hpp"

namespace offramp {

// The descriptors that can end a consumer. Borrows them; -1: there is none.
struct WatchedFds {
    int producer = -1;  // a pidfd: readable when the producer is dead
    int lifeline = -1;  // a pipe whose end of file means that the launcher is gone
    int signals = -1;   // readable when SIGTERM or SIGINT has come
};

// Waits until a live producer has published its endpoint in `run_dir`, looking every 50 ms; what a dead one
// left there does not count. `nonce`: of the one run that is wanted, which was met there before; without it any run is.
// Nothing when SIGTERM or SIGINT came first, or the wanted run is over and no other is there. Blocks: up to `patience`.
// Errors: NoSuchRun when another run is there than the wanted one, the time is up or the lifeline ended; NotPermitted
// when its producer is in another pid namespace; ProtocolError for an unreadable file.
std::optional<Endpoint> find_run(const std::string& run_dir, const WatchedFds& fds, const Clock& clock,
                                 std::chrono::nanoseconds patience, std::optional<std::uint64_t> nonce = std::nullopt);

}  // namespace offramp
