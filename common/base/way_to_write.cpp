#include "common/base/way_to_write.hpp"

#include <cerrno>

namespace offramp {

std::string way_to_write(int errno_value, const std::string& otherwise) {
    switch (errno_value) {
        case ENOSPC:
            return "Free space on that file system";
        case EDQUOT:
            return "The quota there is used up: remove files, or have it raised";
        case EFBIG:
            return "A limit on the size of files is reached: raise it (ulimit -f, LimitFSIZE= of a systemd unit)";
        default:
            return otherwise;
    }
}

}  // namespace offramp
