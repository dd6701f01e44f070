#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.hpp"
#include "common/transport/endpoint.hpp"

namespace offramp {

// The descriptors that can end a consumer. Borrows them; -1 means absent.
struct WatchedFds {
    int producer = -1;  // a pidfd, readable when the producer is dead
    int lifeline = -1;  // a pipe whose end of file means that the launcher has died
    int signals = -1;   // readable when SIGTERM or SIGINT has arrived
};

// Waits until a live producer has published its endpoint in `run_dir`, looking every 50 ms; it ignores endpoints of
// dead producers. `nonce`: accepts only this run, which the caller met there before; unset: any run. Returns nothing
// when SIGTERM or SIGINT comes first, or when the wanted run is over and no other has replaced it. Blocks: up to
// `patience`.
//
// Errors: NoSuchRun when another run replaced the wanted one, the time is up or the lifeline ended; NotPermitted when
// the producer is in another pid namespace; ProtocolError for an unreadable file.
std::optional<Endpoint> find_run(const std::string& run_dir, const WatchedFds& fds, const Clock& clock,
                                 std::chrono::nanoseconds patience, std::optional<std::uint64_t> nonce = std::nullopt);

}  // namespace offramp
