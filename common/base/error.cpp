#include "common/base/error.hpp"

#include <cstring>
#include <string>

namespace offramp {

Error::Error(ErrorKind kind, const std::string& what_happened, const std::string& hint)
    : std::runtime_error(hint.empty() ? what_happened : what_happened + ". " + hint), kind_(kind) {}

SystemError::SystemError(const std::string& tried, int errno_value, const std::string& hint, ErrorKind kind)
    : Error(kind, tried + ": " + std::strerror(errno_value) + " (errno " + std::to_string(errno_value) + ")", hint),
      errno_value_(errno_value) {}

}  // namespace offramp
