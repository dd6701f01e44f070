#include "common/base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace offramp {

Error::Error(ErrorKind kind, const std::string& what_happened, const std::string& hint)
    : std::runtime_error(hint.empty() ? what_happened : what_happened + ". " + hint), kind_(kind) {}

SystemError::SystemError(const std::string& tried, int errno_value, const std::string& hint, ErrorKind kind)
    : Error(kind, tried + ": " + std::strerror(errno_value) + " (errno " + std::to_string(errno_value) + ")", hint),
      errno_value_(errno_value) {}

void fail_expectation(std::string_view contract, std::source_location where) {
    std::fprintf(stderr, "%s:%u: %s: broken contract: %.*s\n", where.file_name(), where.line(), where.function_name(),
                 static_cast<int>(contract.size()), contract.data());
    std::abort();
}

}  // namespace offramp
