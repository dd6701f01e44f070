#include "common/base/error.hpp"

#include <cerrno>
#include <cstring>
#include <string>

namespace offramp {
namespace {

// A lack of descriptors has one fix, independent of the attempt.
std::string fix_of(int errno_value, const std::string& hint) {
    if (errno_value == EMFILE) return "Raise the limit of open files (ulimit -n, LimitNOFILE= of a systemd unit)";
    if (errno_value == ENFILE) return "Raise the machine's limit of open files (sysctl fs.file-max)";
    return hint;
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& problem, const std::string& hint)
    : std::runtime_error(hint.empty() ? problem : problem + ". " + hint), kind_(kind) {}

SystemError::SystemError(const std::string& tried, int errno_value, const std::string& hint, ErrorKind kind)
    : Error(kind, tried + ": " + std::strerror(errno_value) + " (errno " + std::to_string(errno_value) + ")",
            fix_of(errno_value, hint)),
      errno_value_(errno_value) {}

std::string exception_text(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& problem) {
        return problem.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

}  // namespace offramp
