#include "common/base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace offramp {

Error::Error(ErrorKind kind, const std::string& what_happened, const std::string& hint)
    : std::runtime_error(hint.empty() ? what_happened : what_happened + ". " + hint), kind_(kind) {}

SystemError::SystemError(const std::string& tried, int errno_value, const std::string& hint, ErrorKind kind)
    : Error(kind, tried + ": " + std::strerror(errno_value) + " (errno " + std::to_string(errno_value) + ")", hint),
      errno_value_(errno_value) {}

#if defined(OFFRAMP_BUILDING)  // libofframp.so, in somebody else's process
void fail_expectation(std::string_view contract, std::source_location where) {
    throw Error(ErrorKind::Internal, "a fault of ours: " + std::string(contract) + ", at " + where.file_name() + ":" +
                                         std::to_string(where.line()));
}
#else
void fail_expectation(std::string_view contract, std::source_location where) {
    std::fprintf(stderr, "%s:%u: %s: broken contract: %.*s\n", where.file_name(), where.line(), where.function_name(),
                 static_cast<int>(contract.size()), contract.data());
    std::abort();
}
#endif

}  // namespace offramp
