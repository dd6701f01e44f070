#pragma once

namespace offramp {

// The descriptors that can end a consumer. Borrows them; -1: there is none.
struct WatchedFds {
    int producer = -1;  // a pidfd: readable when the producer is dead
    int lifeline = -1;  // a pipe whose end of file says that the launcher is gone
    int signals = -1;   // readable when SIGTERM or SIGINT has come
};

// Readable, or for a pipe hung up. Never blocks; false for -1.
bool has_input(int fd);
// The other end of a pipe or socket is gone, or the descriptor is none. Never blocks; false for -1.
bool hung_up(int fd);

}  // namespace offramp
