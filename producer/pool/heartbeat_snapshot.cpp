#include "producer/pool/heartbeat_snapshot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/error.hpp"

namespace offramp {

HeartbeatSnapshot::HeartbeatSnapshot(const std::string& name, std::uint32_t consumer_capacity)
    : object_(UniqueFd(::open(("/dev/shm" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW))),
      heartbeats_(consumer_capacity) {
    if (!object_) throw SystemError("opening the consumers' heartbeat records, shared memory " + name, errno);
    refresh();
}

// Copies each word whole: the kernel copies aligned memory in pieces larger than words.
void HeartbeatSnapshot::refresh() noexcept {
    while (::pread(object_.get(), heartbeats_.data(), heartbeats_.size() * sizeof(HeartbeatRecord), 0) < 0 &&
           errno == EINTR)
        continue;
}

}  // namespace offramp
