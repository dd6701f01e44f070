#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/process_own_fd.hpp"
#include "common/wire/ledger_layout.hpp"

namespace offramp {

// Looks at the consumers' heartbeat records as at a file of strangers: consumers write them, maybe as another
// user, who may also cut their object short, and a look at a mapping's lost page would be the producer's death
// by SIGBUS. What cannot be read keeps its last value.
//
// Owns: a descriptor, and a copy of the heartbeat records. Thread: the broker's. Blocks: never.
class HeartbeatSnapshot {
  public:
    // `name`: of the object. Errors: SystemError when it cannot be opened.
    HeartbeatSnapshot(const std::string& name, std::uint32_t consumer_capacity);

    // Stays where it is; its contents change with refresh().
    std::span<const HeartbeatRecord> records() const { return heartbeats_; }
    void refresh() noexcept;

  private:
    ProcessOwnFd object_;
    std::vector<HeartbeatRecord> heartbeats_;
};

}  // namespace offramp
