#pragma once

namespace offramp {

// Readable, or for a pipe hung up. Never blocks; false for -1.
bool has_input(int fd);
// The other end of a pipe or socket is gone, or the descriptor is none. Never blocks; false for -1.
bool hung_up(int fd);

}  // namespace offramp
