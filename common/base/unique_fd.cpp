#include "common/base/unique_fd.hpp"

#include <unistd.h>

namespace offramp {

void UniqueFd::reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace offramp
