#pragma once

namespace offramp {

// The descriptors that can end a consumer. Borrows them; -1: there is none.
struct WatchedFds {
    int producer = -1;  // a pidfd: readable when the producer is dead
    int lifeline = -1;  // a pipe whose end of file means that the launcher is gone
    int signals = -1;   // readable when SIGTERM or SIGINT has come
};

}  // namespace offramp
