#include "producer/pool/heartbeats_copy.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/error.hpp"

namespace offramp {

CellsCopy::CellsCopy(const std::string& name, std::uint32_t consumer_capacity)
    : object_(::open(("/dev/shm" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)), cells_(consumer_capacity) {
    if (!object_) throw SystemError("opening the consumers' cells, shared memory " + name, errno);
    look_again();
}

// Each word is copied whole: the kernel copies aligned memory in larger pieces than words.
void CellsCopy::look_again() noexcept {
    while (::pread(object_.get(), cells_.data(), cells_.size() * sizeof(ConsumerCell), 0) < 0 && errno == EINTR)
        continue;
}

}  // namespace offramp
