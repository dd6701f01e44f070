#pragma once

#include <string_view>

#include "common/transport/ports.hpp"

namespace offramp {

// Reads the property that libzmq attaches to a message that came over ipc: "localhost:UID:GID:PID", the last
// three from SO_PEERCRED. Anything else reads as pid 0 and the largest ids, which no process has: this peer
// is refused, not guessed at.
PeerCredentials parse_peer_address(std::string_view text);

}  // namespace offramp
