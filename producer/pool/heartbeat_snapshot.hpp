#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/process_own_fd.hpp"
#include "common/wire/ledger_layout.hpp"

namespace offramp {

// Reads the consumers' heartbeat records like an untrusted file. Consumers write them, maybe as another user, who may
// also truncate the object: access to a lost page of a mapping would kill the producer by SIGBUS. Records that cannot
// be read keep their last values.
//
// Owns: a descriptor, and a copy of the heartbeat records. Thread: the broker's. Blocks: never.
class HeartbeatSnapshot {
  public:
    // `name`: of the object. Errors: SystemError when it cannot be opened.
    HeartbeatSnapshot(const std::string& name, std::uint32_t consumer_capacity);

    // The address is fixed; refresh() changes the contents.
    std::span<const HeartbeatRecord> records() const { return heartbeats_; }
    void refresh() noexcept;

  private:
    ProcessOwnFd object_;
    std::vector<HeartbeatRecord> heartbeats_;
};

}  // namespace offramp
